"""Jobs that only wait leave their worker and come back (decision 0096)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launchbay.store import dispatch, jobs
from launchbay.store.database import Database
from tests.support.engine import Bay, ask, insert_jobs

AFTER_S = 0.2
PARKED = "SELECT count(*) = {} FROM parked"
ASKING = "{action: approval, parameters: {text: 'Deploy?'}}"
DECISION = """
WITH answer AS (
    INSERT INTO approval_answers (approval_id, user_id, email, approves, comment)
    SELECT id, 'u', 'u@example.com', true, '' FROM approvals WHERE status = 'pending'
)
UPDATE approvals SET status = 'approved', decided_at = now() WHERE status = 'pending'
"""
CHAIN = """
launch:
  steps:
    - before: {{action: effect}}
    - rest: {{precedingPhases: [before], {rest}}}
    - after: {{precedingPhases: [rest], action: effect}}
"""


@pytest.fixture
async def parking(bay: Bay) -> AsyncIterator[Bay]:
    """A process that parks early."""
    bay.park_after_s = AFTER_S
    async with bay.working():
        yield bay


def chain(rest: str) -> str:
    """Return a launch with an effect before and after a step that rests."""
    return CHAIN.format(rest=rest[1:-1])


async def parked(bay: Bay, manifest: str, count: int = 1) -> str:
    """Launch and return the job once it is parked."""
    job = await bay.launch(await bay.instance(manifest))
    await bay.until(PARKED.format(count))
    return job


async def decide(bay: Bay) -> None:
    await bay.change(DECISION)


@pytest.mark.slow
async def test_a_job_that_waits_holds_no_place_and_comes_back_when_its_time_is_over(parking: Bay) -> None:
    job = await parked(parking, chain("{action: wait, parameters: {delay: 1.5}}"))
    [(worker_id, fence, status)] = await parking.rows("SELECT worker_id, fence, status FROM jobs")
    assert (worker_id, status) == (None, "Executing")
    assert fence >= 2, "its worker can't write any more"
    assert await parking.ended(job) == ("Succeeded", None)
    assert [path.rpartition("/")[2] for path in parking.world.paths()] == ["before", "after"]
    [(late_s, early)] = await parking.rows(
        "SELECT extract(epoch FROM finished_at - started_at)::float8 - 1.5, finished_at < started_at + interval '1.5 s'"
        " FROM steps WHERE path ~ 'rest$'"
    )
    assert not early
    assert late_s < 2.0
    assert await parking.one("SELECT count(*) FROM parked") == 0


async def test_a_short_wait_is_not_parked(parking: Bay) -> None:
    job = await parking.launch(await parking.instance(chain(f"{{action: wait, parameters: {{delay: {AFTER_S}}}}}")))
    assert await parking.ended(job) == ("Succeeded", None)
    assert await parking.one("SELECT max(fence) FROM jobs") == 1


async def test_an_approval_wakes_its_job_and_is_asked_and_told_once(parking: Bay) -> None:
    job = await parked(parking, chain(ASKING))
    await decide(parking)
    assert await parking.ended(job, within_s=30.0) == ("Succeeded", None)
    assert await parking.one("SELECT count(*) FROM approvals") == 1
    assert await parking.one("SELECT count(*) FROM log_lines WHERE text ~ '^Waiting for approval'") == 1
    assert len(parking.world.effects) == 2


@pytest.mark.slow
async def test_an_expired_approval_wakes_its_job(parking: Bay) -> None:
    asking = "{action: approval, parameters: {text: 'Deploy?', timeout: 1}}"
    job = await parked(parking, chain(asking))
    status, error = await parking.ended(job)
    assert status == "Failed"
    assert error is not None
    assert "expired" in error


async def test_a_cancelled_job_ends_though_it_is_parked(parking: Bay) -> None:
    job = await parked(parking, chain(ASKING))
    async with parking.database.transaction() as connection:
        assert await jobs.cancel(connection, job_id=job, reason="Not today.")
    assert await parking.ended(job, within_s=5.0) == ("Failed", "Not today.")
    assert await parking.one("SELECT array_agg(status) FROM approvals") == ["withdrawn"]
    assert len(parking.world.effects) == 1


async def test_a_job_that_another_takes_the_place_of_is_not_left_in_the_table(parking: Bay) -> None:
    job = await parked(parking, chain(ASKING))
    async with parking.database.transaction() as connection:
        await jobs.supersede(connection, job_id=job, job_status="Failed", status="Failed", error_message="Gone.")
    await parking.until("SELECT (SELECT count(*) FROM parked) + (SELECT count(*) FROM ready) = 0")
    assert (await parking.ended(job))[1] == "Gone."


@pytest.mark.slow
async def test_a_job_with_a_branch_that_does_something_stays(parking: Bay) -> None:
    manifest = f"""
    launch:
      steps:
        - sign-off: {ASKING}
        - busy: {{action: pass, parameters: {{gate: go}}}}
    """
    job = await parking.launch(await parking.instance(manifest))
    await parking.until("SELECT count(*) = 1 FROM approvals")
    with pytest.raises(AssertionError, match="there is still False"):
        await parking.until(PARKED.format(1), within_s=5 * AFTER_S)
    parking.world.gate("go").set()
    await parking.until(PARKED.format(1))
    await decide(parking)
    assert await parking.ended(job) == ("Succeeded", None)


@pytest.mark.slow
async def test_the_first_end_of_several_rests_wakes_the_job(parking: Bay) -> None:
    manifest = f"""
    launch:
      steps:
        - sign-off: {ASKING}
        - pause: {{action: wait, parameters: {{delay: 1.5}}}}
        - after: {{precedingPhases: [pause], action: effect}}
    """
    job = await parked(parking, manifest)
    await parking.until("SELECT count(*) = 1 FROM steps WHERE path ~ 'after$' AND status = 'Succeeded'")
    await parking.until(PARKED.format(1))
    await decide(parking)
    assert await parking.ended(job) == ("Succeeded", None)
    assert len(parking.world.effects) == 1


@pytest.mark.slow
async def test_a_retry_pause_keeps_the_job(bay: Bay) -> None:
    manifest = "launch: {steps: [{a: {action: effect, parameters: {fail: 1, retryCount: 1}}}]}"
    async with bay.working(park_after_s=0.05, step_retry_first_s=1.5, step_retry_longest_s=1.5):
        job = await bay.launch(await bay.instance(manifest))
        assert await bay.ended(job) == ("Succeeded", None)
    assert [effect.attempt for effect in bay.world.effects] == [1, 2]
    assert await bay.one("SELECT fence FROM jobs") == 1


async def test_the_percentage_of_a_parked_wait_goes_on(parking: Bay) -> None:
    await parked(parking, chain("{action: wait, parameters: {delay: 3600}}"))
    shown = "SELECT launchbay_percent(status, percent, started_at, ends_at) FROM steps WHERE path ~ 'rest$'"
    assert await parking.one(shown) == 0
    await parking.change(
        "UPDATE steps SET started_at = started_at - interval '30 min', ends_at = ends_at - interval '30 min'"
    )
    assert await parking.one(shown) == 50
    await parking.change("UPDATE steps SET ends_at = now() - interval '1 s'")
    assert await parking.one(shown) == 99


# No wake-up is lost


@asynccontextmanager
async def about_to_park(bay: Bay, statement: str) -> AsyncIterator[Any]:
    """Hold a row that parking must lock, from before the job is parked until it waits for the lock."""
    async with Database(bay.url, connections=1) as database, database.transaction() as connection:
        await connection.execute(statement.encode())
        await bay.until(
            "SELECT count(*) > 0 FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND query ~ 'launchbay_park' AND datname = current_database()"
        )
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the look", "during the look"])
async def test_an_answer_while_the_job_is_being_parked_is_not_missed(
    bay: Bay, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bay.park_after_s = 1.0 if when == "during the look" else AFTER_S
    with monkeypatch.context() as blind:
        blind.setattr("launchbay.engine.approvals.PendingApprovals.poll", _look_away)
        job = await _decided_while_parking(bay, when)
    async with bay.working():
        assert await bay.ended(job) == ("Succeeded", None)
    assert len(bay.world.effects) == 2


async def _decided_while_parking(bay: Bay, when: str) -> str:
    async with bay.working():
        job = await bay.launch(await bay.instance(chain(ASKING)))
        await bay.until("SELECT count(*) = 1 FROM approvals")
        if when == "during the look":
            async with about_to_park(bay, DECISION):
                pass
        else:
            await decide(bay)
        await asyncio.sleep(3 * bay.park_after_s)
        assert await bay.one("SELECT count(*) FROM parked") == 0, "who missed the answer would wait for it here"
    return job


async def _look_away(_: object) -> None:
    """See no decision."""


@pytest.mark.slow
async def test_a_cancellation_while_the_job_is_being_parked_is_not_missed(bay: Bay) -> None:
    bay.park_after_s = 1.0
    async with bay.working():
        job = await bay.launch(await bay.instance(chain(ASKING)))
        await bay.until("SELECT count(*) = 1 FROM log_lines WHERE text LIKE 'Waiting for approval%%'")
        asked = "UPDATE jobs SET cancel_requested = true, error_message = 'Not today.'"  # and nobody is notified
        async with about_to_park(bay, asked):
            pass
        await asyncio.sleep(1.0)
        assert await bay.one("SELECT count(*) FROM parked") == 0
        await bay.announce(job)
        assert await bay.ended(job) == ("Failed", "Not today.")


async def test_a_worker_that_lost_the_job_parks_nothing(bay: Bay) -> None:
    async with bay.database.connection() as connection:
        await insert_jobs(connection, ["acme"], worker_id=7)
        given: dict[str, Any] = {
            "job_id": "acme0",
            "organization_id": "acme",
            "due_s": 60.0,
            **{key: [] for key in ("approval_ids", "step_jobs", "step_paths", "steps_end_s")},
        }
        assert not await dispatch.park(connection, worker_id=8, fence=1, **given)
        assert not await dispatch.park(connection, worker_id=7, fence=2, **given)
        assert await dispatch.park(connection, worker_id=7, fence=1, **given)
    assert await ask(bay.database, "SELECT worker_id, fence FROM jobs") == (None, 2)


# Other processes and other jobs


@pytest.mark.slow
async def test_a_parked_job_comes_back_in_another_process(bay: Bay) -> None:
    bay.park_after_s = AFTER_S
    async with bay.working():
        job = await parked(bay, chain("{action: wait, parameters: {delay: 2}}"))
    async with bay.working():
        assert await bay.ended(job) == ("Succeeded", None)
    assert len(bay.world.effects) == 2


async def test_a_stop_has_nothing_to_do_with_parked_jobs(bay: Bay) -> None:
    bay.park_after_s = AFTER_S
    async with bay.working(stop_grace_s=60.0) as stop:
        await parked(bay, chain(ASKING))
        [before] = await bay.rows("SELECT fence, worker_id FROM jobs")
        stop.set()
    assert await bay.rows("SELECT fence, worker_id FROM jobs") == [before]


async def test_due_jobs_are_woken_in_batches_and_by_the_index(bay: Bay) -> None:
    async with bay.database.connection() as connection:
        await insert_jobs(connection, ["acme"], 20)
        await connection.execute("TRUNCATE ready")
        await connection.execute(
            "INSERT INTO parked SELECT 'acme' || n, 'acme', now() + (n - 14) * interval '1 min'"
            " FROM generate_series(0, 19) n"
        )
        first = await dispatch.wake_due(connection, most=10)
        second = await dispatch.wake_due(connection, most=10)
        third = await dispatch.wake_due(connection, most=10)
    assert [row.jobs for row in (first, second, third) if row is not None] == [10, 5, 0]
    assert third is not None
    assert 0 < (third.next_s or 0) <= 60
    assert await bay.one("SELECT count(*) FROM parked") == 5


FAMILY = """
application:
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: somewhere}
    own:
      type: workflow.Instance
      configuration:
        configuration.workflows: {launch: {steps: [{a: {action: effect}}]}}
