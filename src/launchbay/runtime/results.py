"""What the API shows of a live instance's state: return values and components (reference §2, Instance)."""

from typing import Any

from launchbay.manifest.graph import CompiledManifest
from launchbay.runtime.state import InstanceState


def return_values(manifest: CompiledManifest, state: InstanceState) -> dict[str, Any]:
    """Return the published application-level signals by their API name; those without a value yet are left out."""
    values: dict[str, Any] = {}
    for key, pin in manifest.results.items():
        for target in pin.targets:
            has_value, value = state.signal(target)
            if has_value:
                values[key] = value
                break
    return values
