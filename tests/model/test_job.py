"""The tables of jobs and steps (reference §3; api-decisions, "States")."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.job import InvalidStepTransition, JobStatus, StepStatus, raise_percent, transition_step

MOVES = {
    ("Requested", "Executing"),
    ("Executing", "Executing"),  # a step that a crash interrupted starts again
    ("Executing", "Succeeded"),
    ("Executing", "Failed"),
}


def test_the_statuses_are_those_of_the_reference() -> None:
    assert set(JobStatus) == {"Executing", "Succeeded", "Failed"}
    assert set(StepStatus) == {"Requested", "Executing", "Succeeded", "Failed"}


@pytest.mark.parametrize(("status", "to"), product(StepStatus, StepStatus))
def test_a_step_goes_only_where_the_decisions_say(status: StepStatus, to: StepStatus) -> None:
    if (status.value, to.value) in MOVES:
        assert transition_step(status, to) is to
        return
    with pytest.raises(InvalidStepTransition):
        transition_step(status, to)


@given(st.lists(st.integers(-1_000, 1_000)))
def test_whatever_is_reported_a_percentage_stays_within_bounds_and_never_falls(reported: list[int]) -> None:
    shown = [0]
    for each in reported:
        shown.append(raise_percent(shown[-1], each))
    assert shown == sorted(shown)
    assert shown[0] >= 0
    assert shown[-1] <= 100
