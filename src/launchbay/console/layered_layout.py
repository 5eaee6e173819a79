"""A layered layout: boxes stand left of those that depend on them.

It is pure and deterministic, and fast enough for a thousand boxes.
Sugiyama's method in four steps: leave out the edges that close a cycle, assign layers by the longest path, order each
layer by the mean place of its neighbors, and move the boxes as near to their neighbors as the order allows.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

GAP_X = 64.0
GAP_Y = 20.0
_GRID_GAP_X = 16.0
_LANE_HEIGHT = 12.0  # of an edge that passes a layer
_MOST_LANES = 4_000  # edges beyond pass behind the boxes
_TALLEST = 10  # a layer of more boxes becomes a grid
_LEAST_ROWS = 6
_SWEEPS = 8

Edge: TypeAlias = tuple[str, str]


class Size(NamedTuple):
    """In pixels at natural size."""

    width: float
    height: float


class Point(NamedTuple):
    """A place, from the upper left corner."""

    x: float
    y: float


class Lane(NamedTuple):
    """Where a long edge passes a layer, from one side to the other."""

    start: float
    end: float
    y: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The upper left corners of boxes, their layers, and lanes of edges."""

    at: Mapping[str, Point]
    layers: Mapping[str, int]
    lanes: Mapping[Edge, Sequence[Lane]]
    size: Size


class _Item(NamedTuple):
    """A box, or a lane of the edges that leave it.

    `layer` is -1 for boxes.
    """

    name: str
    layer: int = -1


def arrange(sizes: Mapping[str, Size], edges: Iterable[Edge], gap_x: float = GAP_X) -> Layout:
    """Arrange boxes of these sizes.

    An edge leads from a box to one that depends on it.
    """
    names = list(sizes)
    if not names:
        return Layout({}, {}, {}, Size(0, 0))
    wanted = [(a, b) for a, b in dict.fromkeys(edges) if a != b and a in sizes and b in sizes]
    forward = _without_cycles(names, wanted)
    layers = _layers(names, forward)
    rows: list[list[_Item]] = [[] for _ in range(max(layers.values()) + 1)]
    for name in names:
        rows[layers[name]].append(_Item(name))
    grids = {layer for layer, row in enumerate(rows) if len(row) > _TALLEST}
    lanes = _lanes(forward, layers, grids)
    for name, layer in dict.fromkeys((a, layer) for (a, _), passed in lanes.items() for layer in passed):
        rows[layer].append(_Item(name, layer))
    links = _links(forward, lanes)
    _order(rows, links)
    return _placed(sizes, rows, links, layers, lanes, grids, gap_x)


