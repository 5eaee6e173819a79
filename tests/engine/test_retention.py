"""What is old is thrown away, and nothing else (conformance.md, "States")."""

import asyncio

import pytest

from launchbay import limits
from launchbay.auth.secret_key import KEY_BYTES, SecretKey
from launchbay.clock import SystemClock
from launchbay.engine import retention
from launchbay.engine.retention import Cleaner, Retention, RetentionPolicy
from launchbay.ids import new_id
from launchbay.store import events
from launchbay.usecases.events import LogFilter
from tests.support.engine import Bay

KEY = SecretKey(bytes(KEY_BYTES))
MANIFEST = "launch: {steps: []}\nact: {steps: []}"


def keeping(**days: float) -> RetentionPolicy:
    return RetentionPolicy(**{"destroyed_days": 0, "history_days": 0, "log_days": 0, "audit_days": 0, **days})


async def purge(bay: Bay, **days: float) -> int:
    """Purge to the end; return the number of rounds."""
    duty, rounds = Retention(bay.database, keeping(**days), SystemClock(), KEY), 1
    while await duty.purge():
        rounds += 1
    return rounds


async def ended_job(bay: Bay, instance: str, days_ago: float, count: int = 1) -> None:
    await bay.change(
        "WITH job AS (INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, created_at, finished_at)"
        " SELECT launchbay_new_id(), %s, 'act', 'u', 'Succeeded', '{}', now() - make_interval(secs => %s),"
        " now() - make_interval(secs => %s) FROM generate_series(1, %s) RETURNING id, instance_id),"
        " step AS (INSERT INTO steps (job_id, path, name, status, is_record)"
        " SELECT id, 'p', 'p', 'Succeeded', true FROM job)"
        " INSERT INTO log_lines (instance_id, job_id, level, text, at)"
        " SELECT instance_id, id, 'info', 'line', now() - make_interval(secs => %s) FROM job",
        *(instance, days_ago * 86_400 + 1, days_ago * 86_400, count, days_ago * 86_400),
    )


async def destroyed(bay: Bay, days_ago: float, jobs: int = 2) -> str:
    instance = await bay.instance(MANIFEST, "Running")
    await ended_job(bay, instance, days_ago, jobs)
    await bay.change("UPDATE instances SET status = 'Destroyed' WHERE id = %s", instance)
    await bay.change(
        "UPDATE instances SET destroyed_at = destroyed_at - make_interval(secs => %s) WHERE id = %s",
        *(days_ago * 86_400, instance),
    )
    return instance


async def test_a_destroyed_instance_goes_when_its_time_is_over_and_not_before(bay: Bay) -> None:
    old, young = await destroyed(bay, 30.1), await destroyed(bay, 29.9)
    living = await bay.instance(MANIFEST, "Running")
    await ended_job(bay, living, 400)
    await purge(bay, destroyed_days=30)
    assert {row[0] for row in await bay.rows("SELECT id FROM instances")} == {young, living}
    entries = await bay.rows("SELECT actor_email, operation, object_id, before FROM audit_entries")
    assert entries == [("engine/retention", "delete_instance", old, '{"name":"live","status":"Destroyed"}')]
    assert await bay.one("SELECT count(*) FROM jobs") == 3
    assert await bay.one("SELECT count(*) FROM steps") == 3
    assert await bay.one("SELECT count(*) FROM log_lines WHERE instance_id = %s", old) == 0, "nothing else removes them"


