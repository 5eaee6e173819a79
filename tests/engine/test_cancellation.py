"""What an accepted cancellation promises, wherever the job is when it comes (decision 0161)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from launchbay.concurrency import gather_bounded
from launchbay.errors import Fenced
from launchbay.ids import new_id
from launchbay.model.job import StepStatus
from launchbay.store import approvals, jobs
from launchbay.store.database import Database
from launchbay.store.jobs import CancelRow
from tests.support.engine import PATIENCE_S, Bay, held_job, insert_jobs, journal

AT = datetime(2026, 1, 1, tzinfo=UTC)
REASON = "Cancelled by u@example.org."
RUNS = 40  # as many as the old behavior needed to be seen at every moment
AT_ONCE = 6
EFFECTS = 7  # of the manifest below
# A chain, branches, a call, a retry, and rests between effects.
MANIFEST = """
    launch:
      steps:
        - a: {action: effect, parameters: {value: RUN, hold: 2}}
        - b: {action: effect, precedingPhases: [a], parameters: {value: RUN}}
        - c: {action: .inner, precedingPhases: [a]}
        - d: {action: effect, precedingPhases: [b, c], parameters: {value: RUN, fail: 1, retryCount: 2}}
        - e: {action: compute, precedingPhases: [d], parameters: {value: 1}}
        - f: {action: effect, precedingPhases: [e], parameters: {value: RUN, hold: 3}}
    .inner:
      steps:
        - g: {action: effect, parameters: {value: RUN}}
        - h: {action: wait, precedingPhases: [g], parameters: {delay: 0.005}}
        - i: {action: effect, precedingPhases: [h], parameters: {value: RUN}}
