"""`builtin:workflow_service`: workflows run without it, and manifests may name it (manifest-language §8)."""

from collections.abc import Mapping

from launchbay.model.types import PinType, parse_pin_type
from launchbay.service_types.contract import Passive


class WorkflowService(Passive):
    """Offers the interface `executor`, which the compiler knows as implicit in `workflow.Instance` and ignores."""

    id = "builtin:workflow_service"
    name = "Workflow service"
    interfaces: Mapping[str, Mapping[str, PinType]] = {
        "executor": {
            "execute-workflow": parse_pin_type("receive-command(object request => object status => object status)"),
            "execute-command": parse_pin_type(
                "send-command(string interface, string command, map<string, object> arguments"
                " => map<string, object> response => map<string, object> response)"
            ),
        }
    }
