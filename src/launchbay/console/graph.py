"""Components and their bindings as the console draws them.

They are folded by composite, Scaler and submodule.
A drawing depends on the manifest and on what is open, not on statuses; so it is made once and kept. An ID is a
component's path, inside a submodule after the submodule's ID and a slash: `payments/web.workflow`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import msgspec

from launchbay.console.assets import Glyph
from launchbay.console.layered_layout import GAP_X, Lane, Layout, Point, Size, arrange
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import (
    COMPUTE,
    CONSTANTS,
    HTTP_ENDPOINT,
    SCALER,
    SERVICE,
    SUBMODULE,
    WORKFLOW_INSTANCE,
    CompiledManifest,
    Component,
)
from launchbay.manifest.scaling import scaled
from launchbay.model import component_state
from launchbay.model.component_state import ComponentStatus

Grouping = Literal["composite", "type", "status", "none"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
ALL_OPEN = 40  # components; more of them start folded
MOST_NODES = 400  # drawn at once; of more, the neighborhood of one
NODE = Size(176, 46)
SMALL_NODE = Size(150, 46)
_SMALL_GAP = 34.0
_INSIDE = Size(14, 36)  # from the edge of a group to its first component
_MOST_PROBLEMS = 200
_KEPT = 256
# People read these for the types of components. Of others, the last part of the name.
_TYPES = {
    WORKFLOW_INSTANCE: "Workflow",
    SUBMODULE: "Submodule",
    SERVICE: "Service",
    SCALER: "Scaler",
    COMPUTE: "Machine",
    CONSTANTS: "Constants",
    HTTP_ENDPOINT: "HTTP endpoint",
}


@dataclass(frozen=True, slots=True)
class Module:
    """A manifest version with the scales of one instance.

    `submodules` are those to look into, by component.
    """

    application_id: str
    version: int
    manifest: CompiledManifest = field(compare=False, repr=False)
    scales: tuple[tuple[str, int], ...] = ()
    parameters: str = "{}"  # JSON; only matters for Scalers without a scale
    submodules: tuple[tuple[str, "Module"], ...] = ()


class Binding(NamedTuple):
    """A component, one that depends on it, and the interfaces that connect them."""

    provider: str
    consumer: str
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Components by ID in launch order, with their types, and the bindings between them."""

    components: Mapping[str, Component]
    bindings: Sequence[Binding]
    groups: frozenset[str]  # composites, Scalers, and submodules that are looked into

    def needs(self, component: str) -> list[Binding]:
        return [each for each in self.bindings if each.consumer == component]

    def used_by(self, component: str) -> list[Binding]:
        return [each for each in self.bindings if each.provider == component]

    def neighborhood(self, components: Iterable[str]) -> frozenset[str]:
        """Return components with those that they need and those that need them."""
        inner = frozenset(components)
        near = {each for pair in self.bindings if inner & {pair.provider, pair.consumer} for each in pair[:2]}
        return inner | near


def shown_type(name: str) -> str:
    """Return a component type in words."""
    return _TYPES.get(name) or name.rpartition(".")[2]


def short_name(component: str) -> str:
    """Return the name of a component within its submodule."""
    return component.rpartition("/")[2]


@lru_cache(maxsize=_KEPT)
def read_topology(module: Module) -> Topology:
    """Return the components of an instance.

    Scalers have members instead of their templates.
    """
    manifest = module.manifest
    if any(component.scaler for component in manifest.components.values()):
        scales = dict(module.scales)
        values = configure(manifest, msgspec.json.decode(module.parameters))
        manifest, _ = scaled(manifest, values, scales.get)
    order = [path for path in manifest.order if path in manifest.components]
    components = {path: manifest.components[path] for path in dict.fromkeys((*order, *manifest.components))}
    bindings: list[Binding] = []
    for path, component in components.items():
        interfaces: dict[str, list[str]] = {}
        for interface, provider in sorted(_providers(component)):
            if provider in components and provider != path:
                interfaces.setdefault(provider, []).append(interface)
        bindings += [Binding(provider, path, ", ".join(names)) for provider, names in interfaces.items()]
    for submodule, inner in module.submodules:
        below = read_topology(inner)
        components |= {f"{submodule}/{path}": component for path, component in below.components.items()}
        bindings += [Binding(f"{submodule}/{a}", f"{submodule}/{b}", label) for a, b, label in below.bindings]
    groups = {parent for path in components for parent in _outer(path)}
    return Topology(components, bindings, frozenset(groups))