def _without_cycles(names: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges without those that close a cycle.

    The walk starts at the boxes that depend on none.
    """
    after: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        after[a].append(b)
    targets = {b for _, b in edges}
    kept: list[Edge] = []
    on_the_way, done = set[str](), set[str]()
    for root in sorted(names, key=targets.__contains__):
        walk: list[tuple[str, Iterator[str]]] = [] if root in done else [(root, iter(after[root]))]
        on_the_way.update(name for name, _ in walk)
        while walk:
            name, rest = walk[-1]
            following = next(rest, None)
            if following is None:
                walk.pop()
                on_the_way.discard(name)
                done.add(name)
            elif following not in on_the_way:
                kept.append((name, following))
                if following not in done:
                    on_the_way.add(following)
                    walk.append((following, iter(after[following])))
    return kept


def _layers(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Return the number of edges on the longest way to each box."""
    after: dict[str, list[str]] = {name: [] for name in names}
    waits_for = dict.fromkeys(names, 0)
    for a, b in edges:
        after[a].append(b)
        waits_for[b] += 1
    layers = dict.fromkeys(names, 0)
    ready = deque(name for name in names if not waits_for[name])
    while ready:
        name = ready.popleft()
        for following in after[name]:
            layers[following] = max(layers[following], layers[name] + 1)
            waits_for[following] -= 1
            if not waits_for[following]:
                ready.append(following)
    return layers


def _lanes(edges: Sequence[Edge], layers: Mapping[str, int], grids: set[int]) -> dict[Edge, list[int]]:
    """Return the layers that each edge passes on a lane.

    Edges from one box share lanes; grids have none.
    """
    found: dict[Edge, list[int]] = {}
    taken: set[tuple[str, int]] = set()
    for a, b in edges:
        passed = [layer for layer in range(layers[a] + 1, layers[b]) if layer not in grids]
        new = {(a, layer) for layer in passed} - taken
        if passed and len(taken) + len(new) <= _MOST_LANES:
            taken |= new
            found[a, b] = passed
    return found


def _links(edges: Sequence[Edge], lanes: Mapping[Edge, Sequence[int]]) -> tuple[dict[_Item, list[_Item]], ...]:
    """Return the neighbors of each item on its left, and those on its right."""
    before: dict[_Item, list[_Item]] = {}
    after: dict[_Item, list[_Item]] = {}
    seen: set[tuple[_Item, _Item]] = set()
    for a, b in edges:
        way = [_Item(a), *(_Item(a, layer) for layer in lanes.get((a, b), ())), _Item(b)]
        for one, other in pairwise(way):
            if (one, other) not in seen:
                seen.add((one, other))
                after.setdefault(one, []).append(other)
                before.setdefault(other, []).append(one)
    return before, after


def _order(rows: Sequence[list[_Item]], links: Sequence[Mapping[_Item, Sequence[_Item]]]) -> None:
    """Sort each layer by the mean place of the neighbors, several times."""
    place: dict[_Item, float] = {}
    for row in rows:
        place.update(_places(row))
    for sweep in range(_SWEEPS):
        neighbors = links[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            means = {
                item: sum(place[each] for each in near) / len(near) if (near := neighbors.get(item)) else place[item]
                for item in row
            }
            row.sort(key=means.__getitem__)
            place.update(_places(row))


def _places(row: Sequence[_Item]) -> Iterator[tuple[_Item, float]]:
    """Yield the place of each item, counted from the middle of its layer."""
    return ((item, index - (len(row) - 1) / 2) for index, item in enumerate(row))


def _placed(
    sizes: Mapping[str, Size],
    rows: Sequence[Sequence[_Item]],
    links: Sequence[Mapping[_Item, Sequence[_Item]]],
    layers: Mapping[str, int],
    lanes: Mapping[Edge, Sequence[int]],
    grids: set[int],
    gap_x: float,
) -> Layout:
    middles: dict[_Item, float] = {}
    shifts: dict[_Item, float] = {}  # of a box in a grid, from the left side of its layer
    widths: list[float] = []
    heights = [[_height(item, sizes) for item in row] for row in rows]
    for layer, row in enumerate(rows):
        if layer in grids:
            widths.append(_fill_grid(row, sizes, middles, shifts))
        else:
            widths.append(max((sizes[item.name].width for item in row if item.layer < 0), default=0))
            wanted = [sum(heights[layer][:1])] * len(row)
            middles.update(zip(row, _spread(wanted, heights[layer]), strict=True))
    for sweep in range(_SWEEPS):
        neighbors = links[sweep % 2]
        order = range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows)))
        for layer in order:
            if layer not in grids:
                wanted = [
                    sum(middles[each] for each in near) / len(near) if (near := neighbors.get(item)) else middles[item]
                    for item in rows[layer]
                ]
                middles.update(zip(rows[layer], _spread(wanted, heights[layer]), strict=True))
    lefts = [0.0]
    for width in widths:
        lefts.append(lefts[-1] + width + gap_x)
    top = min(middles[_Item(name)] - size.height / 2 for name, size in sizes.items())
    at = {
        name: Point(
            round(lefts[layers[name]] + shifts.get(_Item(name), 0), 1),
            round(middles[_Item(name)] - size.height / 2 - top, 1),
        )
        for name, size in sizes.items()
    }
    passed = {
        edge: [
            Lane(lefts[layer], lefts[layer] + widths[layer], round(middles[_Item(edge[0], layer)] - top, 1))
            for layer in layers_passed
        ]
        for edge, layers_passed in lanes.items()
    }
    bottom = max(at[name].y + size.height for name, size in sizes.items())
    return Layout(at, layers, passed, Size(lefts[-1] - gap_x, bottom))


def _height(item: _Item, sizes: Mapping[str, Size]) -> float:
    return sizes[item.name].height + GAP_Y if item.layer < 0 else _LANE_HEIGHT


def _fill_grid(
    row: Sequence[_Item], sizes: Mapping[str, Size], middles: dict[_Item, float], shifts: dict[_Item, float]
) -> float:
    """Place the boxes of a layer in columns, and return the total width."""
    total = sum(sizes[item.name].height + GAP_Y for item in row)
    least = max(sizes[item.name].height + GAP_Y for item in row)
    mean = total / len(row)
    tallest = max(least, mean * max(_LEAST_ROWS, math.ceil(math.sqrt(2 * len(row)))))
    left, width, y = 0.0, 0.0, 0.0
    for item in row:
        size = sizes[item.name]
        if y and y + size.height + GAP_Y > tallest + 0.5:
            left, width, y = left + width + _GRID_GAP_X, 0.0, 0.0
        shifts[item] = left
        middles[item] = y + (size.height + GAP_Y) / 2 - tallest / 2
        width, y = max(width, size.width), y + size.height + GAP_Y
    return left + width


def _spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return middles without overlaps that are nearest to the wanted ones.

    Without the heights before it, the wanted top of each item must not fall: a regression that pools adjacent
    violators.
    """
    blocks: list[tuple[float, int]] = []  # the sum of what each item wants, and the number of items
    before = 0.0
    for middle, height in zip(wanted, heights, strict=True):
        blocks.append((middle - height / 2 - before, 1))
        before += height
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            (total, number), (last, count) = blocks[-2], blocks.pop()
            blocks[-1] = (total + last, number + count)
    tops = [total / number for total, number in blocks for _ in range(number)]
    found: list[float] = []
    before = 0.0
    for top, height in zip(tops, heights, strict=True):
        found.append(top + before + height / 2)
        before += height
    return found
