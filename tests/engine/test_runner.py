"""From claim to end: what a job leaves behind, who may write, and what happens when things break."""

import asyncio
from typing import Any

import msgspec
import psycopg
import pytest

from launchbay import limits
from launchbay.engine import runner
from launchbay.engine.worker import Engine
from launchbay.errors import ActionFailed, Unavailable
from launchbay.model.instance import InstanceStatus
from launchbay.planning.compiled import CompiledManifests
from launchbay.planning.plans import plan_destroy
from launchbay.store import jobs
from launchbay.store.database import Connection
from launchbay.store.jobs import RecordRow
from tests.support.engine import Bay
from tests.support.eventually import eventually

TWO_STEPS = """
    launch:
      steps:
        - first: {action: effect, parameters: {value: 1}, output: {x: value}}
        - second: {action: pass, precedingPhases: [first], parameters: {gate: go}}
      return: {x: {value: "{$.x}"}}
"""


async def test_a_job_leaves_status_results_steps_and_log_behind(bay: Bay) -> None:
    instance = await bay.instance(TWO_STEPS)
    job = await bay.launch(instance)
    assert await bay.status(instance) == "Executing"
    await bay.change("INSERT INTO log_positions SELECT %s, 'workflow#launch/first', 1, 'a machine', '5'", job)
    bay.world.gate("go").set()
    await bay.run(job)
    [(status, error, results, job_id)] = await bay.rows(
        "SELECT status, error_message, return_values, job_id FROM instances WHERE id = %s", instance
    )
    assert (status, error, msgspec.json.decode(results), job_id) == ("Running", None, {"x": 1}, None)
    [(status, steps, finished)] = await bay.rows("SELECT status, steps, finished_at FROM jobs WHERE id = %s", job)
    assert (status, finished is not None) == ("Succeeded", True)
    assert await bay.one("SELECT count(*) FROM log_positions WHERE job_id = %s", job) == 0
    assert msgspec.json.decode(steps) == [
        ["workflow#launch/first", "first", "Succeeded", 100],
        ["workflow#launch/second", "second", "Succeeded", 100],
    ]
    assert await bay.steps(job) == {
        "workflow#launch/first": ("Succeeded", 100),
        "workflow#launch/second": ("Succeeded", 100),
    }


async def test_a_failed_job_tells_why_everywhere_and_leaves_later_steps_requested(bay: Bay) -> None:
    instance = await bay.instance("""
        launch:
          steps:
            - bad: {action: effect, parameters: {fail: 1}}
            - never: {action: effect, precedingPhases: [bad]}
    """)
    job = await bay.launch(instance)
    await bay.run(job)
    expected = "Workflow 'launch': step 'bad' failed: attempt 1 did not work."
    [(status, error)] = await bay.rows("SELECT status, error_message FROM instances WHERE id = %s", instance)
    assert (status, error) == ("Failed", expected)
    assert await bay.ended(job) == ("Failed", expected)
    brief = msgspec.json.decode(await bay.one("SELECT steps FROM jobs WHERE id = %s", job))
    assert [step[2] for step in brief] == ["Failed", "Requested"]
    lines = await bay.rows("SELECT step, level, text FROM log_lines WHERE job_id = %s ORDER BY id", job)
    assert ("workflow#launch/bad", "error", "attempt 1 did not work.") in lines
    assert (None, "error", expected) in lines


async def test_a_claim_that_is_overtaken_writes_nothing_more(bay: Bay) -> None:
    instance = await bay.instance(TWO_STEPS)
    job = await bay.launch(instance)
    old = asyncio.create_task(bay.run(job))
    await bay.until("SELECT count(*) = 2 FROM steps WHERE job_id = %s", job)
    new = asyncio.create_task(bay.run(job))
    await bay.until("SELECT fence = 2 FROM jobs WHERE id = %s", job)
    await eventually(lambda: len(bay.world.events) >= 2)
    before = await bay.rows("SELECT path, status, finished_at FROM steps WHERE job_id = %s ORDER BY path", job)
    bay.world.gate("go").set()
    await old
    await new
    assert await bay.ended(job) == ("Succeeded", None)
    assert bay.world.paths() == ["workflow#launch/first"], "the record of the old claim counts for the new one"
    assert bay.world.events == ["second begins", "second begins", "second ends", "second ends"]
    after = await bay.rows("SELECT path, status, finished_at FROM steps WHERE job_id = %s ORDER BY path", job)
    assert before[0] == after[0]
    assert await bay.one("SELECT fence FROM jobs WHERE id = %s", job) == 2


