"""Graphs that the browser draws: components with their bindings, and an instance with its submodules."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchbay.manifest.graph import SERVICE, SUBMODULE, ApplicationPin, CompiledManifest, Component
from launchbay.store.instances import RelativeRow

APPLICATION = "application:"  # no component has a colon in its name
_KINDS = {SUBMODULE: "submodule", SERVICE: "service"}


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """A component as text, for those who can't see the graph."""

    path: str
    type: str
    interfaces: tuple[tuple[str, tuple[str, ...]], ...]  # each with its pins, as `name: kind(type)`
    bound: tuple[str, ...]  # `interface → component#interface`


def component_lines(manifest: CompiledManifest) -> list[ComponentLine]:
    """Return the components in their order of launch."""
    return [_line(manifest.components[path]) for path in manifest.order if path in manifest.components]


def component_graph(manifest: CompiledManifest, children: Mapping[str, str] | None = None) -> str:
    """Return the elements of a manifest's graph as JSON.

    `children` are the IDs of submodule instances by component; their nodes link to them.
    """
    children = children or {}
    elements: list[dict[str, Any]] = []
    composites: set[str] = set()
    for path in manifest.components:
        parts = path.split(".")
        composites.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
    elements += [_node(path, path.rpartition(".")[2], _parent(path)) for path in sorted(composites)]
    for path, component in manifest.components.items():
        label = f"{path.rpartition('.')[2]}\n{component.type}"
        kind = _KINDS.get(component.type, "component")
        more = {"href": f"/console/instances/{children[path]}"} if path in children else {}
        elements.append(_node(path, label, _parent(path), kind=kind, **more))
        elements += [
            _edge(path, target, label=interface)
            for interface, target in sorted(_providers(component))
            if target in manifest.components
        ]
    interfaces = _public_interfaces(manifest)
    if interfaces and manifest.is_component_manifest:
        elements.append(_node(APPLICATION, "application", None, kind="application"))
        elements += [
            _edge(APPLICATION, path, label=", ".join(names), kind="public") for path, names in interfaces.items()
        ]
    return json.dumps(elements)


def family_graph(rows: Sequence[RelativeRow]) -> str:
    """Return the elements of the graph of an instance and its submodules' instances as JSON."""
    present = {row.id for row in rows}
    elements = [
        _node(row.id, f"{row.name}\n{row.application}", None, status=row.status, href=f"/console/instances/{row.id}")
        for row in rows
    ]
    elements += [_edge(row.parent_id, row.id) for row in rows if row.parent_id in present]
    return json.dumps(elements)


def statuses(rows: Iterable[RelativeRow], components: Mapping[str, str]) -> str:
    """Return the statuses of instances by ID, and of components by path, as JSON."""
    return json.dumps({**components, **{row.id: row.status for row in rows}})


def _line(component: Component) -> ComponentLine:
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


def _providers(component: Component) -> set[tuple[str, str]]:
    return {
        (interface, target.component)
        for interface, peers in component.peers.items()
        for peer in peers
        for target in peer.pins.values()
    }


def _public_interfaces(manifest: CompiledManifest) -> Mapping[str, list[str]]:
    """Return the application's interfaces by the component that they are bound to."""
    interfaces: dict[str, dict[str, None]] = {}
    groups: tuple[Mapping[str, ApplicationPin], ...] = (
        manifest.parameters,
        manifest.results,
        manifest.commands,
        manifest.needs,
    )
    for group in groups:
        for key, pin in group.items():
            for target in pin.targets:
                interfaces.setdefault(target.component, {})[key.partition(".")[0]] = None
    return {path: list(names) for path, names in interfaces.items() if path in manifest.components}


def _parent(path: str) -> str | None:
    return path.rpartition(".")[0] or None


def _node(node_id: str, label: str, parent: str | None, **more: str) -> dict[str, Any]:
    data = {"id": node_id, "label": label, **more}
    return {"data": data if parent is None else {**data, "parent": parent}}


def _edge(source: str | None, target: str, *, label: str = "", kind: str = "binding") -> dict[str, Any]:
    return {"data": {"source": source, "target": target, "label": label, "kind": kind}}
