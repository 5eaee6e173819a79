"""Session tokens and their keys, and everything that only looks like one."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launchbay.auth.lookup import Lookups
from launchbay.auth.permissions import Method
from launchbay.auth.secret_key import SecretKey, UnsealFailed, read_secret_key
from launchbay.auth.tokens import GeneratedToken, KeyRing, RefreshTokens, SessionTokens
from launchbay.errors import NotAuthenticated
from launchbay.ids import is_id, new_id
from launchbay.store import users
from launchbay.store.database import Database
from launchbay.store.users import RedeemedTokenRow, User
from tests.support.clock import HandClock
from tests.support.worlds import Forger, make_user, opened, part

ISSUER = "https://launchbay.example.org"
LIFETIME_S = 36_000


def redeemed(user: User) -> RedeemedTokenRow:
    return RedeemedTokenRow(user.id, user.email, user.name, 1, new_id())


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
        return (await self.sessions.issue(redeemed(self.ann))).token

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
        ann = await users.get(connection, id=ann_id)
    assert ann is not None
    return World(database, ann, read_secret_key(tmp_path / "secret.key"), HandClock())


async def test_a_session_token_names_its_caller(world: World) -> None:
    async with world.database.connection() as connection:
        refresh = RefreshTokens()
        generated = await refresh.generate(connection, world.ann.id, "")
        assert isinstance(generated, GeneratedToken)
        user = await refresh.redeem(connection, generated.token)
    session = await world.sessions.issue(user)
    actor = await world.sessions.authenticate(session.token, "198.51.100.7")
    assert (actor.user_id, actor.email, actor.name) == (world.ann.id, world.ann.email, world.ann.name)
    assert (actor.method, actor.stamp, actor.address) == (Method.BEARER, user.access_stamp, "198.51.100.7")
    assert session.expires_in_s == LIFETIME_S
    async with world.database.connection() as connection:
        assert (await Lookups(print).bind(connection, actor).caller()) == world.ann


async def test_a_session_token_says_who_and_how_long_and_nothing_about_permissions(world: World) -> None:
    token = await world.token()
    assert opened(token, 0) == {"typ": "JWT", "alg": "EdDSA", "kid": (await world.key_ids())[0]}
    claims = opened(token, 1)
    assert is_id(claims["via"])
    assert claims == {
        "iss": ISSUER,
        "aud": "launchbay",
        "sub": world.ann.id,
        "iat": int(world.clock.now().timestamp()),
        "exp": int(world.clock.now().timestamp()) + LIFETIME_S,
        "email": world.ann.email,
        "name": world.ann.name,
        "stamp": 1,
        "via": claims["via"],
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


async def test_unknown_key_ids_cause_one_query_in_five_seconds_whoever_sends_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.token()
    world.clock.advance(6)
    reads = 0
    refresh = world.keys._refresh

    async def counted(*, new_key: bool) -> None:
        nonlocal reads
        reads += 1
        await refresh(new_key=new_key)

    monkeypatch.setattr(world.keys, "_refresh", counted)
    for _ in range(50):
        header = {"alg": "EdDSA", "typ": "JWT", "kid": new_id()}
        assert not await world.accepts(f"{part(header)}.{part({})}.{part(b'x' * 64)}")
    assert reads == 1


async def test_keys_are_sealed_in_the_database_and_another_secret_key_does_not_open_them(world: World) -> None:
    await world.token()
    stranger = World(world.database, world.ann, SecretKey(b"x" * 32), world.clock)
    with pytest.raises(UnsealFailed):
        await stranger.token()


async def test_everything_that_only_looks_like_a_session_token_is_refused(world: World) -> None:
    forger = Forger(await world.token(), (await world.keys.signing_key()).key)
    assert await world.accepts(forger.good), "the good token is good"
    assert await world.accepts(forger.signed(forger.header)), "what the forgeries are made from is good too"
    forged = forger.headers() | forger.keys() | forger.claim_sets() | forger.shapes()
    accepted = [attempt for attempt, token in forged.items() if await world.accepts(token)]
    assert accepted == []
    assert len(forged) > 50


async def test_the_refusal_of_a_token_says_first_that_it_is_no_good(world: World) -> None:
    with pytest.raises(NotAuthenticated, match=r"^The token is unknown, expired or revoked\. "):
        await world.sessions.authenticate("bad", "198.51.100.7")


async def test_a_token_of_another_installation_is_refused(world: World) -> None:
    other = SessionTokens(world.keys, world.clock, "https://other.example.org", LIFETIME_S)
    token = (await other.issue(redeemed(world.ann))).token
    assert not await world.accepts(token)


@pytest.fixture
async def good_token(world: World) -> str:
    return await world.token()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
