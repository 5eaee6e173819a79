import asyncio

import pytest
from structlog.testing import capture_logs

from launchbay.auth.tokens import GeneratedToken, RefreshTokens
from launchbay.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests
from launchbay.limits import REFRESH_TOKENS
from launchbay.store import users
from launchbay.store import users as stored
from launchbay.store.database import Database
from tests.support.worlds import make_user


class World:
    def __init__(self, database: Database, ann: str) -> None:
        self.database = database
        self.ann = ann
        self.events: list[tuple[str, str]] = []  # kind and detail
        self.tokens = RefreshTokens()

    async def generate(self, user_id: str | None = None) -> GeneratedToken | TooManyRequests:
        with capture_logs() as logs:
            generated = await self._generate(user_id or self.ann)
        self.events += [(line["kind"], line["detail"]) for line in logs if line["event"] == "security_event.reported"]
        return generated

    async def _generate(self, user_id: str) -> GeneratedToken | TooManyRequests:
        async with self.database.transaction() as connection:
            return await self.tokens.generate(connection, user_id, "build server")

    async def token(self) -> GeneratedToken:
        generated = await self.generate()
        assert isinstance(generated, GeneratedToken)
        return generated

    async def redeem(self, token: str) -> str:
        async with self.database.connection() as connection:
            return (await self.tokens.redeem(connection, token)).id

    async def refuses(self, token: str) -> bool:
        try:
            await self.redeem(token)
        except NotAuthenticated:
            return True
        return False

    async def run(self, statement: str) -> None:
        async with self.database.connection() as connection:
            await connection.execute(statement.encode())


@pytest.fixture
async def world(database: Database) -> World:
    async with database.connection() as connection:
        return World(database, await make_user(connection))


async def test_a_token_is_redeemed_as_often_as_wanted_for_its_user(world: World) -> None:
    token = (await world.token()).token
    assert await world.redeem(token) == world.ann
    assert await world.redeem(token) == world.ann


async def test_the_token_itself_is_stored_nowhere_and_shown_by_no_repr(world: World) -> None:
    generated = await world.token()
    async with world.database.connection() as connection:
        cursor = await connection.execute("SELECT t::text FROM refresh_tokens t")
        ((row,),) = await cursor.fetchall()
    assert generated.token.removeprefix("lbr_") not in row
    assert generated.token not in repr(generated)


async def test_tokens_are_long_and_never_the_same(world: World) -> None:
    first, second = await world.token(), await world.token()
    assert first.token != second.token
    assert len(first.token) == len("lbr_") + 43


async def test_the_list_shows_what_can_be_used_newest_first_and_when_it_was_used_last(world: World) -> None:
    first, second = await world.token(), await world.token()
    await world.redeem(first.token)
    async with world.database.connection() as connection:
        shown = await stored.list_refresh_tokens_by_user(connection, user_id=world.ann)
        assert {row.id for row in shown} == {first.row.id, second.row.id}
        assert {row.id: row.last_used_at is not None for row in shown} == {first.row.id: True, second.row.id: False}
        assert {row.label for row in shown} == {"build server"}
        await world.tokens.revoke(connection, world.ann, first.row.id)
        assert [row.id for row in await stored.list_refresh_tokens_by_user(connection, user_id=world.ann)] == [
            second.row.id
        ]


async def test_a_revoked_token_is_refused_and_others_go_on(world: World) -> None:
    first, second = await world.token(), await world.token()
    async with world.database.connection() as connection:
        await world.tokens.revoke(connection, world.ann, first.row.id)
    assert await world.refuses(first.token)
    assert not await world.refuses(second.token)


async def test_only_the_owner_revokes_a_token_and_only_once(world: World) -> None:
    generated = await world.token()
    async with world.database.connection() as connection:
        eve = await make_user(connection, "eve@example.org")
        for user_id, token_id in ((eve, generated.row.id), (world.ann, "no id"), (world.ann, "\0"), (world.ann, eve)):
            with pytest.raises(NotFound):
                await world.tokens.revoke(connection, user_id, token_id)
        await world.tokens.revoke(connection, world.ann, generated.row.id)
        with pytest.raises(NotFound):
            await world.tokens.revoke(connection, world.ann, generated.row.id)


