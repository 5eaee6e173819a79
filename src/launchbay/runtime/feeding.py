"""What an instance gives to the needs of its submodules: the signals of the peers that the manifest binds them to."""

from typing import Any

from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.types import PinKind
from launchbay.runtime.peers import Fed, consumed
from launchbay.runtime.state import InstanceState


def feed_for(manifest: CompiledManifest, state: InstanceState, fed: Fed, component: Component) -> dict[str, Any]:
    """Return what a submodule gets now, `interface.pin` → peer → value; empty when it needs nothing."""
    return {
        key: consumed(manifest, state, fed, component, key)
        for key, pin in component.pins.items()
        if pin.type.kind is PinKind.CONSUME_SIGNAL
    }