"""
ONE_STEP = "launch: {steps: [{only: {action: pass, parameters: {gate: go}}}]}"


async def cancel(bay: Bay, job: str) -> CancelRow:
    async with bay.database.connection() as connection:
        decided = await jobs.cancel(connection, job_id=job, reason=REASON)
    assert decided is not None
    return decided


async def begun(bay: Bay, job: str) -> set[tuple[str, int]]:
    """Return each attempt of a step that has begun."""
    found = await bay.rows("SELECT path, attempt FROM steps WHERE job_id = %s AND attempt > 0", job)
    return {(path, number) for path, attempt in found for number in range(1, attempt + 1)}


async def test_whenever_it_comes_a_cancellation_is_kept_or_says_that_the_job_has_ended(bay: Bay) -> None:
    chance = random.Random(35)
    instances = [await bay.instance(MANIFEST.replace("RUN", f"run{number}")) for number in range(RUNS)]
    answers: list[str] = []

    def effects(number: int) -> set[tuple[str, int]]:
        done = [each for each in bay.world.effects if each.parameters["value"] == f"run{number}"]
        return {(each.path, each.attempt) for each in done}

    async def one(number: int) -> None:
        job = await bay.launch(instances[number])
        moment = chance.randrange(EFFECTS + 2)
        if moment > EFFECTS:
            await bay.ended(job)
        while moment <= EFFECTS and len(effects(number)) < moment:
            await asyncio.sleep(0)
        await asyncio.sleep(chance.choice([0, 0, 0.002, 0.005, 0.01]))
        decided = [await cancel(bay, job) for _ in range(chance.choice([1, 2]))]
        at_answer, effects_at_answer = await begun(bay, job), effects(number)
        status, error = await bay.ended(job)
        if decided[0].asked:
            assert (status, error) == ("Failed", REASON)
            assert await begun(bay, job) <= at_answer, "no step begins after the answer"
            assert effects(number) <= at_answer, "nor does anything happen that isn't recorded as begun"
        else:
            assert decided[0].status == status == "Succeeded"
            assert effects(number) == effects_at_answer
        answers.append(status)

    async with bay.working(), bay.working():
        await gather_bounded(map(one, range(RUNS)), AT_ONCE)
    assert set(answers) == {"Failed", "Succeeded"}, "both answers were given"


async def test_a_step_that_the_cancellation_finds_running_is_shown_as_finished_in_a_cancelled_job(bay: Bay) -> None:
    job = await bay.launch(await bay.instance(ONE_STEP))
    running = asyncio.create_task(bay.run(job))  # past the dispatcher: nobody hears of the notification
    await bay.until("SELECT count(*) = 1 FROM steps WHERE job_id = %s", job)
    assert (await cancel(bay, job)).asked
    bay.world.gate("go").set()
    await running
    assert await bay.one("SELECT status FROM jobs WHERE id = %s", job) == "Executing", "it didn't end as succeeded"
    assert await bay.one("SELECT count(*) = 0 FROM log_lines WHERE job_id = %s AND text LIKE 'Job %% succeeded%%'", job)
    await bay.run(job)
    assert await bay.ended(job) == ("Failed", REASON)
    assert await bay.steps(job) == {"workflow#launch/only": ("Succeeded", 100)}
    assert bay.world.events == ["only begins", "only ends"]


async def test_a_cancelled_job_that_fails_by_itself_ends_as_cancelled(bay: Bay) -> None:
    job = await bay.launch(await bay.instance("launch: {steps: [{only: {action: odd}}]}"))
    hold = asyncio.Event()

    async def fails() -> None:
        await hold.wait()
        raise ValueError("no")

    bay.world.raises = fails
    running = asyncio.create_task(bay.run(job))
    await bay.until("SELECT count(*) = 1 FROM steps WHERE job_id = %s", job)
    assert (await cancel(bay, job)).asked
    hold.set()
    await running
    await bay.run(job)
    assert await bay.ended(job) == ("Failed", REASON)


async def test_a_cancelled_job_stops_though_its_worker_gets_no_notification(bay: Bay) -> None:
    async with bay.working():
        job = await bay.launch(await bay.instance(ONE_STEP))
        await bay.until("SELECT count(*) = 1 FROM steps WHERE job_id = %s", job)
        await bay.change("UPDATE jobs SET cancel_requested = true, error_message = %s", REASON)
        assert await bay.ended(job, within_s=PATIENCE_S) == ("Failed", REASON)
    assert bay.world.events == ["only begins"]


async def test_after_a_cancellation_no_step_begins_and_running_ones_are_recorded(bay: Bay) -> None:
    job = await held_job(bay)
    told: list[None] = []
    kept = journal(bay, job, on_fenced=lambda: told.append(None))
    await kept.start("p/a", "a", 1, AT)
    await kept.start("p/b", "b", 1, AT)
    assert (await cancel(bay, job)).asked
    kept.succeed("p/a", {})
    kept.attempt_failed("p/b", "no", 0.0)
    kept.log("p/a", "info", "seen")
    starts = [
        kept.start("p/c", "c", 1, AT),
        kept.start("p/b", "b", 2, AT),
        kept.start("p/d", "d", 1, AT, durable=False),
    ]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Fenced, Fenced, type(None)]
    assert told
    kept.note("p/e", "e", StepStatus.EXECUTING)
    kept.skip("p/f", "f")
    with suppress(Fenced):
        await kept.flush()
    await kept.close()
    assert await bay.steps(job) == {"p/a": ("Succeeded", 100), "p/b": ("Executing", 0)}
    assert await bay.rows("SELECT attempt FROM steps WHERE path = 'p/b'") == [(1,)]
    assert await bay.one("SELECT jsonb_array_length(failed_attempts) FROM steps WHERE path = 'p/b'") == 1
    lines = [text for (text,) in await bay.rows("SELECT text FROM log_lines WHERE job_id = %s ORDER BY id", job)]
    assert "seen" in lines
    assert not [line for line in lines if "'c'" in line or "'d'" in line or "'f'" in line]


async def test_a_cancellation_waits_for_a_start_under_way_and_comes_after_it(bay: Bay) -> None:
    job = await held_job(bay)
    values: dict[str, Any] = {**journal(bay, job)._batch().columns(), "begins": True}
    async with bay.database.transaction() as connection:
        assert await jobs.write_journal(connection, job_id=job, fence=3, **values) is not None
        asking = asyncio.create_task(cancel(bay, job))
        await bay.until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        assert not asking.done()
    assert (await asking).asked


async def test_what_a_cancelled_job_calls_begins_nothing_either(database: Database, bay: Bay) -> None:
    async with bay.database.transaction() as connection:
        await insert_jobs(connection, ["acme"], 4, fence=3)
        for outer, inner in (("acme0", "acme1"), ("acme1", "acme2")):
            await connection.execute("UPDATE jobs SET parent_job_id = %s WHERE id = %s", [outer, inner])
    assert (await cancel(bay, "acme0")).asked
    for inner in ("acme1", "acme2"):
        with pytest.raises(Fenced):
            await journal(bay, inner).start("p/a", "a", 1, AT)
        assert await cancel(bay, inner) == (False, "Executing")
    await journal(bay, "acme3").start("p/a", "a", 1, AT)


async def begin_call(bay: Bay, job: str) -> str | None:
    values = {"plan": "{}", "steps": "[]", "name": "launch", "job_status": "Executing", "status": "Executing"}
    called = await bay.instance(ONE_STEP, status="Running")
    async with bay.database.connection() as connection:
        return await jobs.begin_child(
            connection,
            instance_id=called,
            job_id=new_id(),
            parent_job_id=job,
            parent_fence=3,
            prior_status="Running",
            **values,
        )


async def ask_people(bay: Bay, job: str) -> str | None:
    question = {"text": "Go?", "permission": "Read", "role_id": None, "needed": 1, "not_by_requester": False}
    async with bay.database.connection() as connection:
        return await approvals.insert(
            connection,
            approval_id=new_id(),
            organization_id=bay.organization_id,
            job_id=job,
            fence=3,
            step="p/a",
            expires_at=AT,
            **question,
        )


@pytest.mark.parametrize("begin", [begin_call, ask_people])
async def test_a_cancelled_job_calls_nothing_and_asks_nobody_anymore(
    bay: Bay, begin: Callable[[Bay, str], Awaitable[str | None]]
) -> None:
    assert await begin(bay, await held_job(bay)) is not None
    cancelled = await held_job(bay)
    assert (await cancel(bay, cancelled)).asked
    assert await begin(bay, cancelled) is None


async def test_the_answer_names_the_status_that_was_found_under_the_lock(bay: Bay) -> None:
    job = await held_job(bay)
    async with bay.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET status = 'Succeeded' WHERE id = %s", [job])
        asking = asyncio.create_task(cancel(bay, job))
        await bay.until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    assert await asking == (False, "Succeeded")
    assert await cancel(bay, "f" * 24) == (False, None)
