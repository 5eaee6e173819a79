"""The layout of layers: no box covers another, every edge leads to the right, and the same graph looks the same."""

import random
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.console.layered_layout import Edge, Layout, Point, Size, arrange

BOX = Size(176, 46)
NAMES = [f"n{number}" for number in range(12)]
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=40)
SIZES = st.fixed_dictionaries({name: st.builds(Size, st.integers(20, 900), st.integers(20, 700)) for name in NAMES})


def overlap(one: tuple[Point, Size], other: tuple[Point, Size]) -> bool:
    (a, size), (b, others) = one, other
    return a.x < b.x + others.width and b.x < a.x + size.width and a.y < b.y + others.height and b.y < a.y + size.height


def assert_apart(layout: Layout, sizes: Mapping[str, Size]) -> None:
    boxes = sorted((at, sizes[name]) for name, at in layout.at.items())
    for place, box in enumerate(boxes):
        for other in boxes[place + 1 :]:
            if other[0].x >= box[0].x + box[1].width:
                break  # they are sorted by their left sides
            assert not overlap(box, other), (box, other)
    for at, size in boxes:
        assert at.x >= 0
        assert at.y >= 0
        assert at.x + size.width <= layout.size.width + 0.1
        assert at.y + size.height <= layout.size.height + 0.1


def graph(number: int) -> list[Edge]:
    """Return edges of a graph without cycles, as that of an application."""
    chance = random.Random(number)
    return [(f"n{chance.randrange(max(0, to - 30), to)}", f"n{to}") for to in range(1, number) for _ in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3, 30, 300, 1000])
def test_boxes_are_apart_and_edges_lead_to_the_right(number: int) -> None:
    sizes = {f"n{place}": BOX for place in range(number)}
    edges = graph(number)
    layout = arrange(sizes, edges)
    assert layout.at.keys() == sizes.keys()
    assert_apart(layout, sizes)
    for a, b in edges:
        assert layout.layers[a] < layout.layers[b]
        assert layout.at[a].x + BOX.width < layout.at[b].x
    assert arrange(sizes, edges) == layout


@given(EDGES, SIZES)
def test_boxes_of_any_size_are_apart_even_with_cycles(edges: list[Edge], sizes: dict[str, Size]) -> None:
    layout = arrange(sizes, edges)
    assert_apart(layout, sizes)
    for edge, lanes in layout.lanes.items():
        for lane in lanes:
            for name, at in layout.at.items():
                if at.x < lane.end and lane.start < at.x + sizes[name].width:
                    assert not at.y < lane.y < at.y + sizes[name].height, (edge, name)


def test_a_layer_of_many_becomes_a_grid() -> None:
    sizes = {f"n{place}": BOX for place in range(300)}
    layout = arrange(sizes, [])
    assert_apart(layout, sizes)
    assert set(layout.layers.values()) == {0}
    assert 0.4 < layout.size.width / layout.size.height < 4


def test_a_box_stands_at_the_height_of_its_only_neighbor() -> None:
    layout = arrange({"a": BOX, "b": BOX, "c": BOX}, [("a", "b"), ("b", "c")])
    assert len({at.y for at in layout.at.values()}) == 1


def test_the_edges_of_a_ladder_do_not_cross() -> None:
    sizes = {f"{side}{place}": BOX for place in (3, 1, 2, 0) for side in "ab"}
    layout = arrange(sizes, [(f"a{place}", f"b{place}") for place in range(4)])
    for one, other in combinations(range(4), 2):
        left = layout.at[f"a{one}"].y - layout.at[f"a{other}"].y
        right = layout.at[f"b{one}"].y - layout.at[f"b{other}"].y
        assert left * right > 0


def test_nothing_has_no_size() -> None:
    assert arrange({}, []).size == Size(0, 0)