async def test_large_histories_go_in_small_transactions(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RETENTION_BATCH_ROWS", 10)
    await destroyed(bay, 31, jobs=35)
    assert await purge(bay, destroyed_days=30) == 4 + 4 + 0 - 1
    assert await bay.one("SELECT count(*) FROM instances") == 0
    assert await bay.one("SELECT count(*) FROM log_lines") == 0


async def test_lines_of_a_destroyed_instance_are_left_to_their_partition(bay: Bay) -> None:
    await destroyed(bay, 31)
    await purge(bay, destroyed_days=30, log_days=90)
    assert await bay.one("SELECT count(*) FROM instances") == 0
    assert await bay.one("SELECT count(*) FROM log_lines") == 2
    await pass_days(bay, 91)
    await purge(bay, destroyed_days=30, log_days=90)
    await pass_days(bay, 91)
    await purge(bay, destroyed_days=30, log_days=90)
    assert await bay.one("SELECT count(*) FROM log_lines") == 0


async def test_a_destroyed_instance_stays_while_something_inside_lives(bay: Bay) -> None:
    parent = await destroyed(bay, 31)
    child = await bay.instance(MANIFEST, "Running")
    await bay.change("UPDATE instances SET parent_id = %s WHERE id = %s", parent, child)
    await purge(bay, destroyed_days=30)
    assert await bay.one("SELECT count(*) FROM instances") == 2


async def test_old_jobs_of_the_living_go_but_for_the_last_ones(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_RETAINED", 3)
    busy, quiet = await bay.instance(MANIFEST, "Running"), await bay.instance(MANIFEST, "Running")
    for days_ago in range(20, 0, -1):
        await ended_job(bay, busy, days_ago)
    await ended_job(bay, quiet, 50)
    await purge(bay, history_days=10)
    kept = "SELECT count(*) FROM jobs WHERE instance_id = %s"
    assert (await bay.one(kept, busy), await bay.one(kept, quiet)) == (9, 1)
    await purge(bay, history_days=1)
    assert (await bay.one(kept, busy), await bay.one(kept, quiet)) == (3, 1)


async def test_a_job_under_way_stays_however_old_it_is(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    job = await bay.command(instance, "act")
    await bay.change(
        "UPDATE jobs SET created_at = now() - interval '900 days', started_at = now() - interval '900 days'"
    )
    await purge(bay, history_days=1, destroyed_days=1, log_days=1)
    assert [row[0] for row in await bay.rows("SELECT id FROM jobs")] == [job]


async def pass_days(bay: Bay, days: float) -> None:
    """Let the numbers of log lines, events and audit entries be older by that."""
    await bay.change("UPDATE number_blocks SET began_at = began_at - %s * interval '1 day'", days)


async def written(bay: Bay, instance: str) -> None:
    """Write a log line, an event and an audit entry now."""
    await bay.change(
        "INSERT INTO log_lines (instance_id, job_id, level, text, at) VALUES (%s, 'j', 'info', 't', now())", instance
    )
    await bay.change(
        "INSERT INTO instance_events (instance_id, kind, subject) VALUES (%s, 'status', 'Running')", instance
    )
    await bay.change(
        "INSERT INTO audit_entries (actor_id, actor_email, method, address, operation, object, object_id)"
        " VALUES ('u', 'u@example.org', 'Basic', '', 'o', '/o', 'o')"
    )


async def counts(bay: Bay) -> list[int]:
    return [
        await bay.one(f"SELECT count(*) FROM {table}") for table in ("log_lines", "instance_events", "audit_entries")
    ]


@pytest.mark.slow
async def test_log_lines_events_and_audit_entries_go_by_their_age(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    left = []
    for _ in range(20):
        await written(bay, instance)
        await purge(bay, log_days=5, audit_days=10)
        left.append(await counts(bay))
        await pass_days(bay, 1)
    for written_days, kept in enumerate(left, 1):
        for days, rows in zip((5, 7, 10), kept, strict=True):
            assert min(written_days, days) <= rows <= min(written_days, days + 2), (written_days, kept)
    assert await bay.one("SELECT count(*) FROM partitions") < 40, "those that were dropped are forgotten"


async def test_numbers_rise_from_block_to_block_and_lists_read_over_all_partitions(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    for _ in range(5):
        await written(bay, instance)
        await purge(bay, log_days=90, audit_days=90)
        await pass_days(bay, 1.5)
    async with bay.database.connection() as connection:
        lines = await events.list_log_lines(
            connection, instance_id=instance, after=0, count=100, bytes=1_000_000, **LogFilter().columns()
        )
        seen = await events.list_since(connection, instance_id=instance, after=lines[2].id, count=100)
    numbers = [line.id for line in lines]
    assert len(numbers) == 5
    assert numbers == sorted(numbers)
    assert len({number >> 36 for number in numbers}) == 4
    assert [event.kind for event in seen] == ["status", "log", "status", "log", "status"]
    assert numbers[-1] < 2**53, "JavaScript reads it as a number"


async def test_rows_are_written_without_anybody_who_makes_partitions(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    await purge(bay, log_days=1)
    await bay.change("SELECT setval('instance_changes', (1::bigint << 36) - 2)")
    await written(bay, instance)
    await written(bay, instance)
    assert (await counts(bay))[:2] == [2, 2]
    await purge(bay, log_days=1)
    for _ in range(3):
        await pass_days(bay, 2)
        await purge(bay, log_days=1)
        await written(bay, instance)
    assert (await counts(bay))[0] == 2, "the lines of the last two rounds"


async def test_a_clock_that_was_ahead_does_not_stop_retention(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    await written(bay, instance)
    await pass_days(bay, -4000)
    for _ in range(4):
        await purge(bay, log_days=1)
        await pass_days(bay, 1)
    assert (await counts(bay))[0] == 0


async def test_several_processes_make_partitions_at_once(bay: Bay) -> None:
    await bay.instance(MANIFEST, "Running")
    for _ in range(3):
        await pass_days(bay, 2)
        await asyncio.gather(*(purge(bay, log_days=1) for _ in range(6)))
    blocks = await bay.one("SELECT max(block) FROM number_blocks WHERE sequence = 'instance_changes'")
    assert blocks == 3, "each time one process began a block"


async def test_a_reader_keeps_retention_from_dropping_and_is_not_waited_for_long(bay: Bay) -> None:
    instance = await bay.instance(MANIFEST, "Running")
    await written(bay, instance)
    await pass_days(bay, 3)
    await purge(bay, log_days=1)
    await pass_days(bay, 3)
    async with bay.database.transaction() as connection:
        await connection.execute("SELECT count(*) FROM log_lines")
        await purge(bay, log_days=1)
        assert (await counts(bay))[0] == 1
        await written(bay, instance)
    await purge(bay, log_days=1)
    assert (await counts(bay))[0] == 1


async def test_zero_days_keep_everything(bay: Bay) -> None:
    await destroyed(bay, 4_000)
    assert await purge(bay) == 1
    assert await bay.one("SELECT count(*) FROM jobs") == 2


@pytest.mark.slow
async def test_processes_take_turns(bay: Bay) -> None:
    await destroyed(bay, 31)
    async with bay.database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(5064719320041)")
        await purge(bay, destroyed_days=30)
        assert await bay.one("SELECT count(*) FROM instances") == 1
    await purge(bay, destroyed_days=30)
    assert await bay.one("SELECT count(*) FROM instances") == 0


TOKEN = (
    "INSERT INTO refresh_tokens (id, user_id, label, token_hash, expires_at)"
    " VALUES (%s, %s, %s, sha256(%s::bytea), now() + %s * interval '1 hour')"
)


@pytest.mark.slow
async def test_refresh_tokens_go_a_day_after_their_end(bay: Bay) -> None:
    user_id = new_id()
    async with bay.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO users (id, email, name) VALUES (%s, %s, 'Ada')", [user_id, f"{user_id}@example.org"]
        )
        for label, hours in (("long over", -25), ("just over", -1), ("good", 24)):
            await connection.execute(TOKEN, [new_id(), user_id, label, label, hours])
    assert not await Cleaner(bay.database).clean(), "nothing more is to be done at once"
    async with bay.database.connection() as connection:
        left = await connection.execute("SELECT label FROM refresh_tokens WHERE user_id = %s ORDER BY 1", [user_id])
        assert await left.fetchall() == [("good",), ("just over",)]