"""


async def family(bay: Bay, child_manifest: str, status: str = "Requested") -> tuple[str, str]:
    """Return an instance that is to launch a submodule, and the submodule."""
    child = await bay.instance(child_manifest, status=status)
    parent = await bay.instance(FAMILY)
    await bay.change("UPDATE instances SET parent_id = %s WHERE id = %s", parent, child)
    await bay.change(
        "INSERT INTO instance_links (instance_id, component, target_id, kind) VALUES (%s, 'child', %s, 'own')",
        parent,
        child,
    )
    return parent, child


async def test_a_job_and_what_it_calls_rest_together(parking: Bay) -> None:
    parent, child = await family(parking, chain(ASKING))
    job = await parking.launch(parent)
    await parking.until(PARKED.format(1))
    assert await parking.one("SELECT job_id FROM parked") == job
    assert await parking.one("SELECT count(*) FROM jobs WHERE status = 'Executing'") == 2
    await decide(parking)
    assert await parking.ended(job) == ("Succeeded", None)
    assert await parking.status(child) == "Running"
    assert len(parking.world.effects) == 3
    assert await parking.one("SELECT count(*) FROM log_lines WHERE text ~ '^Waiting for approval'") == 1


@pytest.mark.slow
async def test_the_forced_destroy_of_a_called_instance_wakes_its_caller(parking: Bay) -> None:
    parent, child = await family(parking, chain(ASKING))
    job = await parking.launch(parent)
    await parking.until(PARKED.format(1))
    async with parking.database.transaction() as connection:
        inner = await parking.one("SELECT job_id FROM instances WHERE id = %s", child)
        await jobs.supersede(connection, job_id=inner, job_status="Failed", status="Failed", error_message="Gone.")
    status, error = await parking.ended(job)
    assert status == "Failed"
    assert error is not None
    assert "Gone." in error


@pytest.mark.slow
async def test_a_job_that_waits_for_a_busy_instance_lends_its_place(bay: Bay) -> None:
    parent, child = await family(bay, "launch: {steps: [{a: {action: effect}}]}", status="Failed")
    job, before = await bay.launch(parent), await bay.launch(child)
    async with bay.working(engine_concurrency=1):
        assert await bay.ended(job) == ("Succeeded", None)
    order = await bay.rows("SELECT id, parent_job_id FROM jobs WHERE instance_id = %s ORDER BY created_at", child)
    assert order[0] == (before, None)
    assert [caller for _, caller in order] == [None, job]
