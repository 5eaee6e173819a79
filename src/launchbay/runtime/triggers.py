"""Workflows that run because a consumed signal has changed (manifest-language §5, Triggers).

A component remembers, for each consumed signal with a trigger, the values that its `launch`, or the trigger's workflow
itself, has seen last. At the end of every job these are compared with the values of that moment; so a signal that came
too late for a launch is noticed as well as one that changed long after it, and several changes make one run.
"""

from collections.abc import Iterable

from launchbay.manifest.graph import CompiledManifest, Component
from launchbay.model.types import PinKind
from launchbay.runtime.peers import Fed, consumed
from launchbay.runtime.state import InstanceState


def signal_triggers(component: Component) -> dict[str, str]:
    """Return the triggers on consumed signals: `interface.pin` → workflow."""
    return {
        key: workflow
        for key, workflow in component.triggers.items()
        if key in component.pins and component.pins[key].type.kind is PinKind.CONSUME_SIGNAL
    }


def see(manifest: CompiledManifest, state: InstanceState, fed: Fed, component: Component, pins: Iterable[str]) -> None:
    """Note that a workflow looks at these signals as they are now."""
    seen = state.component(component.path).seen
    for key in pins:
        seen[key] = consumed(manifest, state, fed, component, key)


def due_triggers(manifest: CompiledManifest, state: InstanceState, fed: Fed) -> list[tuple[str, str]]:
    """Return (component, workflow) for each workflow whose signals have changed since it saw them, once each."""
    due: dict[tuple[str, str], None] = {}
    for path in manifest.order:
        component = manifest.components[path]
        if not component.triggers or not state.is_launched(path):
            continue
        seen = state.component(path).seen
        for key, workflow in signal_triggers(component).items():
            if consumed(manifest, state, fed, component, key) != seen.get(key, {}):
                due[path, workflow] = None
    return list(due)
