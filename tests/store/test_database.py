import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg import errors
from structlog.testing import capture_logs

from launchbay.errors import CannotStart, Unavailable
from launchbay.store.connection import Statement
from launchbay.store.database import (
    CommitGroup,
    Connection,
    Database,
    NotTogether,
    OutcomeUnknown,
    check_version,
    connection_parameters,
    conninfo,
    redacted_url,
)
from launchbay.tenants import current_tenant
from tests.support.databases import row_of
from tests.support.eventually import eventually

INSERT = "INSERT INTO organizations (id, name) VALUES ('a', 'Acme')"


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: its connections are cut."""
    return fresh_database


async def _names(database: Database) -> list[str]:
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT name FROM organizations ORDER BY name")
        return [name for (name,) in await cursor.fetchall()]


async def _kill_connections(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


async def test_a_transaction_commits_at_the_end_of_its_block(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(INSERT)
    assert await _names(database) == ["Acme"]


async def test_an_exception_rolls_the_transaction_back_and_reaches_the_caller(database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fail()
    assert await _names(database) == []


async def test_a_statement_outside_a_transaction_is_its_own_commit(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(INSERT)
        assert await _names(database) == ["Acme"]


async def test_a_savepoint_inside_a_transaction_can_fail_alone(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(INSERT)
        with suppress(errors.UniqueViolation):
            async with connection.transaction():
                await connection.execute(INSERT)
    assert await _names(database) == ["Acme"]


async def test_a_duplicate_reaches_the_caller_as_it_is(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(INSERT)
    with pytest.raises(errors.UniqueViolation):
        async with database.transaction() as connection:
            await connection.execute(INSERT)


async def test_a_connection_lost_before_the_commit_makes_the_outcome_unknown(database: Database) -> None:
    async def lose() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT)
            await _kill_connections(database.url)

    with pytest.raises(OutcomeUnknown):
        await lose()
    assert await _names(database) == []


async def test_a_lost_connection_that_the_block_did_not_notice_is_never_success(database: Database) -> None:
    async def lose() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT)
            await _kill_connections(database.url)
            with suppress(psycopg.OperationalError):
                await connection.execute("SELECT 1")

    with pytest.raises(OutcomeUnknown):
        await lose()
    assert await _names(database) == []


async def test_a_connection_lost_inside_the_block_is_unavailability_and_commits_nothing(
    database: Database,
) -> None:
    async def lose() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT)
            await _kill_connections(database.url)
            await connection.execute("SELECT 1")

    with pytest.raises(Unavailable) as caught:
        await lose()
    assert not isinstance(caught.value, OutcomeUnknown)
    assert await _names(database) == []


async def test_a_failed_statement_that_the_block_swallowed_is_never_success(database: Database) -> None:
    async def swallow() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT)
            with suppress(errors.UniqueViolation):
                await connection.execute(INSERT)

    with pytest.raises(AssertionError, match="savepoint"):
        await swallow()
    assert await _names(database) == []


async def test_a_deferred_constraint_that_fails_at_commit_is_a_known_outcome(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE pairs (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO pairs VALUES (1), (1)")

    with pytest.raises(errors.UniqueViolation):
        await fail()


async def test_a_serialization_failure_at_commit_may_be_tried_again(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE doctors (id int PRIMARY KEY, on_call bool)")
        await connection.execute("INSERT INTO doctors VALUES (1, true), (2, true)")

    both_read = asyncio.Barrier(2)

    async def leave(doctor: int) -> None:
        async with database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            await connection.execute("SELECT count(*) FROM doctors WHERE on_call")
            await both_read.wait()
            await connection.execute("UPDATE doctors SET on_call = false WHERE id = %s", [doctor])

    outcomes = await asyncio.gather(leave(1), leave(2), return_exceptions=True)
    failed = [outcome for outcome in outcomes if outcome is not None]
    assert [type(outcome) for outcome in failed] == [Unavailable]


@pytest.mark.parametrize(
    ("state", "retry_after_s"),
    [("53100", 30), ("53300", 2), ("57P01", 2), ("25006", 2), ("40P01", 1), ("55P03", 2), ("58030", 2)],
    ids=["disk full", "too many connections", "shutting down", "read-only", "deadlock", "lock not free", "disk error"],
)
async def test_what_a_server_says_when_it_cannot_serve_is_unavailability(
    database: Database, state: str, retry_after_s: int
) -> None:
    with pytest.raises(Unavailable) as caught:
        async with database.connection() as connection:
            await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$".encode())
    assert caught.value.retry_after_s == retry_after_s


async def test_a_full_disk_is_one_line_of_the_log_and_another_when_it_has_room(database: Database) -> None:
    async def refused() -> None:
        async with database.connection() as connection:
            await connection.execute("DO $$ BEGIN RAISE EXCEPTION 'No space left' USING ERRCODE = '53100'; END $$")

    with capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(Unavailable):
                await refused()
        for _ in range(2):
            await database.ping()
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("error", "database.disk_full"),
        ("info", "database.disk_has_room"),
    ]
    assert lines[0]["error"] == "No space left"


async def test_while_a_write_fails_the_database_is_not_ready(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"
    monkeypatch.setattr("launchbay.store.database._TAKE_ROOM", full)
    with pytest.raises(Unavailable):
        async with database.connection() as connection:
            await connection.execute(full.encode())
    with pytest.raises(Unavailable, match="out of space"):
        await database.ping()
    monkeypatch.undo()
    await database.ping()


async def test_a_statement_that_takes_too_long_is_unavailability(database: Database) -> None:
    async with database.connection() as connection:
        cursor = await connection.execute("SHOW statement_timeout")
        assert await cursor.fetchone() == ("30s",)

    async def sleep() -> None:
        async with database.transaction() as connection:
            await connection.execute("SET LOCAL statement_timeout = '20ms'")
            await connection.execute("SELECT pg_sleep(5)")

    with pytest.raises(Unavailable):
        await sleep()


async def test_tenants_take_turns_at_a_connection_that_many_wait_for(database_url: str) -> None:
    served: list[str] = []

    async def work(whose: str) -> None:
        current_tenant.set(whose)
        async with small.connection():
            served.append(whose)

    async with Database(database_url, connections=1) as small:
        async with small.connection():
            waiting = [asyncio.create_task(work(whose)) for whose in ("noisy",) * 5 + ("late", "")]
            while small.pool.waiting < len(waiting):
                await asyncio.sleep(0)
            waiting[1].cancel()
        await asyncio.wait(waiting)
    assert served == ["noisy", "late", "", "noisy", "noisy", "noisy"]


async def test_who_waits_too_long_for_a_connection_gets_unavailability(database_url: str) -> None:
    async with Database(database_url, connections=1, wait_s=0.1) as small, small.connection():
        with pytest.raises(Unavailable):
            async with small.connection():
                pass


async def test_a_closed_pool_is_unavailability(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    await database.close()
    with pytest.raises(Unavailable):
        async with database.connection():
            pass


async def test_connections_that_died_in_the_pool_cost_no_request(database: Database) -> None:
    await asyncio.gather(*(_names(database) for _ in range(20)))
    await _kill_connections(database.url)
    began = time.monotonic()
    for _ in range(20):
        assert await _names(database) == []
    assert time.monotonic() - began < 5


async def test_a_transaction_cancelled_in_the_middle_is_rolled_back_and_its_connection_serves_again(
    database_url: str,
) -> None:
    async with Database(database_url, connections=1) as database:
        inserted = asyncio.Event()

        async def insert_and_wait() -> None:
            async with database.transaction() as connection:
                await connection.execute(INSERT)
                inserted.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(insert_and_wait())
        await inserted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await _names(database) == []


async def test_a_database_that_does_not_answer_stops_the_start_with_a_sentence_without_the_password() -> None:
    with pytest.raises(CannotStart) as caught:
        await Database("postgresql://ann:s3cret@127.0.0.1:1/db").open()
    assert "127.0.0.1:1/db" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_server_older_than_15_is_refused_and_15_is_not() -> None:
    check_version(150_000)
    with pytest.raises(CannotStart, match=r"PostgreSQL 14\. Launchbay needs 15"):
        check_version(140_011)


def test_a_text_that_is_no_connection_string_is_refused() -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_DATABASE_URL"):
        conninfo("mysql://nonsense?==")


def test_what_the_url_sets_itself_wins_over_our_settings() -> None:
    made = conninfo("postgresql://h/db?application_name=mine&options=-c%20statement_timeout%3D5s")
    assert "application_name=mine" in made
    assert made.index("statement_timeout=30s") < made.index("statement_timeout=5s"), "PostgreSQL heeds the last one"


def test_hosts_that_do_not_answer_hold_nobody_up_for_longer_than_a_lease() -> None:
    assert "connect_timeout=5" in conninfo("postgresql://a/db")
    assert "connect_timeout=2" in conninfo("postgresql://a,b/db")
    assert "connect_timeout=9" in conninfo("postgresql://a,b/db?connect_timeout=9")


async def test_a_server_that_only_reads_is_not_used_unless_the_url_says_so(database: Database) -> None:
    only_reads = conninfo(database.url) + " options='-c default_transaction_read_only=on'"
    with pytest.raises(CannotStart, match="read-only"):
        await Database(only_reads).open()
    async with Database(f"{only_reads} target_session_attrs=any"):
        pass


async def test_a_connection_whose_server_has_become_a_standby_is_replaced(database: Database) -> None:
    async with Database(database.url, connections=1) as alone:
        async with alone.connection() as connection:
            await connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(Unavailable):
            async with alone.transaction() as connection:
                await connection.execute(INSERT)
        async with alone.transaction() as connection:
            await connection.execute(INSERT)
    assert await _names(database) == ["Acme"]


def test_the_shown_form_of_a_url_has_no_user_and_no_password() -> None:
    assert redacted_url("postgresql://ann:s3cret@db.example:5433/prod") == "db.example:5433/prod"


@pytest.mark.parametrize(
    "url",
    [
        "postgres:/u:s3cr3t@127.0.0.1/db",
        "postgresql://u:s3cr3t%zz@127.0.0.1/db",
        "host=127.0.0.1 password=s3cr3t foo",
        "postgresql://u:s3cr3t/x@127.0.0.1/db",
        "postgresql://u:1/s3cr3t@127.0.0.1/db",
        "postgresql://u:x@s3cr3t@127.0.0.1/db",
    ],
)
@pytest.mark.parametrize("use", [conninfo, redacted_url, connection_parameters])
def test_an_invalid_url_is_refused_without_any_part_of_it(use: Callable[[str], object], url: str) -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_DATABASE_URL is invalid") as caught:
        use(url)
    assert "s3cr3t" not in str(caught.value.messages)
    assert caught.value.__context__ is None  # libpq's error, which a traceback would show


async def test_a_table_that_an_upgrade_changed_costs_one_answer_of_unavailability(database_url: str) -> None:
    async with Database(database_url, connections=1) as database:

        async def look() -> int:
            async with database.connection() as connection:
                return (await connection.run(Statement(b"SELECT * FROM organizations"))).ntuples

        for _ in range(5):  # until the statement is prepared
            assert await look() == 0
        with psycopg.connect(database_url, autocommit=True) as newer:
            newer.execute("ALTER TABLE organizations ADD COLUMN motto text")
        with pytest.raises(Unavailable, match="was upgraded during this request"):
            await look()
        assert await look() == 0


@pytest.mark.slow
async def test_a_pool_never_has_more_connections_than_its_bound(database: Database) -> None:
    most = 0

    async def use(pool: Database) -> None:
        for _ in range(100):
            async with pool.connection() as connection:
                await connection.execute("SELECT 1")

    async def watch() -> None:
        nonlocal most
        async with database.connection() as connection:
            while True:
                cursor = await connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bounded'"
                )
                row = await cursor.fetchone()
                assert row is not None
                most = max(most, row[0])

    async with Database(f"{database.url} application_name=bounded", connections=3) as bounded:
        watching = asyncio.create_task(watch())
        await asyncio.gather(*(use(bounded) for _ in range(20)))
        watching.cancel()
        await asyncio.wait({watching})
    # The first connection of all checks the database, and may be counted before it is gone.
    assert 1 < most <= 4


# Groups of commits


async def _named(connection: Connection, name: str) -> str:
    """Return the transaction that made an organization of this name."""
    row = await (await connection.execute("SELECT xmin::text FROM organizations WHERE name = %s", [name])).fetchone()
    assert row is not None
    return str(row[0])


def _insertion(name: str) -> Statement:
    """Return a statement that makes an organization; that of "a" waits for whoever has the lock."""
    waits = b"FROM pg_advisory_xact_lock(7)" if name == "a" else b""
    return Statement(b"INSERT INTO organizations (id, name) SELECT $1, $1 " + waits, [name.encode()])


async def _until(database: Database, event: str) -> None:
    """Wait until a session waits for something, by PostgreSQL's name of it."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = %s AND datname = current_database()"
    async with database.connection() as connection:
        await eventually(lambda: row_of(connection, asked, event), lambda found: found == (1,))


