"""The components of an instance: graph, list, and the card of one."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from launchbay.concurrency import computed
from launchbay.console.assets import Glyph, color_class
from launchbay.console.forms import parse_number
from launchbay.console.graph import (
    GROUPINGS,
    MOST_NODES,
    PROBLEMS,
    WORST_FIRST,
    Binding,
    ComponentState,
    Drawing,
    Group,
    Grouping,
    Line,
    Module,
    Node,
    Parents,
    Topology,
    draw,
    kept_open,
    parents,
    problems,
    read_topology,
    shown_type,
    worst,
)
from launchbay.console.instance_view import InstanceView, component_states, view_instance
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.limits import CONSOLE_LIST_COMPONENTS, KIB
from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.component_state import ComponentStatus, counted
from launchbay.model.instance import scales_in

_NOTE_PX, _CHAR_PX = 40, 6.1  # what a node has around its note, and the width of a character
_MOST_SUBMODULES = 12  # looked into at once
_LOW = 300  # the height of a drawing that the small graph shows in full size
GROUPING_NAMES: Mapping[Grouping, str] = {
    "composite": "Composite",
    "type": "Type",
    "status": "Status",
    "none": "Nothing",
}
# By default, what fits the width of the screen: a phone gets the list of a larger graph.
View = Literal["", "graph", "list"]
VIEWS: tuple[View, ...] = get_args(View)

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQuery:
    """What a link to a graph says.

    `opened` are the open groups; None means those that are open by default.
    """

    opened: frozenset[str] | None = None
    grouping: Grouping = "composite"
    focus: str = ""
    search: str = ""
    only_problems: bool = False
    view: View = ""

    @property
    def is_list(self) -> bool:
        return self.view == "list"

    def address(self, path: str, **changed: Any) -> str:
        """Return the path with this query, after changes of its fields."""
        text = urlencode(self.fields(**changed), safe=",/")
        return f"{path}?{text}" if text else path

    def fields(self, **changed: Any) -> dict[str, str]:
        """Return the fields of a link or form, after changes."""
        now = replace(self, **changed)
        fields = {
            "open": None if now.opened is None else ",".join(sorted(now.opened)) or "none",
            "group": None if now.grouping == "composite" else now.grouping,
            "focus": now.focus,
            "q": now.search,
            "only": "problems" if now.only_problems else None,
            "view": now.view,
        }
        return {name: value for name, value in fields.items() if value}


GRAPH_FIELDS = ("focus", "group", "only", "open", "q", "view")  # of the address of a page with a graph


def read_graph_query(request: PageRequest) -> GraphQuery:
    opened = request.query("open")
    wanted = request.query("group")
    grouping: Grouping = next((each for each in GROUPINGS if each == wanted), "composite")
    return GraphQuery(
        opened=None if opened is None else frozenset(opened.split(",")) - {"none", ""},
        grouping=grouping,
        focus=request.query("focus") or "",
        search=request.query("q") or "",
        only_problems=request.query("only") == "problems",
        view=next((each for each in VIEWS if each == request.query("view")), ""),
    )


class Components(NamedTuple):
    """Components with their states, and the instances of submodules."""

    topology: Topology
    states: Mapping[str, ComponentState]
    instances: Mapping[str, str]

    def not_started(self) -> list[str]:
        return [each for each, state in self.states.items() if state.status is ComponentStatus.NOT_STARTED]

    def by_urgency(self) -> list[str]:
        """Return the components, those that need somebody first."""
        return sorted(self.states, key=lambda each: WORST_FIRST.index(self.states[each].kind))

    def summary(self) -> str:
        """Return one sentence such as `6 of 9 components running, 1 failed`."""
        return counted(state.status for state in self.states.values()).summary()


_COMPONENT_BYTES = 4 * KIB  # that a component counts for: to place one takes as long as to read so many


async def read_components(request: PageRequest, view: InstanceView, opened: frozenset[str] | None = None) -> Components:
    """Return the components of an instance, and those of the submodules that are open."""
    views = await _views(request, view, opened or frozenset())
    size = _COMPONENT_BYTES * sum(len(each.components) for each in views.values())
    return await computed(size, lambda: _read_components(views))


async def _views(request: PageRequest, view: InstanceView, opened: frozenset[str]) -> dict[str, InstanceView]:
    """Return the views of the instance ("") and of the open submodules, by component."""
    views = {"": view}
    for component in sorted(opened):  # an outer one comes before those inside it
        outer, slash, path = component.rpartition("/")
        parent = views.get(outer if slash else "")
        child = None if parent is None else parent.children.get(path)
        if parent is None or child is None or len(views) > _MOST_SUBMODULES:
            continue
        if child in {row.id for row in parent.family}:
            views[component] = await view_instance(request, child)
    return views


def _read_components(views: Mapping[str, InstanceView]) -> Components:
    topology = read_topology(_module("", views))
    states: dict[str, ComponentState] = {}
    instances: dict[str, str] = {}
    for outer, view in views.items():
        prefix = f"{outer}/" if outer else ""
        own = [each[len(prefix) :] for each in topology.components if each.rpartition("/")[0] == outer]
        states |= {f"{prefix}{path}": state for path, state in component_states(view, own).items()}
        instances |= {f"{prefix}{path}": child for path, child in view.children.items()}
    return Components(topology, {each: states[each] for each in topology.components}, instances)


def _module(outer: str, views: Mapping[str, InstanceView]) -> Module:
    record = views[outer].record
    prefix = f"{outer}/" if outer else ""
    inner = [each for each in views if each and each.rpartition("/")[0] == outer and each.startswith(prefix)]
    return Module(
        application_id=record.application_id,
        version=record.version,
        manifest=views[outer].manifest,
        scales=tuple(sorted((path, scale.quantity) for path, scale in scales_in(record.state).items())),
        parameters=record.parameters,
        submodules=tuple((each[len(prefix) :], _module(each, views)) for each in inner),
    )


class ShownNode(NamedTuple):
    """A node with its state.

    `segments` are the parts of its bar: a class, a place and a width.
    """

    node: Node
    state: ComponentState
    note: str
    href: str
    css: str
    segments: Sequence[tuple[str, float, float]]

    def live(self) -> list[Any]:
        """Return what an update of the node needs."""
        return [color_class(self.state.kind), self.state.kind, self.state.words, self.note, self.segments]


class ShownGroup(NamedTuple):
    """An open group with its title."""

    group: Group
    text: str
    href: str  # folds it


class ShownLine(NamedTuple):
    """A binding; it is hot if it belongs to the focus."""

    line: Line
    css: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGraph:
    """A drawing with states, for the template."""

    drawing: Drawing
    nodes: Sequence[ShownNode]
    groups: Sequence[ShownGroup]
    lines: Sequence[ShownLine]
    query: GraphQuery
    path: str
    events: str = ""  # where updates come from
    card: str = ""  # where the card of a component is
    every_group: frozenset[str] = frozenset()
    is_cut: bool = False  # only a neighborhood is drawn
    is_small: bool = False

    @property
    def css(self) -> str:
        # Few components of an application leave its instances in view. Those of an instance fill their page.
        is_low = not self.card and self.drawing.size.height < _LOW
        names = ["h-s" if self.is_small or is_low else "h-l"]
        names += ["focus"] if self.query.focus else ["finding"] if self.query.search else []
        return " ".join(names)

    @property
    def view_box(self) -> str:
        size = self.drawing.size
        return f"-28 -28 {size.width + 56:.6g} {size.height + 56:.6g}"

    def live(self) -> dict[str, list[Any]]:
        return {each.node.id: each.live() for each in self.nodes}


async def shown_graph(
    components: Components, query: GraphQuery, path: str, *, is_small: bool = False, **more: Any
) -> ShownGraph:
    """Draw the components, in a thread if there are many."""
    size = _COMPONENT_BYTES * len(components.states)
    return await computed(size, lambda: _shown_graph(components, query, path, is_small=is_small, more=more))


def _shown_graph(
    components: Components, query: GraphQuery, path: str, *, is_small: bool, more: Mapping[str, Any]
) -> ShownGraph:
    topology, states = components.topology, components.states
    kinds = tuple(state.words for state in states.values()) if query.grouping == "status" else ()
    inside = parents(topology, query.grouping, kinds)
    only = problems(topology, states) if query.only_problems else None
    found = _found(topology, query.search)
    opened = query.opened if query.opened is not None else kept_open(topology, inside, states)
    if opened is not None:
        opened |= _around(inside, {*found, *([query.focus] if query.focus in topology.components else [])})
    drawing = draw(topology, inside, opened, only, is_small=is_small)
    is_cut = len(drawing.nodes) > MOST_NODES
    if is_cut:
        center = query.focus if query.focus in topology.components else _first_problem(states)
        drawing = draw(topology, inside, opened, topology.neighborhood([center]), is_small=is_small)
    folders = frozenset(group.id for group in drawing.groups)
    now_open = query.opened if query.opened is not None else folders
    focus = query.focus if any(node.id == query.focus for node in drawing.nodes) else ""
    near = drawing.neighborhood(focus) if focus else frozenset[str]()
    query = replace(query, focus=focus)

    def shown(node: Node) -> ShownNode:
        own = [states[each] for each in node.components]
        state = worst(own)
        can_open = node.is_group or node.id in components.instances
        css = " ".join(
            name
            for name, applies in (
                ("near", node.id in near),
                ("sel", bool(focus) and node.id == focus),
                ("hit", bool(found.intersection(node.components))),
                ("folded", node.is_group),
            )
            if applies
        )
        href = (
            query.address(path, opened=frozenset({*now_open, node.id}), focus="", search="")
            if can_open and node.is_group
            else query.address(path, focus=node.id, search="")
        )
        return ShownNode(
            node,
            state,
            _note(node, state, topology, drawing.node.width),
            href,
            css,
            _segments(node, own, drawing.node.width),
        )

    return ShownGraph(
        drawing=drawing,
        nodes=[shown(node) for node in drawing.nodes],
        groups=[
            ShownGroup(
                group,
                _group_text(group, [states[each] for each in group.components]),
                query.address(path, opened=now_open - {group.id}, focus="", search=""),
            )
            for group in drawing.groups
        ],
        lines=[ShownLine(line, " hot" if focus and focus in line[:2] else "") for line in drawing.lines],
        query=query,
        path=path,
        every_group=frozenset(group for _, group in inside if group is not None),
        is_cut=is_cut,
        is_small=is_small,
        **more,
    )


def _found(topology: Topology, search: str) -> frozenset[str]:
    word = search.lower()
    return frozenset(each for each in topology.components if word and word in each.lower())


def _around(inside: Parents, components: Sequence[str] | set[str]) -> frozenset[str]:
    """Return the groups around components."""
    outer = dict(inside)
    found: set[str] = set()
    for component in components:
        group = outer.get(component)
        while group is not None:
            found.add(group)
            group = outer.get(group)
    return frozenset(found)


def _first_problem(states: Mapping[str, ComponentState]) -> str:
    return min(states, key=lambda each: states[each].kind not in PROBLEMS)


def _note(node: Node, state: ComponentState, topology: Topology, width: float) -> str:
    if node.is_group:
        number = len(node.components)
        if node.id in topology.components:  # a Scaler or a submodule: itself is not in it
            number -= 1
        text = f"{number} {'component' if number == 1 else 'components'}"
    else:
        plain = "" if state.kind is Glyph.QUEUED and state.words else shown_type(topology.components[node.id].type)
        text = state.note or plain or state.words
    room = int((width - _NOTE_PX) / _CHAR_PX)
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _group_text(group: Group, states: Sequence[ComponentState]) -> str:
    inner = len(group.components) - (group.id in group.components)
    failed = sum(state.kind is Glyph.FAIL for state in states)
    text = f"{group.name} · {inner} {'component' if inner == 1 else 'components'}"
    return f"{text}, {failed} failed" if failed else text


def _segments(node: Node, states: Sequence[ComponentState], width: float) -> list[tuple[str, float, float]]:
    """Return the bar of a node.

    Of a group, the shares of the states; of a component, how far it is.
    """
    whole = width - 24
    if not node.is_group:
        percent = states[0].percent if states[0].kind is Glyph.BUSY else None
        return [] if percent is None else [("bar-bg", 12, whole), ("bar-fg", 12, round(whole * percent / 100, 1))]
    counts = Counter(state.kind for state in states)
    found: list[tuple[str, float, float]] = []
    left = 12.0
    for kind in Glyph:
        if counts[kind]:
            share = whole * counts[kind] / len(states)
            found.append((f"bar-fg {color_class(kind)}", round(left, 1), round(max(share - 1.5, 1), 1)))
            left += share
    return found


class ComponentRow(NamedTuple):
    """A component in the list."""

    id: str
    type: str
    state: ComponentState
    instance_id: str | None
    needs: Sequence[Binding]
    used_by: Sequence[Binding]


def component_row(components: Components, each: str) -> ComponentRow:
    topology = components.topology
    return ComponentRow(
        each,
        shown_type(topology.components[each].type),
        components.states[each],
        components.instances.get(each),
        topology.needs(each),
        topology.used_by(each),
    )


class ComponentCard(NamedTuple):
    """What the card of a component says.

    `publishes` are its signals, with their types.
    """

    row: ComponentRow
    publishes: Sequence[tuple[str, str]]
    inside: str = ""  # where the components of a submodule are drawn


def component_card(components: Components, query: GraphQuery, path: str) -> ComponentCard | None:
    """Return the card of a component, by default of the first with a problem."""
    if not components.states:
        return None
    focus = query.focus if query.focus in components.states else _first_problem(components.states)
    row = component_row(components, focus)
    component = components.topology.components[focus]
    opened = (components.topology.groups if query.opened is None else query.opened) | {focus}
    inside = query.address(path, opened=opened, focus="", search="") if row.instance_id else ""
    return ComponentCard(row, _publishes(component), inside)


def _publishes(component: Component) -> list[tuple[str, str]]:
    return [(pin.key, str(pin.type)) for pin in component.pins.values() if str(pin.type).startswith("publish-signal")]


@routes.get("/console/instances/{id}/components", query=(*GRAPH_FIELDS, "first"))
async def show(request: PageRequest) -> Response:
    """Show the components of an instance, as a graph or as a list."""
    view = await view_instance(request, request.path("id"))
    query = read_graph_query(request)
    components = await read_components(request, view, query.opened)
    path = f"{HOME}/instances/{view.record.id}/components"
    values: dict[str, Any] = {"graph": None, "rows": [], "next_page": None, "number": len(components.states)}
    if query.is_list:
        wanted = _found(components.topology, query.search) if query.search else set(components.states)
        if query.only_problems:
            wanted = {each for each in wanted if components.states[each].kind in PROBLEMS}
        listed = [each for each in components.states if each in wanted]
        first = parse_number(request.query("first"), 6) or 0
        values["rows"] = [component_row(components, each) for each in listed[first : first + CONSOLE_LIST_COMPONENTS]]
        values["number"] = len(listed)
        if len(listed) > first + CONSOLE_LIST_COMPONENTS:
            values["next_page"] = f"{query.address(path)}&first={first + CONSOLE_LIST_COMPONENTS}"
    else:
        values["graph"] = await shown_graph(components, query, path, card=f"{path}/card")
        values["number"] = len(values["graph"].nodes)
    return await request.page(
        "instance_components.html",
        section="instances",
        organization_id=view.record.organization_id,
        view=view,
        query=query,
        path=path,
        summary=components.summary(),
        groupings=GROUPING_NAMES,
        card=component_card(components, query, path) if query.focus and not query.is_list else None,
        live_query=query.address("", focus="", search="").removeprefix("?"),
        **values,
    )


@routes.get("/console/instances/{id}/components/card", query=GRAPH_FIELDS)
async def show_card(request: PageRequest) -> Response:
    """Return the card of one component, which a script inserts next to the graph."""
    view = await view_instance(request, request.path("id"))
    query = read_graph_query(request)
    components = await read_components(request, view, query.opened)
    path = f"{HOME}/instances/{view.record.id}/components"
    return await request.fragment("component_card.html", card=component_card(components, query, path), view=view)


def live_events(graph: ShownGraph, sent: dict[str, list[Any]]) -> list[str]:
    """Return updates of nodes that differ from those sent.

    They are JSON texts of about 2 KB at most.
    """
    changed = {each: live for each, live in graph.live().items() if sent.get(each) != live}
    sent.update(changed)
    texts: list[str] = []
    part: dict[str, list[Any]] = {}
    for each, live in changed.items():
        part[each] = live
        if len(part) == _NODES_IN_EVENT:
            texts.append(msgspec.json.encode(part).decode())
            part = {}
    return [*texts, *([msgspec.json.encode(part).decode()] if part else [])]


_NODES_IN_EVENT = 16


async def manifest_graph(
    application_id: str, version: int, manifest: CompiledManifest, query: GraphQuery, path: str
) -> ShownGraph:
    """Draw a manifest that no instance runs: without states."""
    topology = await asyncio.to_thread(read_topology, Module(application_id, version, manifest))
    states = dict.fromkeys(topology.components, ComponentState(words=""))
    return await shown_graph(Components(topology, states, {}), query, path)
