"""The signals of an instance: what each component publishes, its present value, and who reads it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.console.instance_view import InstanceView
from launchbay.console.request import PageRequest, Routes
from launchbay.manifest.graph import CompiledManifest, UrlTarget
from launchbay.model.redaction import Redactor
from launchbay.model.types import PinKind
from launchbay.pages.instance import tab_values
from launchbay.usecases.events import redactor_for

routes = Routes()
_SHOWN = 200


class SignalRow(NamedTuple):
    """A signal of a component. `has_value` is false before its workflow has returned one."""

    component: str
    name: str
    type: str
    has_value: bool
    value: Any
    readers: list[str]
    results: list[str]


class _Published(msgspec.Struct, frozen=True):
    signals: dict[str, dict[str, Any]] = {}


_read_state = msgspec.json.Decoder(dict[str, _Published]).decode


@routes.get("/console/instances/{id}/signals", query=("q",))
async def show(request: PageRequest) -> Response:
    """Show the signals with their values, secrets masked."""
    values = await tab_values(request, "signals")
    view: InstanceView = values["view"]
    text = (request.query("q") or "").strip()
    rows = [row for row in await signal_rows(view) if text.lower() in f"{row.component} {row.name}".lower()]
    return await request.page(
        "instance_signals.html",
        **values,
        rows=rows[:_SHOWN],
        number=len(rows),
        text=text,
    )


async def signal_rows(view: InstanceView) -> list[SignalRow]:
    """Return the published signals of all components, in the order of the manifest."""
    state = _read_state(view.record.state)
    redactor = await redactor_for(view.record)
    readers, results = _readers(view.manifest), _results(view.manifest)
    return [
        SignalRow(
            path,
            key,
            str(pin.type.value_type),
            *_value(state.get(path, _Published()).signals, key, redactor),
            readers.get((path, key), []),
            results.get((path, key), []),
        )
        for path, component in view.manifest.components.items()
        for key, pin in component.pins.items()
        if pin.type.kind is PinKind.PUBLISH_SIGNAL
    ]


def _value(signals: Mapping[str, Mapping[str, Any]], key: str, redactor: Redactor) -> tuple[bool, Any]:
    interface, _, pin = key.partition(".")
    values = signals.get(interface, {})
    return pin in values, redactor.named(key, values[pin]) if pin in values else None


def _readers(manifest: CompiledManifest) -> dict[tuple[str, str], list[str]]:
    """Return the components that read each signal, by component and name."""
    found: dict[tuple[str, str], list[str]] = {}
    for component in manifest.components.values():
        targets = [target for peers in component.peers.values() for peer in peers for target in peer.pins.values()]
        for target in targets:
            if not isinstance(target, UrlTarget):
                known = found.setdefault((target.component, target.pin), [])
                if component.path not in known:
                    known.append(component.path)
    return found


def _results(manifest: CompiledManifest) -> dict[tuple[str, str], list[str]]:
    """Return the return values of the instance that come from each signal."""
    found: dict[tuple[str, str], list[str]] = {}
    for key, result in manifest.results.items():
        for target in result.targets:
            if not isinstance(target, UrlTarget):
                found.setdefault((target.component, target.pin), []).append(key)
    return found