def _providers(component: Component) -> set[tuple[str, str]]:
    return {
        (interface, target.component)
        for interface, peers in component.peers.items()
        for peer in peers
        for target in peer.pins.values()
    }


def _outer(component: str) -> Iterator[str]:
    """Yield what a component is inside of, innermost first: composites, Scalers, submodules."""
    while (inner := _parent(component)) is not None:
        component = inner
        yield component


def _parent(component: str) -> str | None:
    module, slash, path = component.rpartition("/")
    outer = path.rpartition(".")[0]
    return f"{module}{slash}{outer}" if outer else module or None


Parents = tuple[tuple[str, str | None], ...]


@lru_cache(maxsize=_KEPT)
def parents(topology: Topology, grouping: Grouping, kinds: tuple[str, ...] = ()) -> Parents:
    """Return what each component and each group is inside of.

    A composite around a single component is left out. `kinds` are the statuses to group by, in the components' order.
    """
    if grouping == "none":
        return tuple((component, None) for component in topology.components)
    if grouping == "type":
        return tuple((each, f"type:{shown_type(component.type)}") for each, component in topology.components.items())
    if grouping == "status":
        return tuple(zip(topology.components, (f"status:{kind}" for kind in kinds), strict=True))
    inside = Counter(_parent(each) for each in dict.fromkeys((*topology.components, *topology.groups)))
    skipped = {group for group in topology.groups if inside[group] == 1 and group not in topology.components}

    def outer(each: str) -> str | None:
        return next((group for group in _outer(each) if group not in skipped), None)

    known = dict.fromkeys((*topology.components, *sorted(topology.groups - skipped)))
    return tuple((each, outer(each)) for each in known)


class Node(NamedTuple):
    """A box with a component, or with a folded group.

    `components` are those that it stands for.
    """

    id: str
    name: str
    at: Point
    components: tuple[str, ...]
    is_group: bool


class Group(NamedTuple):
    """The ground below the components of an open group."""

    id: str
    name: str
    at: Point
    size: Size
    components: tuple[str, ...]


