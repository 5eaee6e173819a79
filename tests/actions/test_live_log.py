"""Output of commands in a step's log: bounded in lines a second, in lines and in bytes."""

import pytest

from launchbay import limits
from launchbay.actions.output import LiveLog
from tests.actions.contexts import SteppedClock


@pytest.fixture
def lines() -> list[str]:
    return []


def made(lines: list[str], clock: SteppedClock | None = None) -> LiveLog:
    return LiveLog(lambda _, text: lines.append(text), clock or SteppedClock())


def test_lines_have_their_host_and_errors_are_marked(lines: list[str]) -> None:
    live = made(lines)
    live.for_host("10.0.0.1")("stdout", "one")
    live.for_host("10.0.0.2")("stderr", "two")
    live.close()
    assert lines == ["[10.0.0.1] one", "[10.0.0.2 stderr] two"]


def test_a_burst_passes_and_then_so_many_lines_a_second(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_LOG_LINES_AT_ONCE", 5)
    monkeypatch.setattr(limits, "STEP_LOG_LINES_PER_S", 2.0)
    clock = SteppedClock()
    take = made(lines, clock).for_host("h")
    for number in range(8):
        take("stdout", str(number))
    clock.passed_s += 1.0
    for number in range(8, 12):
        take("stdout", str(number))
    assert lines == [*(f"[h] {n}" for n in range(5)), "(3 lines of output left out of this log)", "[h] 8", "[h] 9"]


@pytest.mark.parametrize(("bound", "most"), [("STEP_LOG_LINES", 3), ("STEP_LOG_BYTES", 30)])
def test_after_so_much_in_all_nothing_more_is_written_but_counted(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(limits, bound, most)
    live = made(lines)
    for _ in range(10):
        live.for_host("h")("stdout", "123456")
    live.close()
    assert lines == ["[h] 123456"] * 3 + ["(7 lines of output left out of this log)"]


def test_one_line_is_counted_as_one(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_LOG_LINES", 0)
    live = made(lines)
    live.for_host("h")("stdout", "x")
    live.close()
    live.close()
    assert lines == ["(one line of output left out of this log)"]