async def _lent(database: Database, count: int) -> None:
    """Wait until so many callers have a connection, and what they can do without another is done."""
    await eventually(lambda: database.pool.used >= count)
    await asyncio.sleep(0)


@asynccontextmanager
async def _first_waits(database: Database, first: Coroutine[Any, Any, Any]) -> AsyncIterator["asyncio.Task[Any]"]:
    """Let the first writer wait in PostgreSQL during the block, so that all others come together."""
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(7)")
        task = asyncio.create_task(first)
        await _until(database, "advisory")
        yield task


async def _write(database: Database, name: str) -> None:
    async with database.transaction(shares_commit=True) as connection:
        connection.defer(_insertion(name))


async def test_what_comes_while_another_writes_is_committed_together(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        others = [asyncio.create_task(group.run(_insertion(name))) for name in "bcd"]
        await asyncio.sleep(0)
    results = await asyncio.gather(first, *others)
    assert [result.command_tuples for result in results] == [1, 1, 1, 1]
    async with database.connection() as connection:
        a, b, c, d = [await _named(connection, name) for name in "abcd"]
    assert a != b == c == d


async def test_a_member_of_a_group_that_fails_leaves_the_others_right(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        others = [asyncio.create_task(group.run(_insertion(name))) for name in "bacd"]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in outcomes if isinstance(each, Exception)] == [errors.UniqueViolation]
    assert isinstance(outcomes[2], errors.UniqueViolation)
    assert await _names(database) == ["a", "b", "c", "d"]


async def test_a_cancelled_member_that_waits_writes_nothing_and_the_others_go_on(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        others = [asyncio.create_task(group.run(_insertion(name))) for name in "bcd"]
        await asyncio.sleep(0)
        others[0].cancel()  # it would have written for all
        await asyncio.wait({others[0]})
    await asyncio.gather(first, *others[1:])
    assert others[0].cancelled()
    assert await _names(database) == ["a", "c", "d"]


async def test_a_member_that_is_cancelled_as_it_gets_its_turn_passes_it_on(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        others = [asyncio.create_task(group.run(_insertion(name))) for name in "bcd"]
        await asyncio.sleep(0)
        first.add_done_callback(lambda _: others[0].cancel())
    await asyncio.gather(first, *others, return_exceptions=True)
    assert others[0].cancelled()
    assert {"a", "c", "d"} <= set(await _names(database))


async def test_a_group_survives_the_cancellation_of_the_member_that_writes_it(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        writes = [_insertion("b"), Statement(b"SELECT pg_sleep(0.3)", []), _insertion("d")]
        others = [asyncio.create_task(group.run(each)) for each in writes]
        await asyncio.sleep(0)
    await first
    await _until(database, "PgSleep")
    others[0].cancel()
    outcomes = await asyncio.gather(*others, return_exceptions=True)
    assert [isinstance(each, BaseException) for each in outcomes] == [True, False, False]
    assert await _names(database) == ["a", "b", "d"]


async def test_a_database_that_hangs_does_not_keep_a_cancelled_member_for_long(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.store.database._CANCELLED_S", 0.01)
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        writes = [Statement(b"SELECT pg_sleep(60)", []), _insertion("c"), _insertion("d")]
        others = [asyncio.create_task(group.run(each)) for each in writes]
        await asyncio.sleep(0)
    await first
    await _until(database, "PgSleep")
    others[0].cancel()
    outcomes = await asyncio.gather(*others, return_exceptions=True)
    assert [isinstance(each, BaseException) for each in outcomes] == [True, False, False]
    assert await _names(database) == ["a", "c", "d"]


async def test_a_group_gives_up_on_a_lock_and_only_who_needs_it_waits(database: Database) -> None:
    group = CommitGroup(database)
    async with database.transaction() as late:
        await late.execute("INSERT INTO organizations (id, name) VALUES ('c', 'other')")
        async with _first_waits(database, group.run(_insertion("a"))) as first:
            others = [asyncio.create_task(group.run(_insertion(name))) for name in "bcd"]
            await asyncio.sleep(0)
        await asyncio.gather(first, others[0], others[2])
        assert not others[1].done()
    with pytest.raises(errors.UniqueViolation):
        await others[1]


async def test_transactions_that_only_read_share_a_commit(database: Database) -> None:
    async with _first_waits(database, _write(database, "a")) as first:
        others = [asyncio.create_task(_write(database, name)) for name in "bcd"]
        await _lent(database, 5)
    await asyncio.gather(first, *others)
    async with database.connection() as connection:
        a, b, c, d = [await _named(connection, name) for name in "abcd"]
    assert a != b == c == d


async def test_transactions_that_fail_together_are_all_told_to_repeat(database: Database) -> None:
    async with _first_waits(database, _write(database, "a")) as first:
        others = [asyncio.create_task(_write(database, name)) for name in "bac"]
        await _lent(database, 5)
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), NotTogether, NotTogether, NotTogether]
    assert await _names(database) == ["a"]


async def test_nobody_of_a_group_repeats_a_commit_whose_outcome_is_unknown(database: Database) -> None:
    async def fatal() -> None:
        async with database.transaction(shares_commit=True) as connection:
            connection.defer(Statement(b"SELECT pg_terminate_backend(pg_backend_pid())"))

    async with _first_waits(database, _write(database, "a")) as first:
        others = [asyncio.create_task(each) for each in (_write(database, "b"), fatal(), _write(database, "c"))]
        await _lent(database, 5)
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), OutcomeUnknown, OutcomeUnknown, OutcomeUnknown]


async def test_a_transaction_that_has_changed_something_commits_it_with_what_it_deferred(database: Database) -> None:
    async with _first_waits(database, _write(database, "a")) as first:
        async with database.transaction(shares_commit=True) as connection:
            await connection.run(_insertion("b"))
            connection.defer(_insertion("c"))
        b, c = [await _named(connection, name) for name in "bc"]
    await first
    assert b == c


async def test_nobody_waits_long_behind_one_who_waits_for_a_lock(database: Database) -> None:
    group = CommitGroup(database)
    async with _first_waits(database, group.run(_insertion("a"))) as first:
        async with asyncio.timeout(10):
            await asyncio.gather(*(group.run(_insertion(name)) for name in "bcd"))
        assert not first.done()
    await first
    assert await _names(database) == ["a", "b", "c", "d"]


async def test_no_launch_waits_long_behind_one_that_waits_for_a_lock(database: Database) -> None:
    async with _first_waits(database, _write(database, "a")) as first:
        async with asyncio.timeout(10):
            await asyncio.gather(*(_write(database, name) for name in "bcd"))
        assert not first.done()
    await first
    assert await _names(database) == ["a", "b", "c", "d"]


async def test_a_tenant_with_much_to_write_lets_others_into_its_groups(database: Database) -> None:
    group = CommitGroup(database)

    async def written(tenant: str, name: str) -> None:
        current_tenant.set(tenant)
        await group.run(_insertion(name))

    async with _first_waits(database, group.run(_insertion("a"))) as first:
        many = [asyncio.create_task(written("busy", f"b{number}")) for number in range(40)]
        one = asyncio.create_task(written("quiet", "c"))
        await asyncio.sleep(0)
    await one
    assert sum(each.done() for each in many) <= 16
    await asyncio.gather(first, *many)
