"""ID tokens that break a rule are refused, one rule at a time; keys that change are found."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import structlog
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from launchbay.auth.openid import ProviderMetadata, verify_claims
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import NotAuthenticated, Unavailable
from tests.support.clock import HandClock
from tests.support.network import LoopbackServer, answer, loopback_server

KEY = RSAKey.generate_key(2048, {"kid": "first"})
OTHER = RSAKey.generate_key(2048, {"kid": "second"})
CURVE = ECKey.generate_key("P-256", {"kid": "curve"})
NONCE = "the nonce of the attempt"
CLIENT = "launchbay"


class Bench:
    """A provider's metadata and keys on loopback, and what reads them."""

    def __init__(self, server: LoopbackServer) -> None:
        self.server = server
        self.issuer = server.url("").rstrip("/")
        self.clock = HandClock()
        self.metadata = ProviderMetadata(self.issuer, EgressClient(Allowlist.parse("127.0.0.1")), self.clock)
        self.notify()
        self.sign_with(KEY, CURVE)

    def notify(self, **changes: Any) -> None:
        """Let the provider say this of itself."""
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            **changes,
        }
        told = {name: value for name, value in document.items() if value is not None}
        self.server.routes["/.well-known/openid-configuration"] = answer(body=msgspec.json.encode(told))

    def sign_with(self, *keys: Any) -> None:
        """Let the provider publish these keys."""
        self.server.routes["/keys"] = answer(body=msgspec.json.encode(KeySet(list(keys)).as_dict(private=False)))

    def token(self, key: Any = KEY, algorithm: str = "RS256", kid: str | None = "first", **changes: Any) -> str:
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "anna",
            "iat": now,
            "exp": now + 300,
            "nonce": NONCE,
            "email": "anna@example.org",
            **changes,
        }
        header = {"alg": algorithm} | ({} if kid is None else {"kid": kid})
        present = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(header, present, key, algorithms=[algorithm])

    async def claims(self, token: object) -> dict[str, Any]:
        return await verify_claims(token, self.metadata, CLIENT, NONCE, self.clock)

    def key_requests(self) -> int:
        return len([received for received in self.server.received if received.target == "/keys"])


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with loopback_server() as server:
        yield Bench(server)


async def test_a_token_that_keeps_every_rule_is_taken(bench: Bench) -> None:
    claims = await bench.claims(bench.token())
    assert (claims["sub"], claims["email"]) == ("anna", "anna@example.org")
    assert (await bench.claims(bench.token(aud=[CLIENT, "other"], azp=CLIENT)))["sub"] == "anna"
    assert (await bench.claims(bench.token(CURVE, "ES256", "curve")))["sub"] == "anna"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another client"},
        {"aud": ["another client"]},
        {"aud": None},
        {"azp": "another client"},
        {"sub": None},
        {"sub": ""},
        {"sub": 17},
        {"sub": "x" * 256},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"iat": 2**40},
        {"nonce": "another nonce"},
        {"nonce": None},
        {"nbf": 2**40},
    ],
    ids=str,
)
async def test_a_token_that_breaks_a_rule_is_refused(bench: Bench, changes: dict[str, Any]) -> None:
    with pytest.raises(NotAuthenticated, match="cannot be trusted"):
        await bench.claims(bench.token(**changes))


async def test_a_token_is_good_for_its_time_and_a_minute(bench: Bench) -> None:
    token = bench.token()
    bench.clock.advance(330)
    await bench.claims(token)
    bench.clock.advance(60)
    with pytest.raises(NotAuthenticated):
        await bench.claims(token)


async def test_signatures_of_others_and_with_shared_secrets_are_refused(bench: Bench) -> None:
    impostor = RSAKey.generate_key(2048, {"kid": "first"})
    shared = OctKey.import_key("client-secret-client-secret-client-secret")
    head, body, signature = bench.token().split(".")
    for token in (
        bench.token(impostor),
        bench.token(shared, "HS256"),
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}",
        "",
        "é",
        None,
        17,
    ):
        with pytest.raises(NotAuthenticated):
            await bench.claims(token)


