"""What the compiler knows of each component type: the pins that it has without being declared (manifest-language §4).

The set is open. A plug-in that brings a component type also brings its `ComponentType`, and the composition root hands
`BUILTIN` with those added to the compiler.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

WORKFLOW_INSTANCE = "workflow.Instance"
SERVICE = "reference.Service"
SUBMODULE = "reference.Submodule"
CONSTANTS = "cobalt.common.Constants"
COMPUTE = "compute.Instance"
SCALER = "composite.Scaler"
HTTP_ENDPOINT = "cobalt.common.HttpEndpoint"

LOCATOR = "__locator.application-id"

_EXECUTOR_PINS = frozenset({"execute-workflow", "execute-command"})


@dataclass(frozen=True, slots=True)
class ComponentType:
    """One component type: `interfaces` maps the name of each built-in interface to its pins, name to type text.

    `is_composite` types hold inner components; `settings` are configuration keys that are no pins.
    """

    name: str
    interfaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_composite: bool = False
    settings: Collection[str] = ()


_ALL = (
    ComponentType(WORKFLOW_INSTANCE),
    ComponentType(SERVICE),
    ComponentType(SUBMODULE, {"__locator": {"application-id": "configuration(string)"}}),
    ComponentType(CONSTANTS, settings=("configuration.values",)),
    ComponentType(
        COMPUTE,
        {
            "configuration": {
                "hardwareId": "configuration(string)",
                "imageId": "configuration(string)",
                "login": "configuration(string)",
                "locationId": "configuration(string)",
            },
            "compute": {
                "networks": "publish-signal(map<string, map<string, string>>)",
                "exec": (
                    "receive-command(string command, int timeout => string stdOut, string stdErr"
                    " => string stdOut, string stdErr, int exitCode)"
                ),
                "put-file": "receive-command(string filename, bytes payload)",
                "get-file": "receive-command(string filename => bytes payload)",
            },
        },
    ),
    ComponentType(
        SCALER,
        {
            "configuration": {"quantity": "configuration(int)", "minQuantity": "configuration(int)"},
            "scale": {"set-quantity": "receive-command(int quantity)"},
        },
        is_composite=True,
    ),
    ComponentType(
        HTTP_ENDPOINT,
        {
            "configuration": {"url": "configuration(string)"},
            "source": {"url": "consume-signal(string)"},
            "endpoint": {"url": "publish-signal(string)"},
        },
    ),
)

BUILTIN: Mapping[str, ComponentType] = {component_type.name: component_type for component_type in _ALL}


def is_workflow_service(type_name: str, pins: Collection[str]) -> bool:
    """Tell whether an interface with these pins is the workflow service's: accepted and ignored (§3, "Bindings")."""
    return type_name == SERVICE and bool(pins) and _EXECUTOR_PINS.issuperset(pins)
