"""The application's own pins as the API shows them, and which parameters must be given (manifest-language §3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launchbay.manifest.component_types import SUBMODULE
from launchbay.manifest.graph import ApplicationPin, ConfigurationPin
from launchbay.manifest.layout import Layout
from launchbay.model.types import PinKind


@dataclass(frozen=True, slots=True)
class ApplicationPins:
    """The application's pins by API name, sorted by what they do for the caller."""

    parameters: dict[str, ApplicationPin] = field(default_factory=dict)
    results: dict[str, ApplicationPin] = field(default_factory=dict)
    commands: dict[str, ApplicationPin] = field(default_factory=dict)
    needs: dict[str, ApplicationPin] = field(default_factory=dict)

    def of(self, kind: PinKind) -> dict[str, ApplicationPin]:
        """Return the pins that a pin of this kind belongs to."""
        if kind.is_need:
            return self.needs
        if kind is PinKind.CONFIGURATION:
            return self.parameters
        return self.commands if kind.is_command else self.results

    def parameter_by_target(self) -> Mapping[tuple[str, str], str]:
        """Return the first parameter that is bound to each (component path, `interface.pin`)."""
        found: dict[tuple[str, str], str] = {}
        for name, pin in self.parameters.items():
            for target in pin.targets:
                found.setdefault((target.component, target.pin), name)
        return found

    def needed_targets(self) -> frozenset[tuple[str, str]]:
        """Return (component path, `interface.pin`) of everything that a need of the application stands for."""
        return frozenset((target.component, target.pin) for pin in self.needs.values() for target in pin.targets)


def application_pins(layout: Layout, *, plain_names: bool) -> ApplicationPins:
    """Return the application's pins by `interface.pin`, or, for workflow manifests, by `plain_names`."""
    found = ApplicationPins()
    for interface, pins in layout.faces[""].items():
        for name, pin in pins.items():
            key = name if plain_names else f"{interface}.{name}"
            found.of(pin.type.kind)[key] = ApplicationPin(key, pin.type, pin.targets, pin.label, pin.suggestions)
    return found


def required_parameters(
    parameters: Mapping[str, ApplicationPin],
    layout: Layout,
    configuration: Mapping[str, Mapping[str, ConfigurationPin]],
) -> tuple[str, ...]:
    """Return the parameters without which some component has no value.

    A pin of a submodule makes no parameter required: its own manifest may have a default, and is asked at launch.
    """
    return tuple(
        name
        for name, pin in parameters.items()
        if any(
            not configuration[target.component][target.pin].has_default
            for target in pin.targets
            if layout.leaves[target.component].type != SUBMODULE
        )
    )
