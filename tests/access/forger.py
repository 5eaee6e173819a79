"""Makes what only looks like a session token, by what an attacker tries."""

import hmac
import json
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from launchbay.ids import new_id


def part(value: Any) -> str:
    """Return one part of a token: the bytes, or the JSON of any other value, in unpadded base64."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def opened(token: str, index: int) -> dict[str, Any]:
    """Return the JSON in a part of a token."""
    text = token.split(".")[index]
    read: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return read


class Forger:
    """Knows a good token and, worse than any attacker, the key that signed it."""

    def __init__(self, good: str, key: OKPKey) -> None:
        self.good = good
        self.key = key
        self.header = opened(good, 0)
        self.claims = opened(good, 1)
        self.parts = good.split(".")

    def signed(self, header: dict[str, Any], claims: dict[str, Any] | None = None, key: Any = None) -> str:
        """Return a token with a signature that fits its header, by our key or another one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # of the name EdDSA
            return jwt.encode(
                header, claims or self.claims, key or self.key, algorithms=[header["alg"]], default_type=None
            )

    def signed_bytes(self, payload: bytes) -> str:
        """Return a token with our good signature over any payload at all."""
        data = f"{self.parts[0]}.{part(payload)}"
        private = self.key.private_key
        assert isinstance(private, Ed25519PrivateKey)
        return f"{data}.{part(private.sign(data.encode()))}"

    def with_header(self, header: Any) -> str:
        """Return the good token under another header, which its signature does not fit."""
        return f"{part(header)}.{self.parts[1]}.{self.parts[2]}"

    def with_claims(self, **changed: Any) -> str:
        """Return a token with our good signature over changed claims; None takes a claim away."""
        claims = {name: value for name, value in (self.claims | changed).items() if value is not None}
        return self.signed(self.header, claims)

    def headers(self) -> dict[str, str]:
        """Headers that ask for another algorithm, key or meaning."""
        known, (_, claims, _) = self.header, self.parts
        return {
            "alg none": f"{part(known | {'alg': 'none'})}.{claims}.",
            "alg None": f"{part(known | {'alg': 'None'})}.{claims}.",
            "alg none with the signature": self.with_header(known | {"alg": "none"}),
            "alg of another kind": self.with_header(known | {"alg": ["EdDSA"]}),
            "no alg": self.with_header({"typ": "JWT", "kid": known["kid"]}),
            "unknown kid": self.signed(known | {"kid": new_id()}),
            "kid of another kind": self.with_header(known | {"kid": ["x"]}),
            "kid with a path": self.signed(known | {"kid": "../../etc/passwd"}),
            "no kid": self.signed({"alg": "EdDSA", "typ": "JWT"}),
            "key address": self.with_header(known | {"jku": "https://evil.example"}),
            "critical extension": self.with_header(known | {"crit": ["exp"]}),
            "unencoded payload": self.with_header(known | {"b64": False, "crit": ["b64"]}),
            "another typ": self.signed(known | {"typ": "at+jwt"}),
            "no typ": self.signed({"alg": "EdDSA", "kid": known["kid"]}),
            "oversize header": self.with_header(known | {"x": "y" * 3000}),
            "header that is a list": self.with_header([]),
            "header that is null": self.with_header(None),
            "header that nests": self.with_header(b"[" * 300),
            "header with a name twice": self.with_header(b'{"alg":"none","alg":"EdDSA","typ":"JWT","kid":"x"}'),
            "header that is no base64": f"!!!.{claims}.{self.parts[2]}",
        }

    def keys(self) -> dict[str, str]:
        """Signatures by keys that are not ours, or by ours taken for something else."""
        public, stranger = self.key.as_pem(private=False), OKPKey.generate_key("Ed25519")
        return {
            "the public key as HMAC secret": self._hmac_signed(public),
            "the public key as HMAC secret, without its last line end": self._hmac_signed(public.strip()),
            "the raw public key as HMAC secret": self._hmac_signed(self.key.public_key.public_bytes_raw()),
            "another EdDSA key under our kid": self.signed(self.header, key=stranger),
            "an EC key under our kid": self.signed(self.header | {"alg": "ES256"}, key=ECKey.generate_key("P-256")),
            "an RSA key under our kid": self.signed(self.header | {"alg": "RS256"}, key=RSAKey.generate_key(2048)),
            "own key in the header": self.signed(self.header | {"jwk": stranger.as_dict(private=False)}, key=stranger),
        }

    def claim_sets(self) -> dict[str, str]:
        """Claims that we do not issue, under our own good signature."""
        end = str(self.claims["exp"])
        text = json.dumps(self.claims)
        return {
            "expired": self.with_claims(exp=self.claims["iat"]),
            "wrong issuer": self.with_claims(iss="https://other.example.org"),
            "wrong audience": self.with_claims(aud="another"),
            "many audiences": self.with_claims(aud=["launchbay", "another"]),
            "no issuer": self.with_claims(iss=None),
            "no audience": self.with_claims(aud=None),
            "no end": self.with_claims(exp=None),
            "an end that is text": self.with_claims(exp=end),
            "an end that is true": self.with_claims(exp=True),
            "an end that is a fraction": self.with_claims(exp=self.claims["exp"] + 0.5),
            "an end beyond numbers": self.signed_bytes(text.replace(end, "1e999").encode()),
            "an end that is no number": self.signed_bytes(text.replace(end, "NaN").encode()),
            "an end of too many digits": self.signed_bytes(text.replace(end, "9" * 400).encode()),
            "no subject": self.with_claims(sub=None),
            "a subject that is a number": self.with_claims(sub=7),
            "a subject that is no id": self.with_claims(sub="admin"),
            "no labels": self.with_claims(email=None, name=None),
            "claims that are a list": self.signed_bytes(b"[]"),
            "claims that are text": self.signed_bytes(b'"x"'),
            "claims that nest": self.signed_bytes(b"[" * 1000),
            "claims that are no JSON": self.signed_bytes(b"{"),
            "claims in Latin-1": self.signed_bytes(b'{"sub": "\xe9"}'),
        }

    def shapes(self) -> dict[str, str]:
        """Texts of another shape."""
        header, claims, signature = self.parts
        return {
            "no signature": f"{header}.{claims}.",
            "two parts": f"{header}.{claims}",
            "four parts": f"{self.good}.{signature}",
            "five parts": f"{header}.{claims}.{signature}.{signature}.{signature}",
            "changed claims": f"{header}.{part(self.claims | {'sub': new_id()})}.{signature}",
            "a longer signature": f"{self.good}AAAA",
            "padding": f"{self.good}==",
            "a refresh token": "lbr_" + "x" * 43,
            "oversize": self.good + "A" * 5000,
            "empty": "",
            "dots": "..",
            "not ASCII": self.good[:-1] + "é",
            "NUL": self.good + "\0",
            "a JSON object": json.dumps({"payload": claims, "signature": signature, "protected": header}),
        }

    def _hmac_signed(self, secret: bytes) -> str:
        data = f"{part(self.header | {'alg': 'HS256'})}.{self.parts[1]}"
        return f"{data}.{part(hmac.digest(secret, data.encode(), 'sha256'))}"
