"""What a step, and a job, may write into the log."""

import pytest

from launchbay import limits
from launchbay.engine.journal import LogQuota
from tests.support.engine import Bay, held_job, journal


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("STEP_LINES", 5), ("STEP_CHARS", 1_000), ("JOB_LINES", 12), ("JOB_CHARS", 5_000)):
        monkeypatch.setattr(limits, f"LOG_{name}", value)


def written(bounds: LogQuota, path: str, count: int, level: str = "info", text: str = "x") -> list[tuple[str, str]]:
    lines = (bounds.admit(path, level, text) for _ in range(count))
    return [line for line in lines if line is not None]


def test_a_step_that_goes_on_and_on_is_cut_and_told_so_once() -> None:
    *lines, told = written(LogQuota(), "a", 100)
    assert lines == [("info", "x")] * 5
    assert told[0] == "warning"
    assert "step" in told[1]


def test_long_lines_count_by_their_length() -> None:
    assert len(written(LogQuota(), "a", 100, text="x" * 400)) == 3 + 1


def test_what_one_step_writes_takes_nothing_from_another() -> None:
    bounds = LogQuota()
    written(bounds, "a", 100)
    assert ("info", "x") in written(bounds, "b", 1)


def test_errors_are_written_still_but_not_without_end() -> None:
    bounds = LogQuota()
    written(bounds, "a", 100)
    assert len(written(bounds, "a", 10_000, level="error")) < 200
    assert ("error", "why") in written(LogQuota(), "a", 1, level="error", text="why")


def test_a_job_of_many_steps_is_cut_too() -> None:
    bounds = LogQuota()
    lines = [line for number in range(50) for line in written(bounds, f"s{number}", 3)]
    assert lines.count(("info", "x")) == 12
    assert [text for level, text in lines if level == "warning"] == [lines[-1][1]]
    assert "job" in lines[-1][1]


async def test_the_journal_keeps_no_more_than_that(bay: Bay) -> None:
    job = await held_job(bay)
    kept = journal(bay, job)
    for _ in range(1_000):
        kept.log("p/a", "info", "again")
    await kept.close()
    texts = [text for [text] in await bay.rows("SELECT text FROM log_lines WHERE job_id = %s ORDER BY id", job)]
    assert texts[:5] == ["again"] * 5
    assert len(texts) == 6
