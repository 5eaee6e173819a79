"""Order is by phases alone, whatever order the manifest has."""

from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.expressions import compile_template
from launchbay.manifest.graph import Step
from launchbay.runtime.workflow import ready_steps, rounds

NOTHING = compile_template({})


def step(name: str, phase: str = "", preceding: tuple[str, ...] = ()) -> Step:
    return Step(name, "wait", phase or name, preceding, NOTHING, {}, None, None, 1)


def names(steps: list[Step]) -> set[str]:
    return {each.name for each in steps}


PHASES = st.sampled_from("pqr")


@st.composite
def workflow(draw: st.DrawFn) -> list[Step]:
    count = draw(st.integers(1, 7))
    return [
        step(f"s{n}", draw(PHASES), tuple(draw(st.lists(st.sampled_from(["p", "q", "r", "unknown"]), max_size=3))))
        for n in range(count)
    ]


def test_a_step_waits_for_every_unfinished_step_of_its_preceding_phases() -> None:
    a, b, c = step("a", "one"), step("b", "one"), step("c", preceding=("one",))
    assert names(ready_steps([a, b, c], [])) == {"a", "b"}
    assert names(ready_steps([c], [b])) == set()
    assert names(ready_steps([c], [])) == {"c"}


def test_a_phase_that_nobody_declares_counts_as_finished() -> None:
    assert names(ready_steps([step("a", preceding=("nowhere",))], [])) == {"a"}


def test_a_step_does_not_wait_for_itself_but_for_the_others_of_its_phase() -> None:
    alone = step("a", "one", ("one",))
    assert names(ready_steps([alone], [])) == {"a"}
    assert names(ready_steps([alone, step("b", "one")], [])) == {"b"}


@given(workflow(), st.data())
def test_readiness_knows_no_order(steps: list[Step], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(steps))
    assert names(ready_steps(steps, [])) == names(ready_steps(shuffled, []))


@given(workflow())
def test_rounds_put_every_step_after_what_it_waits_for(steps: list[Step]) -> None:
    found = rounds(steps)
    for each in steps:
        if each.name not in found:
            continue
        for other in steps:
            if other.name != each.name and other.phase in each.preceding_phases:
                assert found[other.name] < found[each.name]


@given(workflow())
def test_only_steps_in_a_circle_or_behind_one_never_get_a_round(steps: list[Step]) -> None:
    found = rounds(steps)
    stuck = [each for each in steps if each.name not in found]
    for each in stuck:
        assert any(other.name != each.name and other.phase in each.preceding_phases for other in stuck)