async def test_an_expired_token_is_refused_and_deleted_a_day_later(world: World) -> None:
    token = (await world.token()).token
    await world.run("UPDATE refresh_tokens SET expires_at = now()")
    assert await world.refuses(token)
    async with world.database.connection() as connection:
        assert await stored.delete_expired_refresh_tokens(connection, count=9) == 0
        await world.run("UPDATE refresh_tokens SET expires_at = now() - interval '25 hours'")
        assert await stored.delete_expired_refresh_tokens(connection, count=9) == 1


async def test_a_disabled_user_redeems_and_generates_nothing(world: World) -> None:
    token = (await world.token()).token
    async with world.database.connection() as connection:
        await users.set_enabled(connection, id=world.ann, enabled=False)
    assert await world.refuses(token)
    with pytest.raises(NotAuthenticated):
        await world.generate()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "token", ["", "x", "lbr_", "lbr_" + "A" * 43, "lbr_" + "A" * 100_000, "lbr_é", "lbr_\0", "a.b.c"]
)
async def test_what_is_no_token_of_ours_is_refused(world: World, token: str) -> None:
    await world.token()
    assert await world.refuses(token)


async def test_ten_tokens_an_hour_then_a_block_of_a_quarter_of_an_hour(world: World) -> None:
    made = [await world.generate() for _ in range(10)]
    assert all(isinstance(generated, GeneratedToken) for generated in made)
    details = [f"{count} refresh tokens within an hour" for count in range(6, 11)]
    assert world.events == [("many refresh tokens", detail) for detail in details]
    refused = await world.generate()
    assert isinstance(refused, TooManyRequests)
    assert refused.retry_after_s == 900
    assert world.events[5:] == [("generation of refresh tokens blocked", "10 refresh tokens within an hour")]
    again = await world.generate()
    assert isinstance(again, TooManyRequests)
    assert again.retry_after_s is not None
    assert 890 < again.retry_after_s <= 900
    assert len(world.events) == 6, "a blocked user who goes on asking is not reported again and again"


async def test_a_block_is_of_one_user_and_does_not_touch_the_tokens_they_have(world: World) -> None:
    token = (await world.token()).token
    for _ in range(10):
        await world.generate()
    assert await world.redeem(token) == world.ann
    async with world.database.connection() as connection:
        bob = await make_user(connection, "bob@example.org")
    assert isinstance(await world.generate(bob), GeneratedToken)


async def test_after_the_block_counting_starts_afresh(world: World) -> None:
    for _ in range(11):
        await world.generate()
    await world.run("UPDATE refresh_tokens SET created_at = created_at - interval '16 minutes'")
    await world.run("UPDATE users SET tokens_blocked_until = tokens_blocked_until - interval '16 minutes'")
    made = [await world.generate() for _ in range(11)]
    assert [isinstance(generated, GeneratedToken) for generated in made] == [True] * 10 + [False]


async def test_tokens_older_than_an_hour_count_no_more_but_revoked_ones_do(world: World) -> None:
    for _ in range(5):
        await world.generate()
    await world.run("UPDATE refresh_tokens SET created_at = now() - interval '61 minutes'")
    for _ in range(5):
        generated = await world.token()
        async with world.database.connection() as connection:
            await world.tokens.revoke(connection, world.ann, generated.row.id)
    assert world.events == []
    await world.generate()
    assert len(world.events) == 1


async def test_who_has_very_many_tokens_revokes_one_before_the_next(world: World) -> None:
    await world.run(
        "INSERT INTO refresh_tokens (id, user_id, label, token_hash, created_at, expires_at)"
        f" SELECT lpad(n::text, 24, '0'), '{world.ann}', '', n::text::bytea, now() - interval '1 day', 'infinity'"
        f" FROM generate_series(1, {REFRESH_TOKENS}) n"
    )
    with pytest.raises(BadRequest, match="1000 refresh tokens"):
        await world.generate()
    async with world.database.connection() as connection:
        await world.tokens.revoke(connection, world.ann, f"{1:024}")
    assert isinstance(await world.generate(), GeneratedToken)


async def test_simultaneous_requests_are_counted_one_after_the_other(world: World) -> None:
    made = await asyncio.gather(*(world.generate() for _ in range(20)))
    assert sum(isinstance(generated, GeneratedToken) for generated in made) == 10
