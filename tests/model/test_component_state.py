"""The state of a component: each case of the table in docs/reference/component-states.md, and counts."""

from pathlib import Path
from typing import NamedTuple

from launchbay.model.component_state import (
    ComponentStatus,
    Outcome,
    Part,
    Run,
    Step,
    StepState,
    component_states,
    counted,
    outcome,
    status_behind,
)
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from tests.support.cases import hold

PAGE = Path(__file__).parents[2] / "docs/reference/component-states.md"


class Case(NamedTuple):
    """A row of the table."""

    name: str
    job: str
    steps: str
    before: str
    state: str


def cases() -> list[Case]:
    rows = PAGE.read_text("utf-8").partition("## Cases")[2].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")]
    return [Case(*row) for row in cells[1:]]


CASES = cases()


def steps_of(text: str) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for part in [] if text == "–" else text.split("; "):
        workflow, _, states = part.partition(": ")
        found[workflow] = [Step(f"step-{number}", StepState(each)) for number, each in enumerate(states.split(", "))]
    return found


def state_of(case: Case) -> str:
    name, *words = case.job.split(", ")
    behind = next((word.removeprefix("behind ") for word in words if word.startswith("behind ")), None)
    part = Part(
        needs=["other"] if "needs up" in words or "needs down" in words else (),
        steps=steps_of(case.steps),
        is_launched=case.before.startswith("launched"),
        is_declared="removed" not in case.before,
        has_failed="failed" in words,
        behind=None if behind is None else behind_of(behind),
    )
    other = Part(steps={"launch": [Step("go", StepState.DONE if "needs up" in words else StepState.RUNS)]})
    run = None if name == "none" else Run(name, is_started="queued" not in words, is_over="over" in words)
    status = InstanceStatus.DESTROYED if "destroyed" in words else InstanceStatus.EXECUTING
    # The one that needs comes first: order makes no difference.
    return component_states({"one": part, "other": other}, run, status, is_asleep="asleep" in words)["one"].status


def behind_of(word: str) -> ComponentStatus:
    if word == "asking":
        return status_behind(InstanceStatus.EXECUTING, None, is_asking=True, is_incomplete=False)
    if word == "degraded":
        return status_behind(InstanceStatus.RUNNING, JobStatus.FAILED, is_asking=False, is_incomplete=False)
    if word == "incomplete":
        return status_behind(InstanceStatus.RUNNING, JobStatus.SUCCEEDED, is_asking=False, is_incomplete=True)
    return status_behind(InstanceStatus(word), None, is_asking=False, is_incomplete=False)


def test_a_component_is_as_the_table_says() -> None:
    hold(_is_as_the_table_says, ((each,) for each in CASES), named=lambda case: case.name)


def _is_as_the_table_says(case: Case) -> None:
    assert state_of(case) == case.state


def test_the_table_has_each_state_and_each_state_of_a_step() -> None:
    assert {case.state for case in CASES} == set(ComponentStatus)
    found = {step.state for case in CASES for steps in steps_of(case.steps).values() for step in steps}
    assert found == set(StepState)


def test_steps_make_one_outcome_of_a_run() -> None:
    done, waits = StepState.DONE, StepState.WAITS
    assert outcome([done, waits], is_over=False) is Outcome.IN_PROGRESS
    assert outcome([waits], is_over=True) is Outcome.NOT_RUN
    assert outcome([StepState.SKIPPED], is_over=True) is Outcome.SKIPPED


def test_long_chains_of_requirements_are_followed() -> None:
    parts = {str(number): Part(needs=[str(number + 1)] if number < 5_000 else ()) for number in range(5_001)}
    found = component_states(parts, Run("launch"), InstanceStatus.EXECUTING)
    assert {state.status for state in found.values()} == {ComponentStatus.RUNNING}


def test_components_that_require_each_other_end_the_search() -> None:
    parts = {"a": Part(needs=["b"]), "b": Part(needs=["a"])}
    assert component_states(parts, Run("launch"), InstanceStatus.EXECUTING)


def test_counts_add_up_and_say_what_needs_somebody() -> None:
    counts = counted(ComponentStatus)
    assert sum(counts[1:]) == counts.total == len(ComponentStatus)
    assert counted([ComponentStatus.RUNNING, ComponentStatus.FAILED]).summary() == "1 of 2 components running, 1 failed"


def test_states_are_shown_in_words() -> None:
    assert ComponentStatus.NOT_STARTED.words == "Not started"
    assert ComponentStatus.NEEDS_APPROVAL.words == "Needs approval"
