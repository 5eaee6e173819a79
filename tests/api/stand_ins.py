"""Applications that stand in for the submodules of a manifest: with the pins that it declares, and typed values."""

import json
from typing import Any

from launchbay.manifest.graph import LOCATOR, SUBMODULE, CompiledManifest, Component, Pin
from launchbay.model.types import ListType, MapType, PinKind, Type


def stand_ins(manifest: CompiledManifest) -> dict[str, str]:
    """Return a manifest for each application that the submodules name."""
    return {
        str(component.configuration[LOCATOR]): _application(component)
        for component in manifest.components.values()
        if component.type == SUBMODULE
    }


def _application(component: Component) -> str:
    pins = [pin for pin in component.pins.values() if pin.key != LOCATOR]
    own: dict[str, dict[str, Any]] = {}
    bound: dict[str, dict[str, str]] = {}
    workflows: dict[str, Any] = {"launch": {"steps": [], "return": {}}}
    for pin in pins:
        name = _flat(pin)
        own.setdefault("own", {})[name] = str(pin.type)
        bound.setdefault(pin.interface, {})[pin.name] = f"bind(app#own.{name})"
        if pin.type.kind is PinKind.PUBLISH_SIGNAL:
            workflows["launch"]["return"][name] = {"value": _value(pin.type.value_type, name)}
        elif pin.type.kind is PinKind.RECEIVE_COMMAND:
            signature = pin.type.signature
            results = {} if signature is None else signature.results
            returned = {result: {"value": _value(kind, result)} for result, kind in results.items()}
            workflows[name] = {"steps": [], "return": returned}
    app = {
        "type": "workflow.Instance",
        "interfaces": own,
        "configuration": {
            "configuration.workflows": workflows,
            **{
                f"own.{_flat(pin)}": _value(pin.type.value_type, pin.name)
                for pin in pins
                if pin.type.kind is PinKind.CONFIGURATION
            },
        },
    }
    return json.dumps({"application": {"interfaces": bound, "components": {"app": app}}})


def _flat(pin: Pin) -> str:
    return f"{pin.interface}-{pin.name}"


def _value(kind: Type | None, name: str) -> Any:
    if isinstance(kind, ListType):
        return [_value(kind.item, name)]
    if isinstance(kind, MapType):
        return {name: _value(kind.value, name)}
    return {"int": 7, "bool": True, "double": 0.5, "object": {"of": name}}.get(str(kind), f"the {name}")
