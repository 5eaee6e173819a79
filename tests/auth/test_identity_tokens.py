"""The keys that sign tokens of jobs: several servers, and a new key while tokens are issued."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from launchbay.auth.identity_tokens import IDENTITY_KEYS, IdentityTokens
from launchbay.auth.secret_key import SecretKey, read_secret_key
from launchbay.auth.tokens import KeyRing
from launchbay.errors import NotFound
from launchbay.ids import new_id
from launchbay.limits import IDENTITY_KEY_SETTLES_S, IDENTITY_TOKEN_S
from launchbay.store.database import Database
from tests.support.clock import HandClock

ISSUER = "https://launchbay.example.org"


class Server:
    """One of several on a database."""

    def __init__(self, database: Database, secret: SecretKey, clock: HandClock) -> None:
        self.tokens = IdentityTokens(
            KeyRing(database, secret, clock, IDENTITY_TOKEN_S, IDENTITY_KEYS), clock, f"{ISSUER}/"
        )

    async def published(self) -> KeySet:
        return KeySet.import_key_set({"keys": await self.tokens.public_keys()})

    async def ids(self) -> set[str]:
        return {str(each.kid) for each in (await self.published()).keys}

    async def signing(self, verifier: "Server") -> str:
        """Return the ID of the key that signs, checked with what another server publishes."""
        token = await self.tokens.issue("vault", {"sub": "x"})
        return str(jwt.decode(token, await verifier.published(), algorithms=["RS256"]).header["kid"])


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def secret(tmp_path: Path) -> SecretKey:
    return read_secret_key(tmp_path / "secret.key")


async def passes(database: Database, clock: HandClock, seconds: float) -> None:
    """Let time pass on the clock of the database, and for the servers."""
    async with database.connection() as connection:
        await connection.execute("UPDATE identity_keys SET created_at = created_at - %s * interval '1 s'", [seconds])
    clock.advance(max(seconds, 301))


async def test_a_new_key_is_published_by_all_servers_before_it_signs(
    database: Database, secret: SecretKey, clock: HandClock
) -> None:
    one, other = Server(database, secret, clock), Server(database, secret, clock)
    [first] = await one.ids()
    assert await other.ids() == {first}
    await one.tokens.ring.rotate()
    assert await one.signing(other) == first
    await passes(database, clock, 301)
    [new] = await other.ids() - {first}
    assert await one.signing(other) == first, "those who verify may not know the new one yet"
    await passes(database, clock, IDENTITY_KEY_SETTLES_S)
    assert await one.signing(other) == new
    assert await one.ids() == {first, new}, "what it signed is still good"
    await passes(database, clock, IDENTITY_KEY_SETTLES_S + IDENTITY_TOKEN_S + 3_601)
    assert await one.ids() == {new}


async def test_tokens_that_are_signed_during_a_rotation_are_good_at_every_server(
    database: Database, secret: SecretKey, clock: HandClock
) -> None:
    one, other = Server(database, secret, clock), Server(database, secret, clock)
    signing: set[str] = set()
    rotating = asyncio.gather(one.tokens.ring.rotate(), other.tokens.ring.rotate())
    for elapsed_s in (301, IDENTITY_KEY_SETTLES_S, 0):
        requests = [server.signing(verifier) for server in (one, other) for verifier in (other, one) for _ in range(20)]
        signing |= set(await asyncio.gather(*requests))
        await rotating
        await passes(database, clock, elapsed_s)
    assert len(signing) > 1, "new keys sign in the end"


async def test_a_key_that_waited_for_that_of_another_server_is_the_newer_one(
    database: Database, secret: SecretKey, clock: HandClock
) -> None:
    one, other, made = Server(database, secret, clock), Server(database, secret, clock), new_id()
    async with database.transaction() as connection:
        await connection.execute("SELECT")  # the time of the transaction is that of its first statement
        [first] = await one.ids()
        sealed = secret.seal(IDENTITY_KEYS.create(), IDENTITY_KEYS.purpose(made))
        await IDENTITY_KEYS.table.insert(connection, id=made, sealed=sealed)
    assert await other.ids() == {first, made}
    assert await other.signing(one) == first, "that other servers know"


async def test_keys_are_sealed_and_publish_no_private_part(
    database: Database, secret: SecretKey, clock: HandClock
) -> None:
    server = Server(database, secret, clock)
    [key] = await server.tokens.public_keys()
    assert set(key) == {"kty", "n", "e", "kid", "use", "alg"}
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT sealed FROM identity_keys")
        [(sealed,)] = await cursor.fetchall()
    assert secret.is_current(bytes(sealed))


async def test_a_changed_token_is_none(database: Database, secret: SecretKey, clock: HandClock) -> None:
    server = Server(database, secret, clock)
    head, _, signature = (await server.tokens.issue("vault", {"sub": "x"})).split(".")
    _, claims, _ = (await server.tokens.issue("other", {"sub": "y"})).split(".")
    with pytest.raises(JoseError):
        jwt.decode(".".join((head, claims, signature)), await server.published(), algorithms=["RS256"])


async def test_the_metadata_is_that_of_discovery(database: Database, secret: SecretKey, clock: HandClock) -> None:
    shown: dict[str, Any] = Server(database, secret, clock).tokens.metadata()
    assert (shown["issuer"], shown["jwks_uri"]) == (ISSUER, f"{ISSUER}/.well-known/jwks.json")
    nobody = IdentityTokens(KeyRing(database, secret, clock, IDENTITY_TOKEN_S, IDENTITY_KEYS), clock, "")
    with pytest.raises(NotFound, match="LAUNCHBAY_BASE_URL"):
        nobody.metadata()
