"""The journal of one claim: order, sharing of writes, fence, and the last moments of a process."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from launchbay.auth.secret_key import SecretKey, new_key
from launchbay.engine import journal as journals
from launchbay.engine.journal import CLOSE_S, PostgresJournal
from launchbay.errors import Fenced, Unavailable
from launchbay.model.job import StepStatus
from launchbay.runtime.contract import StepRecord
from launchbay.store import jobs
from tests.support.clock import HandClock
from tests.support.databases import until_locked
from tests.support.engine import Bay, held_job, journal

AT = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_begin_is_durable_when_start_returns_with_all_that_was_noted_before(bay: Bay) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    kept.note("p/a", "a", StepStatus.SUCCEEDED)
    kept.log("p/a", "info", "hello")
    await kept.start("p/b", "b", 1, AT)
    assert await bay.steps(job) == {"p/a": ("Succeeded", 100), "p/b": ("Executing", 0)}
    assert await bay.one("SELECT text FROM log_lines WHERE job_id = %s AND text NOT LIKE 'Step %%'", job) == "hello"


async def test_success_is_durable_before_the_next_begin_returns(bay: Bay) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    await kept.start("p/a", "a", 1, AT)
    kept.succeed("p/a", {"x": [1]})
    await kept.start("p/b", "b", 1, AT)
    assert await bay.one("SELECT outputs FROM steps WHERE job_id = %s AND path = 'p/a'", job) == '{"x":[1]}'


async def test_success_without_a_next_step_becomes_durable_by_itself_at_once(bay: Bay) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    await kept.start("p/a", "a", 1, AT)
    kept.succeed("p/a", {})
    await bay.until("SELECT status = 'Succeeded' FROM steps WHERE job_id = %s", job, within_s=1)


async def test_a_start_that_nobody_notices_costs_no_write_and_keeps_its_time(bay: Bay) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    for step in ("p/a", "p/b"):
        await kept.start(step, step, 1, AT, durable=False)
        kept.succeed(step, {"x": 1})
    assert await bay.steps(job) == {}
    await kept.start("p/c", "c", 1, AT, durable=False)
    await bay.until("SELECT count(*) = 3 FROM steps WHERE job_id = %s", job, within_s=5)
    assert await bay.one("SELECT started_at FROM steps WHERE job_id = %s AND path = 'p/c'", job) == AT
    await kept.start("p/d", "d", 1, AT)
    assert await bay.steps(job) == {
        "p/a": ("Succeeded", 100),
        "p/b": ("Succeeded", 100),
        "p/c": ("Executing", 0),
        "p/d": ("Executing", 0),
    }


async def test_a_claim_that_was_overtaken_hears_of_it_at_the_next_start_that_nobody_notices(bay: Bay) -> None:
    job = await held_job(bay)
    old = journal(bay, job, fence=2)
    with pytest.raises(Fenced):
        await old.start("p/a", "a", 1, AT)
    with pytest.raises(Fenced):
        await old.start("p/b", "b", 1, AT, durable=False)


async def test_a_claim_that_was_overtaken_is_told_and_writes_nothing(bay: Bay) -> None:
    job = await held_job(bay)
    old = journal(bay, job, fence=2)
    with pytest.raises(Fenced):
        await old.start("p/a", "a", 1, AT)
    old.log(None, "info", "too late")
    old.note("p/b", "b", StepStatus.SUCCEEDED)
    with pytest.raises(Fenced):
        await old.start("p/c", "c", 1, AT)
    with pytest.raises(Fenced):
        await old.drain()
    await old.close()
    assert await bay.steps(job) == {}
    assert await bay.rows("SELECT id FROM log_lines WHERE job_id = %s", job) == []


async def test_every_step_that_waits_hears_that_the_claim_is_lost(bay: Bay) -> None:
    job = await held_job(bay)
    old = journal(bay, job, fence=2)
    starts = [asyncio.create_task(old.start(f"p/{n}", "s", 1, AT)) for n in range(20)]
    await asyncio.sleep(0)
    more = [asyncio.create_task(old.start(f"q/{n}", "s", 1, AT)) for n in range(20)]
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*starts, *more, return_exceptions=True)
    assert all(isinstance(answer, Fenced) for answer in answers)


async def test_a_claim_waits_for_a_write_under_way_and_then_nothing_comes_after_it(bay: Bay) -> None:
    """The share lock of a write makes the next claim wait; afterwards the old fence writes no more."""
    job = await held_job(bay)
    old = journal(bay, job)
    async with bay.database.transaction() as connection:
        values = {**journal(bay, job)._batch().columns(), "paths": ["p/a"], "names": ["a"], "statuses": ["Executing"]}
        values |= {"percents": [0], "are_records": [True], "attempts": [1], "outputs": [None], "errors": [None]}
        values |= {"started": [AT], "finished": [None]}
        assert await jobs.write_journal(connection, job_id=job, fence=3, begins=True, **values) is not None
        claiming = asyncio.create_task(bay.change("UPDATE jobs SET fence = fence + 1 WHERE id = %s", job))
        await until_locked(bay.database.url, statement="SET fence = fence + 1")
        assert not claiming.done()
    await claiming
    with pytest.raises(Fenced):
        await old.start("p/b", "b", 1, AT)
    assert set(await bay.steps(job)) == {"p/a"}


async def test_a_process_that_was_suspended_after_its_write_asks_again_before_it_begins(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await held_job(bay)
    clock = HandClock()
    kept = PostgresJournal(bay.database, clock, job, 3, {}, on_fenced=lambda: None)
    write = jobs.write_journal

    async def then_suspended(*given: Any, **values: Any) -> Any:
        written = await write(*given, **values)
        clock.advance(6)
        await given[0].execute("UPDATE jobs SET fence = 4")
        return written

    monkeypatch.setattr(jobs, "write_journal", then_suspended)
    with pytest.raises(Fenced):
        await kept.start("p/a", "a", 1, AT)


async def test_a_slow_database_does_not_keep_a_step_from_beginning(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await held_job(bay)
    clock = HandClock()
    kept = PostgresJournal(bay.database, clock, job, 3, {}, on_fenced=lambda: None)
    write = jobs.write_journal

    async def slowly(*given: Any, **values: Any) -> Any:
        clock.advance(6)
        return await write(*given, **values)

    monkeypatch.setattr(jobs, "write_journal", slowly)
    await asyncio.wait_for(kept.start("p/a", "a", 1, AT), 5)
    assert await bay.steps(job) == {"p/a": ("Executing", 0)}


async def test_writes_wait_out_a_database_that_is_away(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    write = jobs.write_journal
    failures: list[int] = []

    async def away_at_first(*given: Any, **values: Any) -> Any:
        if len(failures) < 3:
            failures.append(1)
            raise Unavailable("The database is away.")
        return await write(*given, **values)

    monkeypatch.setattr(jobs, "write_journal", away_at_first)
    await asyncio.wait_for(kept.start("p/a", "a", 1, AT), 5)
    assert await bay.steps(job) == {"p/a": ("Executing", 0)}


async def test_what_succeeded_in_the_last_moment_of_a_process_is_still_recorded(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    write = jobs.write_journal

    writing, may_write = asyncio.Event(), asyncio.Event()

    async def slowly(*given: Any, **values: Any) -> Any:
        writing.set()
        await may_write.wait()
        return await write(*given, **values)

    await kept.start("p/a", "a", 1, AT)
    monkeypatch.setattr(jobs, "write_journal", slowly)
    beginning = asyncio.create_task(kept.start("p/b", "b", 1, AT))
    await writing.wait()
    kept.succeed("p/a", {"x": 1})
    beginning.cancel()
    closing = asyncio.create_task(kept.close())
    await asyncio.sleep(0)  # it waits for the write
    may_write.set()
    await closing
    assert (await bay.steps(job))["p/a"] == ("Succeeded", 100)


async def test_closing_does_not_wait_for_a_database_that_is_away(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)

    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable("The database is away.")

    monkeypatch.setattr(jobs, "write_journal", away)
    kept.log(None, "info", "lost")
    begun = asyncio.get_running_loop().time()
    await kept.close()
    assert asyncio.get_running_loop().time() - begun < CLOSE_S + 5


async def test_a_step_that_is_computed_again_is_shown_as_before(bay: Bay) -> None:
    """The trigger of the fixture refuses a status that goes back."""
    job = await held_job(bay)
    first = journal(bay, job)
    first.note("p/a", "a", StepStatus.SUCCEEDED)
    await first.start("p/b", "b", 1, AT)
    first.progress("p/b", 70)
    await first.close()
    records = {
        "p/a": StepRecord(StepStatus.SUCCEEDED, 1, AT, percent=100),
        "p/b": StepRecord(StepStatus.EXECUTING, 1, AT, percent=70),
    }
    again = journal(bay, job, records=records)
    again.note("p/a", "a", StepStatus.EXECUTING)
    await again.start("p/b", "b", 1, AT)
    assert await bay.steps(job) == {"p/a": ("Succeeded", 100), "p/b": ("Executing", 70)}
    again.note("p/a", "a", StepStatus.SUCCEEDED)
    again.progress("p/b", 10)
    again.fail("p/b", "b", "in the end", 1)
    await again.close()
    assert await bay.steps(job) == {"p/a": ("Succeeded", 100), "p/b": ("Failed", 70)}
    assert await again.summary(
        [["p/a", "a", "Requested", 0], ["p/b", "b", "Requested", 0], ["p/c", "c", "Requested", 0]]
    ) == ('[["p/a","a","Succeeded",100],["p/b","b","Failed",70],["p/c","c","Requested",0]]')


async def test_percentages_and_log_lines_share_their_writes(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    await kept.start("p/a", "a", 1, AT)
    write, calls = jobs.write_journal, []

    async def counted(*given: Any, **values: Any) -> Any:
        calls.append(len(values["log_texts"]))
        return await write(*given, **values)

    monkeypatch.setattr(jobs, "write_journal", counted)
    for percent in range(100):
        kept.progress("p/a", percent)
        kept.log("p/a", "info", f"{percent} %")
    await bay.until("SELECT count(*) = 101 FROM log_lines WHERE job_id = %s", job, within_s=2)  # with the begin
    assert calls == [100]
    assert await bay.steps(job) == {"p/a": ("Executing", 99)}


async def test_many_outcomes_are_written_in_pieces_and_in_their_order(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "BATCH_ROWS", 10)
    write, pieces = jobs.write_journal, []

    async def counted(connection: Any, **values: Any) -> Any:
        pieces.append(len(values["paths"]) + len(values["log_texts"]))
        return await write(connection, **values)

    monkeypatch.setattr(jobs, "write_journal", counted)
    job = await held_job(bay)
    kept = journal(bay, job)
    steps = [f"p/{number}" for number in range(25)]
    await asyncio.gather(*(kept.start(step, step, 1, AT) for step in steps))
    for step in steps:
        kept.succeed(step, {})
    last = await kept.drain()
    written = await bay.steps(job)
    assert dict.fromkeys(steps, ("Succeeded", 100)) == {
        **written,
        **dict.fromkeys(last["paths"], ("Succeeded", 100)),
    }
    assert max(pieces) <= 11, "a step and its line come together"
    assert len(last["paths"]) + len(last["log_texts"]) <= 11
    told = await bay.rows("SELECT text FROM log_lines WHERE job_id = %s ORDER BY id", job)
    texts = [text.split(" after")[0] for (text,) in told] + [text.split(" after")[0] for text in last["log_texts"]]
    assert texts == [
        f"Step '{step}' {what}." if what == "started" else f"Step '{step}' {what}"
        for what in ("started", "succeeded")
        for step in steps
    ]


async def test_a_write_whose_time_has_come_meanwhile_does_not_break_the_next_one(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    monkeypatch.setattr("launchbay.engine.journal.LAZY_S", 0.0)  # as if the loop had been busy since
    for number in range(3):
        kept.log(None, "info", f"line {number}")
    await bay.until("SELECT count(*) = 3 FROM log_lines WHERE job_id = %s", job)


async def test_positions_of_all_sources_are_read_at_once_and_own_ones_are_remembered(
    bay: Bay, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await held_job(bay)
    first = journal(bay, job)
    await first.start("p/a", "a", 1, AT)
    for number in range(20):
        first.note_log_position("p/a", 1, f"machine {number}", str(number))
    await first.close()
    reads = 0
    read = jobs.list_log_positions

    async def counted(*given: Any, **parameters: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*given, **parameters)

    monkeypatch.setattr(jobs, "list_log_positions", counted)
    later = journal(bay, job)
    asked = (later.log_position("p/a", 1, f"machine {number}") for number in range(21))
    assert await asyncio.gather(*asked) == [*map(str, range(20)), ""]
    assert reads == 1
    later.note_log_position("p/a", 1, "machine 0", "100")
    await later.flush()
    assert await later.log_position("p/a", 1, "machine 0") == "100"
    assert reads == 1


async def test_what_a_step_got_waits_for_the_newest_key(bay: Bay) -> None:
    job, newest = await held_job(bay), new_key()
    looks = iter([None, (newest,)])
    late = SecretKey(new_key(), reload=lambda: next(looks, None))  # its file is replaced after the first look
    late.follow(SecretKey(newest).current_prefix)
    await journal(bay, job, secret_key=late).keep_passing("p/a", 1, {"token": "canary-5512"})
    looks = iter([])
    later = SecretKey(new_key(), reload=lambda: next(looks, None))
    later.follow(SecretKey(newest).current_prefix)
    looks = iter([None, (newest,)])
    next_one = journal(bay, job, secret_key=later)
    await next_one.open_passing()
    assert next_one.redact("canary-5512", 100) == "********"


async def test_tokens_are_masked_while_a_command_may_have_them_and_secrets_until_the_job_ends(bay: Bay) -> None:
    job, key = await held_job(bay), SecretKey(new_key())
    kept = journal(bay, job, secret_key=key)

    async def got(claim: PostgresJournal, path: str, attempt: int, token: str, **secrets: str) -> None:
        values = {"identity": {"token": token}} | ({"secrets": secrets} if secrets else {})
        await claim.keep_passing(path, attempt, values)

    await got(kept, "p/b", 1, "token-of-the-ended-step", password="password-of-the-ended-step")
    await kept.start("p/b", "b", 1, AT)
    kept.succeed("p/b", {})
    for attempt in range(1, 9):
        await got(kept, "p/a", attempt, f"canary-of-attempt-{attempt}")
        await got(kept, "p/c", attempt, f"another-of-attempt-{attempt}", password=f"password-{attempt}")
    await kept.flush()
    assert await bay.one("SELECT count(*) FROM passing_values WHERE job_id = %s AND path = 'p/a'", job) == 1
    await bay.change("UPDATE jobs SET fence = 4 WHERE id = %s", job)
    # It repeats the attempt, whose command has the first value.
    next_one = journal(bay, job, fence=4, secret_key=key)
    await got(next_one, "p/a", 8, "canary-of-the-repetition")
    await bay.change("UPDATE jobs SET fence = 5 WHERE id = %s", job)
    last = journal(bay, job, fence=5, secret_key=key)
    await last.open_passing()
    said = "canary-of-attempt-7 canary-of-attempt-8 canary-of-the-repetition token-of-the-ended-step"
    assert last.redact(said, 100) == "canary-of-attempt-7 ******** ******** token-of-the-ended-step"
    said = "another-of-attempt-7 another-of-attempt-8 password-7 password-8 password-of-the-ended-step"
    assert last.redact(said, 100) == "another-of-attempt-7 ******** ******** ******** ********"


async def test_what_a_step_got_for_itself_is_masked_by_the_next_claim_and_goes_with_the_job(bay: Bay) -> None:
    job = await held_job(bay)
    key = SecretKey(new_key())
    await journal(bay, job, secret_key=key).keep_passing(
        "p/a", 1, {"secrets": {"db": {"password": "canary-5512", "port": 54321}}}
    )
    stored = await bay.one("SELECT passing_values::text FROM passing_values WHERE job_id = %s", job)
    assert "canary" not in stored
    await bay.change("UPDATE jobs SET fence = 4 WHERE id = %s", job)
    next_one = journal(bay, job, fence=4, secret_key=key)
    await next_one.open_passing()
    assert next_one.redact("said canary-5512 at 54321", 100) == "said ******** at ********"
    with pytest.raises(Fenced):
        await journal(bay, job, secret_key=key).keep_passing("p/a", 1, {"secrets": {"db": "another"}})
    assert await bay.one("SELECT count(*) FROM passing_values WHERE job_id = %s", job) == 1
    await bay.change("UPDATE jobs SET status = 'Failed' WHERE id = %s", job)
    assert await bay.one("SELECT count(*) FROM passing_values WHERE job_id = %s", job) == 0
