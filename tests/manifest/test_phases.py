from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.workflow_rules import deadlocked_steps

Steps = list[tuple[str, str, list[str]]]


def test_steps_that_precede_each_other_can_never_start() -> None:
    assert deadlocked_steps([("a", "a", ["b"]), ("b", "b", ["a"]), ("c", "c", [])]) == ["a", "b"]


def test_what_waits_for_stuck_steps_is_stuck_too() -> None:
    assert deadlocked_steps([("a", "a", ["b"]), ("b", "b", ["a"]), ("c", "c", ["a"])]) == ["a", "b", "c"]


def test_an_unknown_phase_holds_nothing_up() -> None:
    assert deadlocked_steps([("a", "a", ["nowhere"])]) == []


def test_a_step_does_not_wait_for_itself() -> None:
    assert deadlocked_steps([("a", "p", ["p"]), ("b", "p", [])]) == []


def test_two_steps_that_wait_for_their_common_phase_wait_for_each_other() -> None:
    assert deadlocked_steps([("a", "p", ["p"]), ("b", "p", ["p"]), ("c", "p", [])]) == ["a", "b"]


def simulated(steps: Steps) -> list[str]:
    """Start whatever may start, until nothing more does: the rule of the language, taken literally."""
    unfinished = {name: (phase, preceding) for name, phase, preceding in steps}
    while True:
        ready = [
            name
            for name, (_, preceding) in unfinished.items()
            if not any(other != name and phase in preceding for other, (phase, _) in unfinished.items())
        ]
        if not ready:
            return list(unfinished)
        for name in ready:
            del unfinished[name]


@given(
    st.lists(
        st.tuples(st.sampled_from("pqrst"), st.lists(st.sampled_from("pqrstu"), max_size=3)),
        max_size=8,
    )
)
def test_the_stuck_steps_are_those_that_a_run_never_reaches(drawn: list[tuple[str, list[str]]]) -> None:
    steps = [(str(number), phase, preceding) for number, (phase, preceding) in enumerate(drawn)]
    assert deadlocked_steps(steps) == simulated(steps)