async def test_a_worker_that_lost_its_job_stops_it_without_writing(bay: Bay, engine: Engine) -> None:
    instance = await bay.instance(TWO_STEPS)
    job = await bay.launch(instance)
    losing = engine.runner
    old = asyncio.create_task(losing.run_child(job))
    await bay.until("SELECT count(*) = 2 FROM steps WHERE job_id = %s", job)
    await losing.drop_lost_jobs()
    assert not old.done(), "it still holds the job"
    await bay.change("UPDATE jobs SET fence = fence + 1 WHERE id = %s", job)
    await losing.drop_lost_jobs()
    await asyncio.wait_for(old, 2)
    assert bay.world.events == ["second begins"]
    assert await bay.one("SELECT status FROM jobs WHERE id = %s", job) == "Executing"


async def test_a_job_that_has_ended_is_not_run_again(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: [{a: {action: effect}}]}")
    job = await bay.launch(instance)
    await bay.run(job)
    await bay.run(job)
    assert len(bay.world.effects) == 1
    assert await bay.one("SELECT fence FROM jobs WHERE id = %s", job) == 1


async def test_the_end_counts_when_its_answer_was_lost(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = await bay.instance("again: {steps: [{a: {action: effect}}]}", "Running")
    job = await bay.command(instance, "again")
    written, calls = jobs.end, []

    async def end(*given: Any, **values: Any) -> Any:
        calls.append(await written(*given, **values))
        if len(calls) == 1:
            raise Unavailable("The connection broke after the commit.")
        return calls[-1]

    monkeypatch.setattr(jobs, "end", end)
    await bay.run(job)
    assert [call is not None for call in calls] == [True, False]
    assert await bay.ended(job) == ("Succeeded", None)
    assert await bay.status(instance) == "Running"


async def test_a_job_waits_out_a_database_that_is_away_while_it_begins(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading the manifest is no reason to fail either."""
    instance = await bay.instance("launch: {steps: [{a: {action: effect}}]}")
    job = await bay.launch(instance)
    get = CompiledManifests.get
    failures: list[int] = []

    async def away_at_first(*given: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            raise Unavailable("The database is away.")
        return await get(*given)

    monkeypatch.setattr(CompiledManifests, "get", away_at_first)
    await bay.run(job)
    assert await bay.ended(job) == ("Succeeded", None)


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("a\x00b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\ud800b", "a\N{REPLACEMENT CHARACTER}b"),
        ("x" * 1_000_000, "… (cut)"),
    ],
)
async def test_texts_that_the_database_cannot_keep_do_not_keep_the_job_from_ending(
    bay: Bay, message: str, kept: str
) -> None:
    def fail() -> None:
        raise ActionFailed(message, retryable=False)

    bay.world.raises = fail
    instance = await bay.instance("launch: {steps: [{a: {action: odd}}]}")
    job = await bay.launch(instance)
    await asyncio.wait_for(bay.run(job), 60)
    status, error = await bay.ended(job)
    assert status == "Failed"
    assert error is not None
    assert kept in error
    assert len(error) <= limits.ERROR_CHARS


async def test_names_of_any_length_and_kind_are_kept(bay: Bay) -> None:
    names = ["x" * 255, "\N{PILE OF POO}" * 255, "a/b#c>d~2%"]
    steps = "\n".join(f'    ? "{name}"\n    : {{action: .deep0}}' for name in names)
    macros = "\n".join(f'.deep{n}: {{steps: [{{"{"y" * 250}": {{action: .deep{n + 1}}}}}]}}' for n in range(9))
    last = ".deep9: {steps: [{s: {action: effect}}]}"
    instance = await bay.instance(f"launch:\n  steps:\n{steps}\n{macros}\n{last}\n")
    job = await bay.launch(instance)
    await asyncio.wait_for(bay.run(job), 60)
    assert await bay.ended(job) == ("Succeeded", None)
    assert len(set(bay.world.paths())) == 3


async def test_what_the_database_refuses_ends_the_job_as_broken(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise psycopg.DataError("invalid byte sequence")

    instance = await bay.instance("launch: {steps: [{a: {action: effect}}]}")
    job = await bay.launch(instance)
    monkeypatch.setattr(jobs, "write_journal", refuse)
    await asyncio.wait_for(bay.run(job), 60)
    status, error = await bay.ended(job)
    assert status == "Failed"
    assert error is not None
    assert f"Find job {job}" in error
    assert bay.world.effects == [], "no step runs before its begin is recorded"


async def test_an_end_that_the_database_refuses_is_written_without_its_details(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = jobs.end

    async def refuse_details(*given: Any, **values: Any) -> Any:
        if values["state"] is not None:
            raise psycopg.DataError("invalid byte sequence")
        return await written(*given, **values)

    monkeypatch.setattr(jobs, "end", refuse_details)
    instance = await bay.instance("launch: {steps: [{a: {action: effect}}]}")
    job = await bay.launch(instance)
    await asyncio.wait_for(bay.run(job), 60)
    assert (await bay.ended(job))[0] == "Failed"
    assert await bay.status(instance) == "Failed"


async def test_a_job_that_is_cancelled_from_inside_is_not_taken_for_ended(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancel(_: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(runner, "run_plan", cancel)
    job = await bay.launch(await bay.instance("launch: {steps: []}"))
    with pytest.raises(RuntimeError, match="cancelled itself"):
        await bay.run(job)


@pytest.mark.slow
async def test_a_manifest_that_is_not_accepted_any_more_fails_its_job_and_keeps_the_results(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: []}", return_values='{"x": 1}')
    job = await bay.launch(instance)
    await bay.change("UPDATE manifests SET content = 'launch: [' ")
    await bay.run(job)
    status, error = await bay.ended(job)
    assert status == "Failed"
    assert error is not None
    assert "Line 2" in error
    assert await bay.one("SELECT return_values FROM instances WHERE id = %s", instance) == '{"x": 1}'


SLOW_COMMAND = """
    application:
      interfaces: {act: {go: "bind(a#act.go)"}}
      components:
        a:
          type: workflow.Instance
          interfaces: {act: {go: "receive-command(=> )"}, b: {slow: "send-command(=> )"}}
          configuration:
            configuration.workflows:
              go: {steps: [{call: {action: b.slow, parameters: {commandCallTimeout: 0.05}}}]}
        b:
          type: workflow.Instance
          interfaces: {b: {slow: "receive-command(=> )"}}
          configuration:
            configuration.workflows: {slow: {steps: [{wait: {action: pass, parameters: {gate: never}}}]}}
      bindings: [[a, b]]
"""


async def test_no_step_is_left_executing_when_its_job_has_ended(bay: Bay) -> None:
    instance = await bay.instance(SLOW_COMMAND, "Running")
    job = await bay.command(instance, "act.go")
    await bay.run(job)
    assert (await bay.ended(job))[0] == "Failed"
    assert {status for status, _ in (await bay.steps(job)).values()} == {"Failed"}


async def test_the_percentage_of_a_step_does_not_fall_over_a_crash(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: [{s: {action: effect, parameters: {fail: 1}}}]}")
    job = await bay.launch(instance)
    await bay.change("UPDATE jobs SET fence = 1 WHERE id = %s", job)
    await bay.change(
        "INSERT INTO steps (job_id, path, name, status, percent, is_record, started_at)"
        " VALUES (%s, 'workflow#launch/s', 's', 'Executing', 60, true, now())",
        job,
    )
    await bay.run(job)
    brief = msgspec.json.decode(await bay.one("SELECT steps FROM jobs WHERE id = %s", job))
    assert brief == [["workflow#launch/s", "s", "Failed", 60]]


PROPAGATION = """
    application:
      interfaces: {act: {listed: "bind(w#act.listed)", unlisted: "bind(w#act.unlisted)"}}
      components:
        w:
          type: workflow.Instance
          interfaces:
            act: {listed: "receive-command(int fail => )", unlisted: "receive-command(int fail => )"}
          configuration:
            configuration.propagateStatus: [listed]
            configuration.workflows:
              listed: {steps: [{s: {action: effect, parameters: {fail: "{$.fail}"}}}]}
              unlisted: {steps: [{s: {action: effect, parameters: {fail: "{$.fail}"}}}]}
"""


@pytest.mark.parametrize(
    ("before", "workflow", "fail", "after", "has_error"),
    [
        ("Running", "act.listed", "1", "Failed", True),
        ("Failed", "act.listed", "0", "Running", True),
        ("Running", "act.unlisted", "1", "Running", True),
        ("Failed", "act.unlisted", "0", "Failed", True),
        ("Failed", "act.unlisted", "1", "Failed", True),
        ("Running", "act.unlisted", "0", "Running", False),
    ],
)
async def test_the_status_of_listed_workflows_propagates(
    bay: Bay, before: str, workflow: str, fail: str, after: str, has_error: bool
) -> None:
    earlier = "why it failed" if before == "Failed" else None
    instance = await bay.instance(PROPAGATION, before, error_message=earlier)
    job = await bay.command(instance, workflow, fail=fail)
    assert await bay.status(instance) == "Executing"
    await bay.run(job)
    [(status, error)] = await bay.rows("SELECT status, error_message FROM instances WHERE id = %s", instance)
    assert status == after
    assert (error is not None) == has_error
    if (before, fail) == ("Failed", "0"):
        assert error == earlier, "the success of a command keeps the reason of the last failure"


@pytest.mark.slow
async def test_steps_that_begin_and_end_together_share_their_writes(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = jobs.write_journal, []

    async def counted(*given: Any, **values: Any) -> Any:
        sizes.append(len(values["paths"]))
        return await write(*given, **values)

    monkeypatch.setattr(jobs, "write_journal", counted)
    steps = "\n".join(f"    s{n}: {{action: meet, parameters: {{count: 200}}}}" for n in range(200))
    job = await bay.launch(await bay.instance(f"launch:\n  steps:\n{steps}\n"))
    await bay.run(job)
    assert await bay.ended(job) == ("Succeeded", None)
    assert sum(sizes) >= 200
    assert len(sizes) <= 8, sizes


async def test_a_sequence_of_n_steps_costs_n_writes_and_an_end(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = jobs.write_journal, []

    async def counted(*given: Any, **values: Any) -> Any:
        sizes.append(len(values["paths"]))
        return await write(*given, **values)

    monkeypatch.setattr(jobs, "write_journal", counted)
    steps = "\n".join(f"    s{n}: {{action: effect, precedingPhases: [s{n - 1}]}}" for n in range(10))
    job = await bay.launch(await bay.instance(f"launch:\n  steps:\n{steps}\n"))
    await bay.run(job)
    assert await bay.ended(job) == ("Succeeded", None)
    assert len(sizes) <= 12, sizes


async def test_destroy_ends_everything_that_was_due(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: []}", "Running")
    await bay.schedule(instance, "launch", 3600)
    job = await bay.accept(instance, lambda _, status: plan_destroy(status))
    assert job is not None
    assert await bay.status(instance) == "Destroying"
    await bay.run(job)
    assert await bay.status(instance) == "Destroyed"
    assert await bay.rows("SELECT id FROM schedules") == []
    assert await bay.status(instance) == InstanceStatus.DESTROYED


async def test_who_is_deleted_at_the_same_moment_is_not_told_of_new_signals(bay: Bay) -> None:
    service = await bay.instance("launch: {steps: [{s: {action: effect}}], return: {word: {value: new}}}")
    consumer = await bay.instance("{}", "Running")
    await bay.change(
        "INSERT INTO instance_links (instance_id, component, target_id, kind) VALUES (%s, 'c', %s, 'service')",
        consumer,
        service,
    )
    job = await bay.launch(service)
    async with bay.database.transaction() as connection:
        await connection.execute("DELETE FROM instances WHERE id = %s", [consumer])
        running = asyncio.create_task(bay.run(job))
        await bay.until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    await running
    assert await bay.ended(job) == ("Succeeded", None)
    assert await bay.one("SELECT count(*) FROM schedules WHERE kind = 'signals'") == 0


@pytest.mark.slow
async def test_what_earlier_claims_left_is_read_in_pages(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [f"s{number}: {{action: effect, parameters: {{value: {number}}}}}" for number in range(25)]
    names = ", ".join(f"s{number}" for number in range(25))
    listed = ", ".join(f"{{{each}}}" for each in steps)
    instance = await bay.instance(f"""
    launch:
      steps: [{listed}, {{last: {{action: pass, precedingPhases: [{names}], parameters: {{gate: go}}}}}}]
""")
    job = await bay.launch(instance)
    old = asyncio.create_task(bay.run(job))
    await bay.until("SELECT count(*) = 26 FROM steps WHERE job_id = %s", job)
    pages: list[int] = []
    read = jobs.list_records

    async def counted(connection: Connection, **parameters: Any) -> list[RecordRow]:
        page = await read(connection, **parameters)
        pages.append(len(page))
        return page

    monkeypatch.setattr(jobs, "list_records", counted)
    monkeypatch.setattr(limits, "RECORDS_PAGE", 10)
    new = asyncio.create_task(bay.run(job))
    await bay.until("SELECT fence = 2 FROM jobs WHERE id = %s", job)
    bay.world.gate("go").set()
    await asyncio.gather(old, new)
    assert await bay.ended(job) == ("Succeeded", None)
    assert pages == [10, 10, 6], "each row once"
    assert len(bay.world.paths()) == 25, "no recorded step ran again"
