"""What an environment gives to an instance, and what a manifest needs of it (manifest-language §8). Pure."""

import msgspec

from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.service_needs import REFERENCE_SERVICE, markers, properties, service_interfaces
from launchbay.model.environment import Environment
from launchbay.model.environment_view import EnvironmentView


def view_of(environment: Environment) -> EnvironmentView:
    """Return what the environment offers now, to be kept with the instance."""
    offered = msgspec.json.decode(environment.properties)
    return EnvironmentView(
        policies=msgspec.json.decode(environment.policies),
        markers=[marker["name"] for marker in msgspec.json.decode(environment.markers)],
        properties={entry["name"]: entry["value"] for entry in offered},
    )


def unmet_needs(manifest: CompiledManifest, view: EnvironmentView) -> list[str]:
    """Return a sentence for each marker, property and service that a required interface needs and does not get."""
    required = _required_providers(manifest)
    problems: list[str] = []
    for path, component in manifest.components.items():
        if component.type != REFERENCE_SERVICE or path not in required:
            continue
        problems.extend(
            f"The environment has no marker {pin.name!r}, which component {path!r} needs. Add it to the environment."
            for pin in markers(component)
            if pin.name not in view.markers
        )
        problems.extend(
            f"The environment has no property {pin.name!r}, which component {path!r} needs. Add it to the environment."
            for pin in properties(component)
            if pin.name not in view.properties
        )
        problems.extend(
            f"Component {path!r} needs a service with the interface {interface!r}; services are not supported yet."
            for interface in service_interfaces(component)
        )
    return problems


def _required_providers(manifest: CompiledManifest) -> set[str]:
    return {
        target.component
        for component in manifest.components.values()
        for interface in component.required
        for peer in component.peers.get(interface, ())
        for target in peer.pins.values()
    }
