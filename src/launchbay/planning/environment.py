"""What an environment gives to an instance, and what a manifest needs of it (manifest-language §8). Pure."""

import msgspec

from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.service_needs import REFERENCE_SERVICE, markers, properties, required_providers
from launchbay.model.environment import EnvironmentView
from launchbay.store.environments import Environment


def view_of(environment: Environment) -> EnvironmentView:
    """Return what the environment offers now, to be kept with the instance."""
    offered = msgspec.json.decode(environment.properties)
    return EnvironmentView(
        policies=msgspec.json.decode(environment.policies),
        markers=[marker["name"] for marker in msgspec.json.decode(environment.markers)],
        properties={entry["name"]: entry["value"] for entry in offered},
    )


def unmet_needs(manifest: CompiledManifest, view: EnvironmentView) -> list[str]:
    """Return a sentence for each marker and property that something cannot do without and does not get."""
    required = required_providers(manifest)
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
    return problems
