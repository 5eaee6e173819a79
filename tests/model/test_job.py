"""The tables of jobs and steps (reference §3; conformance.md, "States")."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.job import (
    CANCELLED,
    PATH_CHARS,
    JobStatus,
    StepStatus,
    attempt_path,
    command_path,
    component_of,
    failure_code,
    raise_percent,
    segment,
    step_path,
    transition_step,
)
from launchbay.model.job import workflow_path as of_workflow

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
    with pytest.raises(ValueError, match="can't change"):
        transition_step(status, to)


@given(st.lists(st.integers(-1_000, 1_000)))
def test_whatever_is_reported_a_percentage_stays_within_bounds_and_never_falls(reported: list[int]) -> None:
    shown = [0]
    for each in reported:
        shown.append(raise_percent(shown[-1], each))
    assert shown == sorted(shown)
    assert shown[0] >= 0
    assert shown[-1] <= 100


NAME = st.text(st.sampled_from("ab/#>~%2.F") | st.characters(codec="utf-8"), max_size=6)


def test_plain_names_stand_as_they_are() -> None:
    launch = of_workflow("web.front", "launch")
    assert step_path(launch, "deploy") == "web.front#launch/deploy"
    assert step_path(attempt_path("w#launch/a", 1), "b") == "w#launch/a/b"
    assert step_path(attempt_path("w#launch/a", 2), "b") == "w#launch/a~2/b"
    assert command_path("w#launch/a", "db", "actions.grow") == "w#launch/a>db#actions.grow"


def test_a_step_named_like_a_path_is_told_from_the_path() -> None:
    launch = of_workflow("w", "launch")
    assert step_path(launch, "a/b") != step_path(step_path(launch, "a"), "b")
    assert step_path(launch, "a~2") != attempt_path(step_path(launch, "a"), 2)
    assert step_path(launch, "a%2Fb") != step_path(launch, "a/b")


@given(st.lists(NAME, min_size=1, max_size=5), st.lists(NAME, min_size=1, max_size=5))
def test_different_ways_have_different_paths(one: list[str], other: list[str]) -> None:
    def path(names: list[str]) -> str:
        whole = of_workflow("c", "w")
        for name in names:
            whole = step_path(whole, name)
        return whole

    assert (path(one) == path(other)) == (one == other)


@given(NAME, NAME, NAME)
def test_the_component_can_be_read_back(component: str, workflow: str, step: str) -> None:
    assert component_of(step_path(of_workflow(component, workflow), step)) == segment(component)


def test_long_paths_stay_keys_of_an_index_and_stay_different() -> None:
    paths = {of_workflow("c", "w")}
    whole = of_workflow("c", "w")
    for _ in range(50):
        whole = command_path(step_path(whole, "s" * 200), "p" * 200, "i.c")
        paths.add(whole)
    assert len(paths) == 51
    assert max(map(len, paths)) <= PATH_CHARS
    assert component_of(whole) == "c"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Component 'a': workflow 'b': step 'c' failed: The step exceeded its timeout of 3 s.", "StepTimeout"),
        ("Component 'a': workflow 'b' exceeded its timeout of 3 s.", "StepTimeout"),
        ("step 'c' failed: 'ls' ended with exit code 3: it exceeded its timeout of 3 s.", "NonzeroExit"),
        ("step 'c' failed: The address 127.0.0.1 is refused: it is a loopback address.", "AddressRefused"),
        ("step 'c' failed: No such host.", "ActionFailed"),
        ("The component has no such workflow.", None),
        (f"{CANCELLED}Ann: it exceeded its timeout of 3 s.", None),
        (None, None),
    ],
)
def test_the_error_of_a_job_has_the_code_of_what_a_step_says_first(message: str | None, code: str | None) -> None:
    assert failure_code(message) == code
