"""Session tokens and their keys, and everything that only looks like one."""

import hmac
import json
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from access.world import make_user
from clocks import HandClock
from launchbay.access.actor import Method
from launchbay.access.bearer import SessionTokens
from launchbay.access.key_ring import KeyRing
from launchbay.access.lookup import Lookups
from launchbay.access.secret_key import SealBroken, SecretKey, read_secret_key
from launchbay.errors import NotAuthenticated
from launchbay.ids import new_id
from launchbay.model.user import User
from launchbay.store import users
from launchbay.store.pool import Database

ISSUER = "https://launchbay.example.org"
LIFETIME_S = 36_000


class World:
    """One server on a database; `another_server` starts another one on the same."""

    def __init__(self, database: Database, ann: User, secret: SecretKey, clock: HandClock) -> None:
        self.database = database
        self.ann = ann
        self.secret = secret
        self.clock = clock
        self.keys = KeyRing(database, secret, clock, LIFETIME_S)
        self.sessions = SessionTokens(self.keys, clock, ISSUER, LIFETIME_S)

    def another_server(self) -> "World":
        return World(self.database, self.ann, self.secret, self.clock)

    async def token(self) -> str:
        return (await self.sessions.issue(self.ann)).token

    async def accepts(self, token: str) -> bool:
        try:
            actor = await self.sessions.authenticate(token, "198.51.100.7")
        except NotAuthenticated:
            return False
        assert actor.user_id == self.ann.id
        return True

    async def key_ids(self) -> list[str]:
        async with self.database.connection() as connection:
            cursor = await connection.execute("SELECT id FROM session_keys ORDER BY created_at")
            return [key_id for (key_id,) in await cursor.fetchall()]

    async def let_keys_age(self, seconds: float) -> None:
        """Make every key older on the database's clock, and let this server's memory of them age too."""
        async with self.database.connection() as connection:
            await connection.execute(
                "UPDATE session_keys SET created_at = created_at - %s * interval '1 second'", [seconds]
            )
        self.clock.advance(301)


@pytest.fixture
async def world(database: Database, tmp_path: Path) -> World:
    async with database.connection() as connection:
        ann_id = await make_user(connection)
        ann = await users.by_id(connection, id=ann_id)
    assert ann is not None
    return World(database, ann, read_secret_key(tmp_path / "secret.key"), HandClock())


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def opened(token: str, index: int) -> dict[str, Any]:
    text = token.split(".")[index]
    read: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return read


async def test_a_session_token_names_its_caller(world: World) -> None:
    session = await world.sessions.issue(world.ann)
    actor = await world.sessions.authenticate(session.token, "198.51.100.7")
    assert (actor.user_id, actor.email, actor.name) == (world.ann.id, world.ann.email, world.ann.name)
    assert (actor.method, actor.stamp, actor.address) == (Method.BEARER, None, "198.51.100.7")
    assert session.expires_in_s == LIFETIME_S
    async with world.database.connection() as connection:
        assert (await Lookups(print).on(connection, actor).caller()) == world.ann


async def test_a_session_token_says_who_and_how_long_and_nothing_about_permissions(world: World) -> None:
    token = await world.token()
    assert opened(token, 0) == {"typ": "JWT", "alg": "EdDSA", "kid": (await world.key_ids())[0]}
    claims = opened(token, 1)
    assert claims == {
        "iss": ISSUER,
        "aud": "launchbay",
        "sub": world.ann.id,
        "iat": int(world.clock.now().timestamp()),
        "exp": int(world.clock.now().timestamp()) + LIFETIME_S,
        "email": world.ann.email,
        "name": world.ann.name,
    }


async def test_a_session_token_ends_at_its_end_even_when_it_was_verified_before(world: World) -> None:
    token = await world.token()
    assert await world.accepts(token)
    world.clock.advance(LIFETIME_S - 1)
    assert await world.accepts(token)
    world.clock.advance(1)
    assert not await world.accepts(token)
    assert not await world.another_server().accepts(token)


async def test_every_server_of_the_database_accepts_it_and_makes_no_key_of_its_own(world: World) -> None:
    token = await world.token()
    other = world.another_server()
    assert await other.accepts(token)
    assert await world.accepts(await other.token())
    assert len(await world.key_ids()) == 1