class Line(NamedTuple):
    """A binding between two boxes; `path` is in the language of SVG."""

    provider: str
    consumer: str
    label: str
    path: str
    middle: Point


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Boxes, the grounds of open groups, and lines in one picture."""

    nodes: Sequence[Node]
    groups: Sequence[Group]
    lines: Sequence[Line]
    size: Size
    node: Size  # of each node

    def neighborhood(self, node: str) -> frozenset[str]:
        return frozenset(each for line in self.lines if node in line[:2] for each in line[:2]) | {node}


@lru_cache(maxsize=_KEPT)
def draw(
    topology: Topology,
    inside: Parents,
    opened: frozenset[str] | None = None,
    only: frozenset[str] | None = None,
    *,
    is_small: bool = False,
) -> Drawing:
    """Draw the components, or only some of them, with these groups open (None: all)."""
    return _Artist(topology, dict(inside), opened, only, SMALL_NODE if is_small else NODE).drawing()


class _Artist:
    """One drawing in the making."""

    def __init__(
        self,
        topology: Topology,
        inside: Mapping[str, str | None],
        opened: frozenset[str] | None,
        only: frozenset[str] | None,
        node: Size,
    ) -> None:
        self._topology = topology
        self._inside = inside
        self._node = node
        self._gap = GAP_X if node is NODE else _SMALL_GAP
        shown = [each for each in topology.components if only is None or each in only]
        self._parents = {group for group in inside.values() if group is not None}
        self._open = self._parents if opened is None else self._parents & opened
        self._contents: dict[str | None, dict[str, None]] = {}  # of the picture and of each open group
        self._components: dict[str, list[str]] = {}  # which components a box or a group stands for
        for component in shown:
            for each in (component, *self._groups_of(component)):
                self._components.setdefault(each, []).append(component)
        self._boxes = dict.fromkeys(self._box(component) for component in shown)
        for box in self._boxes:
            for each in (box, *self._groups_of(box)):
                self._contents.setdefault(self._inside.get(each), {})[each] = None
        # A Scaler is a component and the group of its members.
        self._filled = {each for each in self._contents if each is not None}
        self._at: dict[str, Point] = {}
        self._sizes: dict[str, Size] = {}
        self._layouts: dict[str | None, Layout] = {}
        self._lines = self._merged()

    def _groups_of(self, each: str) -> list[str]:
        """Return the groups around a component or group, innermost first."""
        found: list[str] = []
        outer = self._inside.get(each)
        while outer is not None:
            found.append(outer)
            outer = self._inside.get(outer)
        return found

    def _box(self, component: str) -> str:
        """Return the box of a component: its outermost folded group, or itself."""
        folded = [group for group in self._groups_of(component) if group not in self._open]
        return folded[-1] if folded else component

    def _merged(self) -> dict[tuple[str, str], str]:
        """Return the bindings between different boxes, with their interfaces."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for provider, consumer, label in self._topology.bindings:
            a, b = self._box(provider), self._box(consumer)
            is_around = a in self._groups_of(b) or b in self._groups_of(a)
            if a in self._boxes and b in self._boxes and a != b and not is_around:
                found.setdefault((a, b), {}).update(dict.fromkeys(label.split(", ")))
        return {pair: ", ".join(names) for pair, names in found.items()}

    def drawing(self) -> Drawing:
        size = self._arrange(None)
        self._move(None, Point(0, 0))
        nodes, groups = [], []
        for each, components in self._components.items():
            if each in self._filled:
                groups.append(Group(each, self._name(each), self._at[each], self._sizes[each], tuple(components)))
            elif each in self._boxes:
                is_group = each in self._parents
                nodes.append(Node(each, self._name(each), self._at[each], tuple(components), is_group))
        groups.sort(key=lambda group: len(self._groups_of(group.id)))  # the outer ones lie below
        lines = [self._line(*pair, label) for pair, label in self._lines.items()]
        return Drawing(nodes, groups, lines, size, self._node)

    def _name(self, each: str) -> str:
        """Return the name within the group around it."""
        outer = self._inside.get(each)
        if outer is not None and each.startswith((f"{outer}.", f"{outer}/")):
            return each[len(outer) + 1 :]
        return short_name(each).rpartition(":")[2]

    def _arrange(self, group: str | None) -> Size:
        """Arrange what is in an open group, and return its size."""
        inner = self._contents.get(group, {})
        for each in inner:
            self._sizes[each] = self._arrange(each) if each in self._filled else self._node
        edges: dict[tuple[str, str], None] = {}
        for a, b in self._lines:
            pair = self._pair(group, a, b)
            if pair is not None:
                edges[pair] = None
        layout = arrange({each: self._sizes[each] for each in inner}, edges, self._gap)
        self._layouts[group] = layout
        if group is None:
            return layout.size
        width = max(layout.size.width, self._node.width * 1.25)
        return Size(width + 2 * _INSIDE.width, layout.size.height + _INSIDE.height + _INSIDE.width)

    def _pair(self, group: str | None, a: str, b: str) -> tuple[str, str] | None:
        """Return the two items in a group that a binding connects, if any."""
        first = self._within(group, a)
        second = self._within(group, b)
        return None if first is None or second is None or first == second else (first, second)

    def _within(self, group: str | None, box: str) -> str | None:
        way = [box, *self._groups_of(box)]
        if group is None:
            return way[-1]
        return way[way.index(group) - 1] if group in way[1:] else None

    def _move(self, group: str | None, origin: Point) -> None:
        for each, at in self._layouts[group].at.items():
            self._at[each] = Point(origin.x + at.x, origin.y + at.y)
            if each in self._filled:
                self._move(each, self._inner_origin(each))

    def _inner_origin(self, group: str | None) -> Point:
        if group is None:
            return Point(0, 0)
        return Point(self._at[group].x + _INSIDE.width, self._at[group].y + _INSIDE.height)

    def _line(self, a: str, b: str, label: str) -> Line:
        common = next((group for group in self._groups_of(a) if group in self._groups_of(b)), None)
        pair = self._pair(common, a, b)
        lanes = self._layouts[common].lanes.get(pair, ()) if pair is not None else ()
        origin = self._inner_origin(common)
        start = Point(self._at[a].x + self._sizes[a].width, self._at[a].y + self._sizes[a].height / 2)
        end = Point(self._at[b].x, self._at[b].y + self._sizes[b].height / 2)
        moved = [Lane(origin.x + lane.start, origin.x + lane.end, origin.y + lane.y) for lane in lanes]
        middle = Point((start.x + end.x) / 2, (start.y + end.y) / 2)
        if moved:
            lane = moved[len(moved) // 2]
            middle = Point((lane.start + lane.end) / 2, lane.y)
        return Line(a, b, label, _curve(start, moved, end), middle)


def _curve(start: Point, lanes: Sequence[Lane], end: Point) -> str:
    path, at = [f"M{start.x:.6g} {start.y:.6g}"], start
    for lane in lanes:
        path += [_bend(at, Point(lane.start, lane.y)), f"H{lane.end:.6g}"]
        at = Point(lane.end, lane.y)
    return "".join([*path, _bend(at, end)])


def _bend(a: Point, b: Point) -> str:
    reach = max(24.0, (b.x - a.x) / 2)
    return f"C{a.x + reach:.6g} {a.y:.6g} {b.x - reach:.6g} {b.y:.6g} {b.x:.6g} {b.y:.6g}"


# The worst comes first: a group shows the worst of what is in it.
WORST_FIRST = (Glyph.FAIL, Glyph.WAIT, Glyph.WARN, Glyph.BUSY, Glyph.QUEUED, Glyph.STOPPED, Glyph.GONE, Glyph.OK)
PROBLEMS = frozenset({Glyph.FAIL, Glyph.WAIT, Glyph.WARN})


class ComponentState(NamedTuple):
    """What a component does now: a glyph, words, and how far it is."""

    kind: Glyph = Glyph.QUEUED
    words: str = ComponentStatus.NOT_STARTED.words
    percent: int | None = None
    note: str = ""  # for its node, instead of the type
    status: ComponentStatus = ComponentStatus.NOT_STARTED


_GLYPHS: Mapping[ComponentStatus, Glyph] = {
    ComponentStatus.NOT_STARTED: Glyph.QUEUED,
    ComponentStatus.IN_PROGRESS: Glyph.BUSY,
    ComponentStatus.NEEDS_APPROVAL: Glyph.WAIT,
    ComponentStatus.RUNNING: Glyph.OK,
    ComponentStatus.DEGRADED: Glyph.WARN,
    ComponentStatus.SLEEPING: Glyph.STOPPED,
    ComponentStatus.FAILED: Glyph.FAIL,
    ComponentStatus.INTERRUPTED: Glyph.STOPPED,
    ComponentStatus.DESTROYING: Glyph.BUSY,
    ComponentStatus.DESTROYED: Glyph.GONE,
}


def shown_state(state: component_state.ComponentState, submodule: str | None) -> ComponentState:
    """Return a state as it is drawn.

    `submodule` is the name of the instance behind the component.
    """
    status, step = state.status, state.step
    if submodule is not None:
        note = f"Submodule · {submodule}"
    elif status is ComponentStatus.FAILED and step:
        note = f"{step} failed"
    elif status is ComponentStatus.NEEDS_APPROVAL:
        note = status.words
    else:
        note = step or ""
    return ComponentState(_GLYPHS[status], status.words, state.percent, note, status)


def worst(states: Iterable[ComponentState]) -> ComponentState:
    """Return the state that a group shows."""
    return min(states, key=lambda state: WORST_FIRST.index(state.kind), default=ComponentState())


def kept_open(topology: Topology, inside: Parents, states: Mapping[str, ComponentState]) -> frozenset[str] | None:
    """Return which groups are open by default.

    All of a small graph (None), else those that hold a failure.
    """
    if len(topology.components) <= ALL_OPEN:
        return None
    outer = dict(inside)
    found: set[str] = set()
    for component, state in states.items():
        if state.kind is Glyph.FAIL:
            group = outer.get(component)
            while group is not None and group not in found:
                found.add(group)
                group = outer.get(group)
    return frozenset(found)


def problems(topology: Topology, states: Mapping[str, ComponentState]) -> frozenset[str]:
    """Return the components with problems, and their neighbors."""
    found = [each for each in topology.components if states[each].kind in PROBLEMS]
    return topology.neighborhood(found[:_MOST_PROBLEMS])


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """A component as text, for those who can't see the graph."""

    path: str
    type: str
    interfaces: tuple[tuple[str, tuple[str, ...]], ...]  # each with its pins, as `name: kind(type)`
    bound: tuple[str, ...]  # `interface → component#interface`


def component_lines(manifest: CompiledManifest) -> list[ComponentLine]:
    """Return the components in their order of launch."""
    return [component_line(manifest.components[path]) for path in manifest.order if path in manifest.components]


def component_line(component: Component) -> ComponentLine:
    interfaces: dict[str, list[str]] = {}
    for pin in component.pins.values():
        interfaces.setdefault(pin.interface, []).append(f"{pin.name}: {pin.type}")
    bound = (
        f"{interface} → {peer.component}#{peer.interface}"
        for interface, peers in component.peers.items()
        for peer in peers
    )
    return ComponentLine(
        component.path, component.type, tuple((name, tuple(pins)) for name, pins in interfaces.items()), tuple(bound)
    )
