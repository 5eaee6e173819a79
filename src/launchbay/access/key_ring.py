"""The keys that sign and verify session tokens, the same in every server of one database.

The newest key signs. A key that has been replaced goes on verifying until everything it signed has expired, so a
rotation ends nobody's session. A server learns of a key that another one made when it first sees a token with it, or
within minutes; no key signs before every server could learn of it.
"""

import asyncio
from dataclasses import dataclass
from itertools import pairwise

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey

from launchbay.access.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.ids import new_id
from launchbay.store import keys
from launchbay.store.database import Database
from launchbay.store.keys import SessionKeyRow

ROTATED_AFTER_S = 30 * 24 * 3600.0
_READ_AGAIN_S = 300.0
_UNKNOWN_KEY_S = 5.0  # between readings that unknown key ids cause, whoever sends them
_SETTLED_S = 2 * _UNKNOWN_KEY_S  # the age at which a key starts to sign, when there is another one until then
_MARGIN_S = 3600.0  # for servers that sign with the old key a little longer, and for clocks
_LOCK = 0x6C61_756E_6368_6B65  # any number that nothing else locks: "launchke"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key with its id, the `kid` of the tokens it signs."""

    id: str
    key: OKPKey


class KeyRing:
    """Holds the keys of one server; `lifetime_s` is how long a token lives."""

    def __init__(self, database: Database, secret: SecretKey, clock: Clock, lifetime_s: int) -> None:
        self._database = database
        self._secret = secret
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._keys: dict[str, SigningKey] = {}
        self._signing: SigningKey | None = None
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()

    async def signing(self) -> SigningKey:
        """Return the key to sign with, making one when there is none or the newest is old.

        Raises Unavailable, and SealBroken when the keys were sealed with another secret key.
        """
        if self._signing is None or self._age_s() > _READ_AGAIN_S:
            await self._read(older_than_s=_READ_AGAIN_S)
        assert self._signing is not None, "reading makes a key when there is none"
        return self._signing

    async def verifying(self, key_id: str) -> SigningKey | None:
        """Return the key with this id, None when there is none. Raises as `signing` does."""
        if key_id not in self._keys or self._age_s() > _READ_AGAIN_S:
            limit_s = _READ_AGAIN_S if key_id in self._keys else _UNKNOWN_KEY_S
            await self._read(older_than_s=limit_s)
        return self._keys.get(key_id)

    async def rotate(self) -> None:
        """Make a new key, which signs within minutes; the older ones stay as long as something may need them."""
        async with self._reading:
            await self._refresh(new_key=True)

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._read_at_s

    async def _read(self, older_than_s: float) -> None:
        async with self._reading:
            if self._age_s() > older_than_s:
                await self._refresh(new_key=False)

    async def _refresh(self, *, new_key: bool) -> None:
        async with self._database.connection() as connection:
            rows = await keys.all_keys(connection)
        if new_key or not rows or rows[0].age_s > ROTATED_AFTER_S or self._expired(rows):
            rows = await self._replace(new_key=new_key)
        # A key is opened once; opening all of them again at every reading would cost for nothing.
        self._keys = {row.id: self._keys.get(row.id) or self._opened(row) for row in rows}
        signing = next((row for row in rows if row.age_s >= _SETTLED_S), rows[-1])
        self._signing = self._keys[signing.id]
        self._read_at_s = self._clock.monotonic_s()

    async def _replace(self, *, new_key: bool) -> list[SessionKeyRow]:
        """Make a key where one is due and drop those that nothing needs, one server at a time."""
        async with self._database.transaction() as connection:
            await keys.lock(connection, number=_LOCK)
            rows = await keys.all_keys(connection)
            if new_key or not rows or rows[0].age_s > ROTATED_AFTER_S:
                key_id = new_id()
                private = Ed25519PrivateKey.generate().private_bytes_raw()
                await keys.insert(connection, id=key_id, sealed=self._secret.seal(private, session_key_purpose(key_id)))
            await keys.delete(connection, ids=self._expired(rows))
            return await keys.all_keys(connection)

    def _expired(self, rows: list[SessionKeyRow]) -> list[str]:
        """Return the keys whose successor is older than anything they can have signed."""
        needed_s = self._lifetime_s + _MARGIN_S
        return [row.id for successor, row in pairwise(rows) if successor.age_s > needed_s]

    def _opened(self, row: SessionKeyRow) -> SigningKey:
        private = Ed25519PrivateKey.from_private_bytes(self._secret.open(row.sealed, session_key_purpose(row.id)))
        pem = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return SigningKey(row.id, OKPKey.import_key(pem))


def session_key_purpose(key_id: str) -> str:
    """Return what a key that signs session tokens is sealed for."""
    return f"session key {key_id}"