async def test_a_rotation_ends_no_session_and_the_new_key_signs_once_every_server_could_learn_of_it(
    world: World,
) -> None:
    other = world.another_server()
    old_token = await world.token()
    assert await other.accepts(old_token)
    await world.keys.rotate()
    old, new = await world.key_ids()
    assert opened(await world.token(), 0)["kid"] == old
    await world.let_keys_age(10)
    new_token = await world.token()
    assert opened(new_token, 0)["kid"] == new
    for server in (world, other, world.another_server()):
        assert await server.accepts(old_token)
        assert await server.accepts(new_token)


async def test_a_key_is_dropped_when_everything_it_signed_has_expired(world: World) -> None:
    await world.token()
    await world.keys.rotate()
    old, new = await world.key_ids()
    await world.let_keys_age(LIFETIME_S)
    await world.token()
    assert await world.key_ids() == [old, new]
    await world.let_keys_age(3601)
    await world.token()
    assert await world.key_ids() == [new]


async def test_what_a_dropped_key_signed_is_refused_although_it_was_verified_before(world: World) -> None:
    token = await world.token()
    assert await world.accepts(token)
    async with world.database.connection() as connection:
        await connection.execute("DELETE FROM session_keys")
    world.clock.advance(301)
    assert not await world.accepts(token)


async def test_keys_rotate_by_themselves_after_a_month(world: World) -> None:
    await world.token()
    await world.let_keys_age(31 * 24 * 3600)
    await world.token()
    assert len(await world.key_ids()) == 2


async def test_many_servers_starting_at_once_make_one_key(world: World) -> None:
    servers = [world.another_server() for _ in range(6)]
    tokens = [await server.token() for server in servers]
    assert len(await world.key_ids()) == 1
    assert all([await world.accepts(token) for token in tokens])


async def test_unknown_key_ids_cause_one_query_in_five_seconds_whoever_sends_them(world: World) -> None:
    await world.token()
    world.clock.advance(6)
    reads = 0
    refresh = world.keys._refresh

    async def counted(*, new_key: bool) -> None:
        nonlocal reads
        reads += 1
        await refresh(new_key=new_key)

    world.keys._refresh = counted  # type: ignore[method-assign]
    for _ in range(50):
        header = {"alg": "EdDSA", "typ": "JWT", "kid": new_id()}
        assert not await world.accepts(f"{part(header)}.{part({})}.{part(b'x' * 64)}")
    assert reads == 1


async def test_keys_are_sealed_in_the_database_and_another_secret_key_does_not_open_them(world: World) -> None:
    await world.token()
    stranger = World(world.database, world.ann, SecretKey(b"x" * 32), world.clock)
    with pytest.raises(SealBroken):
        await stranger.token()


