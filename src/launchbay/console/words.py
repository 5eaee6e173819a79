"""What the manifest editor completes (manifest-language §3 to §5)."""

import json

from launchbay.console.outside import Outside

_TYPES = ("string", "int", "bool", "double", "object", "unit", "bytes", "list<string>", "map<string,string>")
_PIN_TYPES = (
    *(f"{kind}({name})" for kind in ("configuration", "publish-signal", "consume-signal") for name in _TYPES),
    "receive-command()",
    "receive-command( => )",
    "send-command()",
    "bind()",
)
_KEYS = (
    "application",
    "components",
    "interfaces",
    "bindings",
    "configuration",
    "required",
    "type",
    "configuration.workflows",
    "configuration.triggers",
    "configuration.schedule",
    "configuration.propagateStatus",
    "configuration.values",
    "__locator.application-id",
    "launch",
    "destroy",
    "steps",
    "action",
    "phase",
    "precedingPhases",
    "parameters",
    "output",
    "return",
    "value",
    "description",
    "default",
    "suggestions",
    "retryCount",
    "ignoreFail",
)


def completion_words(outside: Outside) -> str:
    """Return the words as JSON: component types, actions, types of pins, keys."""
    return json.dumps(
        {"types": outside.known_types, "actions": outside.known_actions, "pinTypes": _PIN_TYPES, "keys": _KEYS}
    )
