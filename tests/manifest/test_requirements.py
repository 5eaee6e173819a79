from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.bindings import launch_order


def test_providers_come_first_and_the_rest_stays_in_order() -> None:
    order, cycle = launch_order({"web": ["db", "cache"], "log": [], "cache": [], "db": ["cache"]})
    assert order == ["cache", "db", "web", "log"]
    assert not cycle


def test_a_cycle_is_named_from_its_first_component_back_to_it() -> None:
    assert launch_order({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]})[1] == ["a", "b", "c", "a"]


def test_a_component_that_needs_itself_is_a_cycle() -> None:
    assert launch_order({"a": ["a"]})[1] == ["a", "a"]


def test_a_chain_of_thousands_needs_no_deep_stack() -> None:
    chain = {str(number): [str(number + 1)] for number in range(10_000)}
    order, cycle = launch_order({**chain, "10000": []})
    assert len(order) == 10_001
    assert not cycle


_GRAPHS = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), unique=True, max_size=3), min_size=size, max_size=size)
)


@given(_GRAPHS)
def test_every_graph_has_an_order_or_a_cycle(edges: list[list[int]]) -> None:
    needed = {str(number): [str(other) for other in others] for number, others in enumerate(edges)}
    order, cycle = launch_order(needed)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(follower in needed[component] for component, follower in pairwise(cycle))
    else:
        assert sorted(order) == sorted(needed)
        for position, component in enumerate(order):
            assert set(needed[component]) <= set(order[:position])