async def test_a_token_without_a_signature_is_refused(bench: Bench) -> None:
    def part(document: dict[str, Any]) -> str:
        return bench.token(**document).split(".")[1]

    unsigned = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    with pytest.raises(NotAuthenticated):
        await bench.claims(f"{unsigned}.{part({})}.")


async def test_a_new_key_of_the_provider_is_found_but_not_asked_for_all_the_time(bench: Bench) -> None:
    await bench.claims(bench.token())
    bench.sign_with(KEY, OTHER)
    with pytest.raises(NotAuthenticated):
        await bench.claims(bench.token(OTHER, kid="second"))
    assert bench.key_requests() == 1, "it was asked just now"
    bench.clock.advance(61)
    assert (await bench.claims(bench.token(OTHER, kid="second")))["sub"] == "anna"
    for number in range(20):
        with pytest.raises(NotAuthenticated):
            await bench.claims(bench.token(OTHER, kid=f"unknown {number}"))
    assert bench.key_requests() == 2


async def test_a_key_that_the_provider_withdraws_is_forgotten(bench: Bench) -> None:
    await bench.claims(bench.token())
    bench.sign_with(OTHER)
    bench.clock.advance(3601)
    with pytest.raises(NotAuthenticated):
        await bench.claims(bench.token())


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": None},
        {"jwks_uri": "ftp://x.example"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"id_token_signing_alg_values_supported": "RS256"},
    ],
    ids=str,
)
async def test_a_provider_that_tells_nonsense_is_not_used(bench: Bench, changes: dict[str, Any]) -> None:
    bench.notify(**changes)
    with pytest.raises(Unavailable):
        await bench.metadata.endpoints()


@pytest.mark.parametrize("body", [b"", b"[]", b"no JSON", b'{"keys": 5}', b"\xff\xfe"])
async def test_metadata_and_keys_that_cannot_be_read_are_unavailable(bench: Bench, body: bytes) -> None:
    bench.server.routes["/keys"] = answer(body=body)
    with pytest.raises((Unavailable, NotAuthenticated)):
        await bench.claims(bench.token())
    bench.server.routes["/.well-known/openid-configuration"] = answer(body=body)
    bench.clock.advance(3601)
    with pytest.raises(Unavailable):
        await bench.metadata.endpoints()


ODD_KEYS: list[Any] = [
    {"kty": "OKP", "crv": "Ed999", "x": "AA", "kid": "odd"},  # a curve of next year
    {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
    {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},  # no point of the curve
    {"kty": "RSA", "n": "AQAB"},  # without e
    {"kty": "RSA", "n": "?", "e": "AQAB"},
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
    {"kty": "oct", "k": "c2hhcmVk"},
    {"kid": "of no type"},
    "no object",
    None,
]


@pytest.mark.parametrize("odd", ODD_KEYS, ids=str)
async def test_a_key_that_cannot_be_used_stops_nobody(bench: Bench, odd: Any) -> None:
    good = KEY.as_dict(private=False)
    bench.server.routes["/keys"] = answer(body=msgspec.json.encode({"keys": [odd, good, odd]}))
    with structlog.testing.capture_logs() as logs:
        assert (await bench.claims(bench.token()))["sub"] == "anna"
    assert [entry["event"] for entry in logs] == ["openid.key_ignored"] * 2
    bench.server.routes["/keys"] = answer(body=msgspec.json.encode({"keys": [odd]}))
    bench.clock.advance(3601)
    with pytest.raises(Unavailable):
        await bench.claims(bench.token())


@pytest.mark.parametrize("listed", ["EdDSA", "Ed25519"])
@pytest.mark.parametrize("used", ["EdDSA", "Ed25519"])
async def test_both_names_of_the_algorithm_of_edwards_curves_are_taken(bench: Bench, listed: str, used: str) -> None:
    key = OKPKey.generate_key("Ed25519", {"kid": "edwards"})
    bench.sign_with(KEY, key)
    bench.notify(id_token_signing_alg_values_supported=[listed])
    assert (await bench.claims(bench.token(key, used, "edwards")))["sub"] == "anna"
    with pytest.raises(NotAuthenticated):
        await bench.claims(bench.token())  # RS256 isn't listed
