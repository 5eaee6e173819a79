"""The components of a job: those of the manifest, with so many members of each Scaler as the state says."""

from collections.abc import Mapping

from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import (
    Configuration,
    configured_quantity,
    expanded,
    expanded_configuration,
    member_number,
    scalers,
)
from launchbay.model.instance import settled
from launchbay.runtime.state import InstanceState


class Graph:
    """A manifest and the values of its configuration pins, seen through the quantities of a state."""

    def __init__(self, manifest: CompiledManifest, configuration: Configuration) -> None:
        self.compiled = manifest
        self._configuration = configuration
        templates = {component.scaler for component in manifest.components.values()}
        self._scalers = [path for path in scalers(manifest) if path in templates]
        self._key: tuple[int, ...] = ()
        self._now = (manifest, configuration)

    def settle(self, state: InstanceState) -> None:
        """Bring the quantities of a state to the configuration, where it has another one than they came from.

        So a quantity that a command has set stays until another one is configured.
        """
        for path in self._scalers:
            configured = configured_quantity(self._configuration.get(path, {}))
            component = state.component(path)
            component.scale = settled(component.scale, configured)

    def manifest(self, state: InstanceState) -> CompiledManifest:
        """Return the graph with the members that there are to be."""
        return self._at(state)[0] if self._scalers else self.compiled

    def configuration(self, state: InstanceState) -> Configuration:
        """Return the values of all configuration pins, those of members too."""
        return self._at(state)[1] if self._scalers else self._configuration

    def _at(self, state: InstanceState) -> tuple[CompiledManifest, Configuration]:
        quantities = {path: state.quantity(path) for path in self._scalers}
        key = tuple(quantities.values())
        if key != self._key:  # only the latest is kept: there may be a thousand members
            self._now = (
                expanded(self.compiled, quantities),
                expanded_configuration(self.compiled, self._configuration, quantities),
            )
            self._key = key
        return self._now


def existing(manifest: CompiledManifest, state: InstanceState) -> Mapping[str, int]:
    """Return the quantities that take in every member with a state, whatever there is to be."""
    found: dict[str, int] = {}
    for scaler in scalers(manifest):
        numbers = [number for path in state.paths() if (number := member_number(path, scaler)) is not None]
        found[scaler] = max(numbers, default=-1) + 1
    return found
