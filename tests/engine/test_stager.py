"""What falls due becomes jobs: once, in order, never early, whatever else goes wrong."""

import asyncio

import pytest

from launchbay.engine.worker import Engine
from launchbay.runtime.state import STATE_VERSION
from launchbay.store import schedules
from tests.support.databases import until_locked
from tests.support.engine import COMMANDS, Bay


async def names(bay: Bay, instance: str) -> list[str]:
    """The names of an instance's jobs, oldest first."""
    rows = await bay.rows("SELECT name FROM jobs WHERE instance_id = %s ORDER BY created_at, id", instance)
    return [name for (name,) in rows]


async def fire(engine: Engine) -> None:
    while await engine.stager.fire_due():
        pass


@pytest.mark.slow
async def test_what_is_due_is_fired_exactly_once_by_two_stagers(bay: Bay, engine: Engine, other_engine: Engine) -> None:
    instances = [await bay.instance(COMMANDS, "Running") for _ in range(60)]
    for instance in instances:
        await bay.schedule(instance, "act.other")
    await asyncio.gather(*(fire(each) for each in (engine, other_engine, engine, other_engine)))
    assert await bay.rows("SELECT count(*), count(DISTINCT instance_id) FROM jobs") == [(60, 60)]
    assert await bay.one("SELECT count(*) FROM schedules") == 0
    assert await bay.one("SELECT count(*) FROM ready") == 60


async def test_a_schedule_that_is_known_fires_in_time_however_rarely_the_stager_looks(bay: Bay) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    await bay.schedule(instance, "act.other", 0.3)
    async with bay.working(stager_interval_ms=60_000):
        await bay.until("SELECT count(*) = 1 FROM jobs", within_s=10)


async def test_nothing_fires_early(bay: Bay, engine: Engine) -> None:
    instances = [await bay.instance(COMMANDS, "Running") for _ in range(5)]
    for place, instance in enumerate(instances):
        await bay.schedule(instance, "act.other", 0.1 + 0.05 * place)
    due = dict(await bay.rows("SELECT instance_id, due_at FROM schedules"))
    async with asyncio.timeout(5):
        while await bay.one("SELECT count(*) FROM jobs") < 5:
            await engine.stager.fire_due()
    for instance, created_at in await bay.rows("SELECT instance_id, created_at FROM jobs"):
        assert 0 <= (created_at - due[instance]).total_seconds() < 5


async def test_what_falls_due_during_a_job_waits_for_its_end_and_then_fires(bay: Bay) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    async with bay.working():
        first = await bay.command(instance, "act.go")
        await bay.schedule(instance, "act.other")
        await bay.until("SELECT blocked FROM schedules")
        assert await names(bay, instance) == ["act.go"]
        bay.world.gate("go").set()
        await bay.ended(first)
        await bay.until("SELECT count(*) = 2 FROM jobs WHERE status = 'Succeeded'")
    assert await names(bay, instance) == ["act.go", "act.other"]
    assert await bay.status(instance) == "Running"


