"""The names by which a module knows the pins of an application inside of it (manifest-language §2 and §7).

The API has plain names for a workflow manifest: `size`, `url`. To a module around it its pins stand in the interfaces
that the rewriting gives them: `input.size`, `result.url`, `actions.grow`.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.v1 import ACTIONS, INPUT, RESULT


def outer_names(manifest: CompiledManifest) -> frozenset[str]:
    """Return the keys `interface.pin` of all pins of the application."""
    pins = {INPUT: manifest.parameters, RESULT: manifest.results, ACTIONS: manifest.commands}
    if manifest.is_component_manifest:
        return frozenset((*(key for named in pins.values() for key in named), *manifest.needs))
    return frozenset(f"{interface}.{name}" for interface, named in pins.items() for name in named)


def inner_name(manifest: CompiledManifest, key: str) -> str:
    """Return the API's name for what a module around the application calls `interface.pin`."""
    interface, _, name = key.partition(".")
    is_plain = not manifest.is_component_manifest and interface in {INPUT, RESULT, ACTIONS}
    return name if is_plain and name else key


def outer_values(return_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return return values by both names; those of a component manifest have an interface already."""
    plain = {f"{RESULT}.{name}": value for name, value in return_values.items() if "." not in name}
    return {**return_values, **plain}
