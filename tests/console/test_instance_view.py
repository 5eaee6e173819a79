"""The steps of a job on its page: their order, and the time it takes to list thousands."""

import json
import time
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from launchbay.console.instance_view import job_steps
from launchbay.model.job import Plan
from launchbay.model.redaction import Redactor
from launchbay.store.jobs import JobView, StepView
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
    )
    return JobDetails(view, Plan(kind="launch", workflow="launch", prior_status="Requested"), Redactor([]), None)


def quadratic_lines(details: JobDetails) -> list[tuple[str, str, int]]:
    """Return path, status and level of the lines by the first rule: each planned step searches all others."""
    recorded = [step.path for step in details.view.recorded() if "/" in step.path]
    lines: list[tuple[str, str, int]] = []
    seen: set[str] = set()
    for outer, *_ in details.view.planned():
        if outer not in recorded:
            lines.append((outer, "Requested", 0))
        marks = (f"{outer}/", f"{outer}>", f"{outer}~")
        inside = [each for each in recorded if each == outer or each.startswith(marks)]
        for path in sorted(inside, key=lambda each: each != outer):
            if path not in seen:
                seen.add(path)
                lines.append((path, "Succeeded", 0 if path == outer else 1))
    return lines + [(path, "Succeeded", 0) for path in recorded if path not in seen]


def shown(details: JobDetails) -> list[tuple[str, str, int]]:
    return [(line.path, line.status, line.level) for line in job_steps(details).lines]


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


def test_steps_inside_follow_the_planned_one_and_unplanned_steps_come_last() -> None:
    details = job(
        ["web#launch/a", "web#launch/b"], ["other#heal/x", "web#launch/b>1/c", "web#launch/b", "web#launch/b~d"]
    )
    assert shown(details) == [
        ("web#launch/a", "Requested", 0),
        ("web#launch/b", "Succeeded", 0),
        ("web#launch/b>1/c", "Succeeded", 1),
        ("web#launch/b~d", "Succeeded", 1),
        ("other#heal/x", "Succeeded", 0),
    ]


def test_the_journal_is_decoded_once() -> None:
    CountedView.decoded = 0
    job_steps(job(["web#launch/a"], [f"web#launch/a/{number}" for number in range(50)]))
    assert CountedView.decoded == 1


def fastest_s(steps: int) -> float:
    """Return the shortest CPU time of a few runs over so many steps, half of them inside others."""
    planned = [f"web#launch/{number}" for number in range(steps // 2)]
    details = job(planned, [*planned, *(f"{path}>1/inner" for path in planned)])
    found: list[float] = []
    for _ in range(5):
        begin = time.process_time()
        assert job_steps(details).total == steps
        found.append(time.process_time() - begin)
    return min(found)


def test_four_times_the_steps_take_at_most_eight_times_as_long() -> None:
    assert fastest_s(4_000) <= 8 * fastest_s(1_000)
