"""A run as its page shows it: order of steps, lanes, bars, differences, and the time that thousands take."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from launchbay.console.assets import Glyph
from launchbay.console.run_view import LANE_STEPS, RunView, Segment, StepPair, step_pairs
from launchbay.model.component_state import Outcome
from launchbay.model.job import Plan
from launchbay.model.masked_comparison import ValueComparison, ValueDifference
from launchbay.model.redaction import Redactor
from launchbay.store.jobs import JobView, StepView
from launchbay.usecases.job_comparisons import ComparedStep, StepComparison, compare_details
from launchbay.usecases.jobs import JobDetails

AT = datetime(2026, 1, 2, tzinfo=UTC)


class CountedView(JobView):
    """A job that counts how often its journal is decoded."""

    decoded = 0

    def recorded(self) -> list[StepView]:
        type(self).decoded += 1
        return super().recorded()


def job(planned: list[str], recorded: list[str]) -> JobDetails:
    """Return a job whose planned steps are requested, and whose recorded steps succeeded."""
    steps = [[path, path, "Requested", 0] for path in planned]
    journal = [[path, path, "Succeeded", 100, 1, None, 1_000, 3_000, None, False] for path in recorded]
    view = CountedView(
        id="1f" * 12,
        instance_id="3f" * 12,
        name="launch",
        status="Executing",
        owner_id="2f" * 12,
        error_message=None,
        results=None,
        plan="{}",
        steps=json.dumps(steps),
        created_at=AT,
        started_at=AT,
        finished_at=None,
        parameters="{}",
        environment_view="{}",
        journal=json.dumps(journal),
        number=1,
        owner="Ann",
        application_id="4f" * 12,
        version=1,
        children="[]",
        parent=None,
        shown_parameters=None,
        shown_return_values=None,
    )
    return JobDetails(view, Plan(kind="launch", workflow="launch", prior_status="Requested"), Redactor([]), None)


def quadratic_lines(details: JobDetails) -> list[tuple[str, str]]:
    """Return path and words of the steps by the first rule: each planned step searches all others."""
    recorded = [step.path for step in details.view.recorded() if "/" in step.path]
    planned = [path for path, *_ in details.view.planned()]
    lines: list[tuple[str, str]] = []
    seen: set[str] = set()
    for outer in planned:
        lines.append((outer, "Succeeded" if outer in recorded else "Not started"))
        marks = (f"{outer}/", f"{outer}>", f"{outer}~")
        around = [each for each in planned if outer != each and outer.startswith((f"{each}/", f"{each}>", f"{each}~"))]
        inside = [each for each in recorded if each.startswith(marks) and each not in planned]
        inside = [each for each in inside if not any(each.startswith((f"{o}/", f"{o}>", f"{o}~")) for o in around)]
        lines += [(path, "Succeeded") for path in inside]
        seen |= {outer, *inside}
    return lines + [(path, "Succeeded") for path in recorded if path not in seen]


def shown(details: JobDetails) -> list[tuple[str, str]]:
    return [(step.path, step.words) for step in RunView(details, 5_000).steps]


NAMES = st.sampled_from(["web#launch", "db#launch", "a", "b", "ab"])
PATHS = st.builds(
    lambda first, rest: first + "".join(mark + name for mark, name in rest),
    NAMES,
    st.lists(st.tuples(st.sampled_from("/>~"), NAMES), max_size=4),
)
STEPS = st.lists(PATHS, unique=True, max_size=12)


@given(STEPS, STEPS)
@example(["web#launch/a"], ["web#launch/a>b/ab", "web#launch/a"])
@example(["web#launch/a/b", "web#launch/a"], ["web#launch/a/b~ab", "web#launch/a/b", "web#launch/ab"])
def test_steps_are_listed_as_by_the_quadratic_rule(planned: list[str], recorded: list[str]) -> None:
    details = job(planned, recorded)
    assert shown(details) == quadratic_lines(details)


def test_the_journal_is_decoded_once() -> None:
    CountedView.decoded = 0
    RunView(job(["web#launch/a"], [f"web#launch/a/{number}" for number in range(50)]), 5_000).lanes()
    assert CountedView.decoded == 1


def fastest_s(steps: int) -> float:
    """Return the shortest CPU time of a few runs over so many steps, half of them inside others."""
    planned = [f"web#launch/{number}" for number in range(steps // 2)]
    details = job(planned, [*planned, *(f"{path}>1/inner" for path in planned)])
    found: list[float] = []
    for _ in range(5):
        begin = time.process_time()
        view = RunView(details, 5_000)
        assert view.lanes()[0].total == steps
        found.append(time.process_time() - begin)
    return min(found)


def test_four_times_the_steps_take_at_most_eight_times_as_long() -> None:
    assert fastest_s(4_000) <= 8 * fastest_s(1_000)


START = int(AT.timestamp() * 1000)


def run(steps: Sequence[Sequence[Any]], *, status: str = "Executing", planned: Sequence[str] = ()) -> RunView:
    """Return a run 10 s after its beginning; a step is path, status, attempt, begin and end in s, failed attempts."""
    at = START

    def ms(seconds: float | None) -> int | None:
        return None if seconds is None else at + int(seconds * 1000)

    journal = [
        [path, path, state, 40, attempt, "why" if state == "Failed" else None, ms(began), ms(ended), None, False, tries]
        for path, state, attempt, began, ended, tries in steps
    ]
    paths = planned or [path for path, *_ in steps]
    details = job(list(paths), [])
    view = details.view._replace(
        journal=json.dumps(journal),
        status=status,
        finished_at=datetime.fromtimestamp((START + 10_000) / 1000, UTC) if status != "Executing" else None,
    )
    return RunView(JobDetails(view, details.plan, Redactor([]), None), START + 10_000)


def test_lanes_stand_by_component_in_the_order_in_which_they_began() -> None:
    view = run(
        [
            ("web#launch/a", "Failed", 1, 4, 5, None),
            ("db#launch/b", "Succeeded", 1, 0, 2, None),
            ("db#launch/b/inner", "Succeeded", 1, 1, 2, None),
        ],
        status="Failed",
        planned=["web#launch/a", "db#launch/b", "web#launch/later", "edge#launch/c"],
    )
    assert [(lane.name, lane.kind, lane.is_open) for lane in view.lanes()] == [
        ("db", Glyph.OK, False),
        ("web", Glyph.FAIL, True),
        ("edge", Glyph.SKIPPED, False),
    ]
    assert [lane.name for lane in view.lanes(by_plan=True)] == ["web", "db", "edge"]
    assert [step.path for step in view.not_run] == ["web#launch/later", "edge#launch/c"]
    assert view.failed is not None
    assert view.failed.path == "web#launch/a"
    assert [step.level for step in view.lanes()[0].steps] == [0, 1]
    assert [label for _, label in view.ticks] == ["0:00", "0:02", "0:04", "0:06", "0:08"]


def test_the_steps_that_are_kept_are_counted_as_all_steps_are_without_inner_ones() -> None:
    view = run(
        [
            ("web#launch/a", "Succeeded", 1, -90_000, -80_000, None),
            ("web#launch/b", "Succeeded", 1, 1, 2, None),
            ("web#launch/b/inner", "Succeeded", 1, -70_000, -60_000, None),
        ],
        planned=["web#launch/a", "web#launch/b"],
    )
    view.job.plan.resumes.append("5f" * 12)
    view = RunView(view.job, START + 10_000)
    assert (view.total, view.kept) == (2, 1)


def test_of_nested_failures_the_innermost_counts() -> None:
    view = run(
        [("web#launch/a", "Failed", 1, 0, 5, None), ("web#launch/a/b", "Failed", 1, 1, 5, None)],
        status="Failed",
        planned=["web#launch/a"],
    )
    assert view.failed is not None
    assert view.failed.path == "web#launch/a/b"


def test_pauses_between_attempts_are_parts_that_wait() -> None:
    tries = [[1, START, START + 1_000, "first", START + 3_000]]
    view = run([("web#launch/a", "Succeeded", 2, 0, 4, tries)])
    [step] = view.steps
    assert view.segments(step) == [
        Segment(Glyph.FAIL, 0, 1_000),
        Segment(Glyph.WAIT, 1_000, 3_000),
        Segment(Glyph.OK, 3_000, 4_000),
    ]
    assert [(each.number, each.error) for each in view.attempts(step)] == [(1, "first"), (2, "")]
    assert view.lanes()[0].note == "attempt 2"


def test_a_step_that_pauses_before_its_next_attempt_waits() -> None:
    tries = [[1, START, START + 1_000, "first", START + 30_000]]
    [step] = run([("web#launch/a", "Executing", 1, 0, None, tries)]).steps
    assert step.kind is Glyph.WAIT


def test_what_runs_when_the_run_ends_was_stopped() -> None:
    view = run([("web#launch/a", "Executing", 1, 0, None, None)], status="Failed")
    assert view.steps[0].kind is Glyph.STOPPED
    assert run([("web#launch/a", "Executing", 1, 0, None, None)]).steps[0].kind is Glyph.BUSY


def test_a_lane_of_thousands_of_steps_shows_some_around_its_failure() -> None:
    steps = [(f"web#launch/{number}", "Succeeded", 1, number / 1000, number / 1000, None) for number in range(5_000)]
    steps[3_000] = ("web#launch/3000", "Failed", 1, 3, 3.5, None)
    view = run(steps, status="Failed")
    [lane] = view.lanes()
    assert (lane.first, len(lane.steps), lane.total) == (3_000 - LANE_STEPS // 2, LANE_STEPS, 5_000)
    assert lane.steps[LANE_STEPS // 2].is_failed
    assert len(lane.segments) <= 60
    assert Glyph.FAIL in {segment.kind for segment in lane.segments}
    assert view.lanes(shown="web", first=4_980)[0].next_first is None


def test_runs_are_compared_step_by_step() -> None:
    one = run([("a#x/1", "Succeeded", 1, 0, 4, None), ("a#x/2", "Succeeded", 1, 4, 5, None)], status="Succeeded")
    other = run([("a#x/1", "Failed", 1, 0, 9, None), ("a#x/3", "Succeeded", 1, 4, 5, None)], status="Failed")
    pairs = step_pairs(compare_details(one.job, other.job).steps)
    found = {pair.step.path: (pair.step.differs, pair.words, pair.share) for pair in pairs}
    assert found == {
        "a#x/1": (True, "+5.0 s, failed", 100),
        "a#x/3": (True, "only in the second run", 0),
        "a#x/2": (True, "only in the first run", 0),
    }
    assert [step.differs for step in compare_details(one.job, one.job).steps] == [False, False]


def test_a_step_with_other_values_is_not_called_equal() -> None:
    took = ComparedStep(Outcome.SUCCEEDED, 2)
    same, other = ValueComparison([], []), ValueComparison([ValueDifference("size", 1, 2)], [])

    def words(inputs: ValueComparison, outputs: ValueComparison) -> str:
        step = StepComparison(path="a#x/1", one=took, other=took, inputs=inputs, outputs=outputs)
        return StepPair(step=step, share=100).words

    assert words(same, same) == "no difference"
    assert words(other, same) == "inputs differ"
    assert words(same, other) == "outputs differ"
    assert words(other, other) == "inputs and outputs differ"