async def forgeries(world: World) -> dict[str, str]:
    """What attackers send, by what they try."""
    good = await world.token()
    header, claims, signature = good.split(".")
    signing = await world.keys.signing()
    known, values = opened(good, 0), opened(good, 1)
    public = signing.key.as_pem(private=False)

    def signed(header: dict[str, Any], claims: dict[str, Any] = values, key: Any = signing.key) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # of the name EdDSA
            return jwt.encode(header, claims, key, algorithms=[header["alg"]], default_type=None)

    def hmac_signed(secret: bytes) -> str:
        data = f"{part(known | {'alg': 'HS256'})}.{claims}"
        return f"{data}.{part(hmac.digest(secret, data.encode(), 'sha256'))}"

    def raw(payload: bytes) -> str:
        data = f"{header}.{part(payload)}"
        private = signing.key.private_key
        assert isinstance(private, Ed25519PrivateKey)
        return f"{data}.{part(private.sign(data.encode()))}"

    stranger = OKPKey.generate_key("Ed25519")
    forged = {
        "alg none": f"{part(known | {'alg': 'none'})}.{claims}.",
        "alg None": f"{part(known | {'alg': 'None'})}.{claims}.",
        "alg none with the signature": f"{part(known | {'alg': 'none'})}.{claims}.{signature}",
        "no signature": f"{header}.{claims}.",
        "two parts": f"{header}.{claims}",
        "four parts": f"{good}.{signature}",
        "five parts": f"{header}.{claims}.{signature}.{signature}.{signature}",
        "the public key as HMAC secret": hmac_signed(public),
        "the public key as HMAC secret, without its last line end": hmac_signed(public.strip()),
        "the raw public key as HMAC secret": hmac_signed(signing.key.public_key.public_bytes_raw()),
        "another EdDSA key under our kid": signed(known, key=stranger),
        "an EC key under our kid": signed(known | {"alg": "ES256"}, key=ECKey.generate_key("P-256")),
        "an RSA key under our kid": signed(known | {"alg": "RS256"}, key=RSAKey.generate_key(2048)),
        "unknown kid": signed(known | {"kid": new_id()}),
        "kid of another kind": f"{part(known | {'kid': ['x']})}.{claims}.{signature}",
        "kid with a path": signed(known | {"kid": "../../etc/passwd"}),
        "no kid": signed({"alg": "EdDSA", "typ": "JWT"}),
        "own key in the header": signed(known | {"jwk": stranger.as_dict(private=False)}, key=stranger),
        "key address in the header": f"{part(known | {'jku': 'https://evil.example'})}.{claims}.{signature}",
        "critical extension": f"{part(known | {'crit': ['exp']})}.{claims}.{signature}",
        "unencoded payload": f"{part(known | {'b64': False, 'crit': ['b64']})}.{claims}.{signature}",
        "another typ": signed(known | {"typ": "at+jwt"}),
        "expired": signed(known, values | {"exp": values["iat"]}),
        "wrong issuer": signed(known, values | {"iss": "https://other.example.org"}),
        "wrong audience": signed(known, values | {"aud": "another"}),
        "many audiences": signed(known, values | {"aud": ["launchbay", "another"]}),
        "no issuer": signed(known, {k: v for k, v in values.items() if k != "iss"}),
        "no audience": signed(known, {k: v for k, v in values.items() if k != "aud"}),
        "no end": signed(known, {k: v for k, v in values.items() if k != "exp"}),
        "an end that is text": signed(known, values | {"exp": str(values["exp"])}),
        "an end that is true": signed(known, values | {"exp": True}),
        "an end beyond numbers": raw(json.dumps(values).replace(str(values["exp"]), "1e999").encode()),
        "an end that is no number": raw(json.dumps(values).replace(str(values["exp"]), "NaN").encode()),
        "no subject": signed(known, {k: v for k, v in values.items() if k != "sub"}),
        "a subject that is a number": signed(known, values | {"sub": 7}),
        "a subject that is no id": signed(known, values | {"sub": "admin"}),
        "no labels": signed(known, {k: v for k, v in values.items() if k not in {"email", "name"}}),
        "claims that are a list": raw(b"[]"),
        "claims that are text": raw(b'"x"'),
        "claims that nest": raw(b"[" * 1000),
        "claims that are no JSON": raw(b"{"),
        "claims in Latin-1": raw(b'{"sub": "\xe9"}'),
        "header that is a list": f"{part([])}.{claims}.{signature}",
        "header that is null": f"{part(None)}.{claims}.{signature}",
        "header that nests": f"{part(b'[' * 300)}.{claims}.{signature}",
        "header with a name twice": part(b'{"alg":"none","alg":"EdDSA","typ":"JWT","kid":"x"}')
        + f".{claims}.{signature}",
        "header that is no base64": f"!!!.{claims}.{signature}",
        "changed claims": f"{header}.{part(values | {'sub': new_id()})}.{signature}",
        "a longer signature": f"{good}AAAA",
        "padding": f"{good}==",
        "a refresh token": "lbr_" + "x" * 43,
        "oversize": good + "A" * 5000,
        "oversize header": f"{part(known | {'x': 'y' * 3000})}.{claims}.{signature}",
        "empty": "",
        "dots": "..",
        "not ASCII": good[:-1] + "é",
        "NUL": good + "\0",
        "a JSON object": json.dumps({"payload": claims, "signature": signature, "protected": header}),
    }
    assert await world.accepts(good), "the good token is good"
    assert await world.accepts(signed(known)), "what the forgeries are made from is good too"
    return forged


async def test_everything_that_only_looks_like_a_session_token_is_refused(world: World) -> None:
    forged = await forgeries(world)
    accepted = [attempt for attempt, token in forged.items() if await world.accepts(token)]
    assert accepted == []
    assert len(forged) > 50


async def test_a_token_of_another_installation_is_refused(world: World) -> None:
    other = SessionTokens(world.keys, world.clock, "https://other.example.org", LIFETIME_S)
    token = (await other.issue(world.ann)).token
    assert not await world.accepts(token)


@pytest.fixture
async def good_token(world: World) -> str:
    return await world.token()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
async def test_no_changed_character_survives(world: World, good_token: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(good_token) - 1))
    character = data.draw(st.characters(codec="ascii"))
    changed = good_token[:index] + character + good_token[index + 1 :]
    assert await world.accepts(changed) == (changed == good_token)


async def test_no_other_spelling_of_the_signature_is_accepted(world: World) -> None:
    good = await world.token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/="
    accepted = [last for last in alphabet if await world.accepts(good[:-1] + last)]
    assert accepted == [good[-1]]