async def test_what_was_forgotten_in_a_crash_is_recalled(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(COMMANDS, "Running", work_waiting=True)
    await bay.schedule(instance, "act.other")
    await bay.change("UPDATE schedules SET blocked = true")
    await fire(engine)
    assert await names(bay, instance) == []
    await engine.stager.unblock_forgotten()
    await fire(engine)
    assert await names(bay, instance) == ["act.other"]


async def test_after_a_downtime_what_is_overdue_runs_in_due_order(bay: Bay) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    bay.world.gate("go").set()
    wanted = ["act.go", "act.other", "act.other", "act.go", "act.other", "act.go"]
    for place, name in reversed(list(enumerate(wanted))):
        await bay.schedule(instance, name, -100 + place)
    async with bay.working():
        await bay.until("SELECT count(*) = 6 FROM jobs WHERE status = 'Succeeded'")
    assert await names(bay, instance) == wanted


async def test_due_order_holds_when_another_process_has_the_earlier_one(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    earlier = await bay.schedule(instance, "act.go", -2)
    await bay.schedule(instance, "act.other", -1)
    async with bay.database.transaction() as connection:
        await connection.execute("SELECT id FROM schedules WHERE id = %s FOR UPDATE", [earlier])
        await engine.stager.fire_due()
        assert await names(bay, instance) == []
        # A schedule that waits for a job's end would wait for ever where there is no job.
        assert await bay.one("SELECT count(*) FROM schedules WHERE blocked") == 0
    bay.world.gate("go").set()
    async with bay.working():
        await bay.until("SELECT count(*) = 2 FROM jobs WHERE status = 'Succeeded'")
    assert await names(bay, instance) == ["act.go", "act.other"]


async def test_an_instance_that_somebody_changes_is_left_for_the_next_round_and_holds_up_no_other(
    bay: Bay, engine: Engine
) -> None:
    busy, idle = await bay.instance(COMMANDS, "Running"), await bay.instance(COMMANDS, "Running")
    for instance in (busy, idle):
        await bay.schedule(instance, "act.other")
    async with bay.database.transaction() as connection:
        await connection.execute("UPDATE instances SET name = 'new' WHERE id = %s", [busy])
        async with asyncio.timeout(5):
            assert await engine.stager.fire_due() == 1
        assert (await names(bay, busy), await names(bay, idle)) == ([], ["act.other"])
    assert await engine.stager.fire_due() == 1
    assert await names(bay, busy) == ["act.other"]


async def test_a_signal_that_is_told_while_an_older_one_is_fired_is_not_taken_for_the_same(bay: Bay) -> None:
    consumer = await bay.instance(COMMANDS, "Running")
    # As launchbay_follow_up tells it at the end of a job.
    tell = (
        "INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)"
        " SELECT launchbay_new_id(), id, 'signals', '', owner_id, now() FROM instances WHERE id = %s"
        " FOR KEY SHARE ON CONFLICT DO NOTHING"
    )
    await bay.change(tell, consumer)
    async with bay.database.transaction() as connection:
        [due] = await schedules.take_due(connection, count=1, state_version=STATE_VERSION)
        assert await schedules.lock_target(connection, instance_id=consumer, due_at=due.due_at, schedule_id=due.id)
        telling = asyncio.create_task(bay.change(tell, consumer))
        await until_locked(bay.database.url)
        await schedules.delete(connection, schedule_ids=[due.id])
    await telling
    assert await bay.one("SELECT count(*) FROM schedules WHERE instance_id = %s", consumer) == 1


async def test_a_schedule_that_cannot_be_carried_out_any_more_shows_as_a_failed_job(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    await bay.schedule(instance, "act.gone")
    await fire(engine)
    [(job,)] = await bay.rows("SELECT id FROM jobs")
    await bay.run(job)
    status, error = await bay.ended(job)
    assert status == "Failed"
    assert error is not None
    assert "Command is not supported: act.gone" in error
    assert await bay.status(instance) == "Running"


async def test_a_manifest_that_is_not_accepted_any_more_holds_up_no_other_schedule(bay: Bay, engine: Engine) -> None:
    broken = [await bay.instance(COMMANDS, "Running") for _ in range(25)]
    await bay.change("UPDATE manifests SET content = 'application: ['")
    fine = await bay.instance(COMMANDS, "Running")
    for place, instance in enumerate(broken):
        await bay.schedule(instance, "act.other", -100, "expiry" if place % 2 else "workflow")
    await bay.schedule(fine, "act.other", -1)
    await fire(engine)
    assert await names(bay, fine) == ["act.other"]
    jobs = [job for (job,) in await bay.rows("SELECT id FROM jobs WHERE instance_id = ANY(%s)", broken)]
    assert len(jobs) == 25
    await bay.run(jobs[0])
    status, error = await bay.ended(jobs[0])
    assert status == "Failed"
    assert error is not None
    assert "Invalid YAML" in error


async def test_expiry_destroys_the_instance(bay: Bay) -> None:
    instance = await bay.instance("destroy: {steps: [{down: {action: effect}}]}", "Running")
    await bay.schedule(instance, "destroy", kind="expiry")
    async with bay.working():
        await bay.until("SELECT status = 'Destroyed' FROM instances WHERE id = %s", instance)
    assert bay.world.paths() == ["workflow#destroy/down"]
    assert await names(bay, instance) == ["destroy"]


async def test_nothing_fires_on_a_destroyed_instance(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(COMMANDS, "Destroyed")
    await bay.schedule(instance, "act.other")
    await fire(engine)
    assert await names(bay, instance) == []
    assert await bay.one("SELECT count(*) FROM schedules") == 0


@pytest.mark.slow
async def test_hundreds_of_due_schedules_all_become_jobs_in_one_look(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(COMMANDS, "Running")
    await bay.change(
        """
        INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status)
        SELECT md5(n::text), organization_id, application_id, environment_id, 1, 'n', 'u', 'Running'
        FROM instances, generate_series(1, 400) n WHERE id = %s
        """,
        instance,
    )
    await bay.change(
        "INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)"
        " SELECT id, id, 'workflow', 'act.other', 'u', now() FROM instances WHERE id <> %s",
        instance,
    )
    await fire(engine)
    assert await bay.one("SELECT count(*) FROM jobs") == 400
