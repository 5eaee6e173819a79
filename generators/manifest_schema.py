"""A JSON Schema of the manifest language, for editors (docs/reference/manifest.schema.json).

It lets through everything that the compiler accepts; what only the compiler can tell (names that exist, types that fit,
circles) it does not tell. Actions and component types are those that come with the product.
"""

import json
from typing import Any

from launchbay.actions.registry import Registry
from launchbay.limits import CONCURRENCY_LIMIT_MAX
from launchbay.manifest.graph import BUILTIN
from launchbay.manifest.parser import COMPONENT_KEYS

Schema = dict[str, Any]

_ANYTHING: Schema = {}
_TEXT: Schema = {"type": "string"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_NUMBER: Schema = {"type": ["integer", "string"]}
_NAMES: Schema = {"anyOf": [{"type": "array", "items": _TEXT}, _TEXT, {"type": "null"}]}
# Anything but a map with one of their keys means nothing, as in older manifests. Only the application has times.
_CHECKS: Schema = {
    "if": {"type": "object", "anyOf": [{"required": [each]} for each in ("run", "cron", "zone")]},
    "then": {
        "properties": {
            "run": _NAMES,
            "cron": {
                "type": "string",
                "description": "Of the application: when instances are checked, such as `0 3 * * *`.",
            },
            "zone": {"type": "string", "description": "The time zone of `cron`. By default, UTC."},
        },
        "additionalProperties": False,
    },
}
_KEYS = {
    "type": "The component type. Without one, the component is a composite of `components`.",
    "interfaces": "The pins, by interface.",
    "configuration": "Values of configuration pins by `interface.pin`, and what the type takes besides.",
    "required": "Interfaces whose needs must be met before `launch` begins.",
    "components": "The components inside, by name.",
    "bindings": "Pairs of components whose interfaces are connected.",
    "checks": "What checks of drift run: `plan`, and workflows of the component that only read.",
    "onDifference": "What follows if a step can't do what was approved: it stops, or is also planned again.",
}
_ON_DIFFERENCE = {"enum": ["stop", "replan"]}
_PIN = (
    "`configuration(T)`, `publish-signal(T)`, `consume-signal(T)`, `receive-command(arguments => results)`,"
    " `send-command(arguments => results)`; of a composite or the application: `bind(component#interface.pin)`."
)


def manifest_schema() -> str:
    """Return the schema as JSON text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Launchbay manifest",
        "description": "A component manifest (with `application`), or a workflow manifest (with workflows by name).",
        "type": "object",
        "anyOf": [
            {"required": ["application"], "properties": {"application": {"$ref": "#/$defs/application"}}},
            {"required": ["root"], "properties": {"root": {"$ref": "#/$defs/application"}}},
            {"not": {"anyOf": [{"required": ["application"]}, {"required": ["root"]}]}, **_workflow_manifest()},
        ],
        "$defs": {
            "application": {
                "allOf": [{"$ref": "#/$defs/component"}],
                "properties": {"concurrency": {"$ref": "#/$defs/concurrency"}},
            },
            "component": _component(),
            "pin": _pin(),
            "workflow": _workflow(),
            "concurrency": _concurrency(),
            "steps": _steps(),
            "step": _step(),
            "return": _named(
                {"anyOf": [_returned(), _SCALAR, {"type": "null"}]}, "Results: signals and values by name."
            ),
            "parameters": _named(
                {"anyOf": [_parameter(), _SCALAR, {"type": "null"}]}, "Parameters with their defaults and descriptions."
            ),
        },
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _workflow_manifest() -> Schema:
    return {
        "properties": {
            "version": {"description": "The version of workflow manifests.", "enum": ["1.0", "1.1", 1.0, 1.1]},
            "header": {
                "type": "object",
                "description": "Needs: `services`, by interface, with their pins. `concurrency` limits the"
                " jobs, `checks` says what checks of drift run, and `onDifference` what follows if a step can't do"
                " what was approved.",
                "properties": {
                    "concurrency": {"$ref": "#/$defs/concurrency"},
                    "checks": _CHECKS,
                    "onDifference": _ON_DIFFERENCE,
                },
            },
        },
        "additionalProperties": {"$ref": "#/$defs/workflow"},
    }


def _component() -> Schema:
    assert set(_KEYS) == set(COMPONENT_KEYS)
    schemas: dict[str, Schema] = {
        "type": {"anyOf": [{"enum": sorted(BUILTIN)}, _TEXT]},
        "interfaces": {"additionalProperties": {"additionalProperties": {"$ref": "#/$defs/pin"}}},
        "configuration": _configuration(),
        "required": _NAMES,
        "components": {"additionalProperties": {"$ref": "#/$defs/component"}},
        "bindings": {"items": {"anyOf": [{"type": "array", "items": _TEXT}, _TEXT]}},
        "checks": _CHECKS,
        "onDifference": _ON_DIFFERENCE,
    }
    return {
        "type": ["object", "null"],
        "properties": {name: {"description": _KEYS[name], **schema} for name, schema in schemas.items()},
    }


def _configuration() -> Schema:
    by_workflow = {"type": ["object", "null"], "additionalProperties": _TEXT}
    return {
        "type": ["object", "null"],
        "properties": {
            "configuration.workflows": {
                "description": "The workflows, commands and (with a leading dot) macros by name.",
                "type": ["object", "null"],
                "additionalProperties": {"$ref": "#/$defs/workflow"},
            },
            "configuration.triggers": {
                "description": "`interface.pin`: the workflow to run when it changes.",
                **by_workflow,
            },
            "configuration.schedule": {
                "description": "Workflow: `second minute hour day month weekday [year]`, as in Quartz.",
                **by_workflow,
            },
            "configuration.propagateStatus": {
                "description": "Workflows whose end sets the status of the instance, besides `launch`.",
                **_NAMES,
            },
            "configuration.values": {"description": "What `cobalt.common.Constants` publishes, by `interface.pin`."},
            "__locator.application-id": {"description": "The application of a submodule, by id or name.", **_SCALAR},
        },
    }


def _pin() -> Schema:
    return {
        "description": _PIN,
        "anyOf": [
            _TEXT,
            {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"description": _PIN, **_TEXT},
                    "name": {"description": "The label of the pin in forms.", **_SCALAR},
                    "suggestions": {"description": "Values to choose from: label → value.", "type": ["object", "null"]},
                    "arguments": {"description": "Labels and suggestions of a command's arguments."},
                    "results": {"description": "Labels of a command's results."},
                    "description": {"description": "What the pin is for.", **_SCALAR},
                },
            },
        ],
    }


def _workflow() -> Schema:
    return {
        "type": ["object", "null"],
        "properties": {
            "parameters": {"$ref": "#/$defs/parameters"},
            "steps": {"$ref": "#/$defs/steps"},
            "onFailure": {"$ref": "#/$defs/steps"},
            "finally": {"$ref": "#/$defs/steps"},
            "timeout": {"description": "How long `steps` may take.", "type": ["number", "string", "null"]},
            "concurrency": {"$ref": "#/$defs/concurrency"},
            "return": {"$ref": "#/$defs/return"},
        },
    }


def _concurrency() -> Schema:
    limit = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": CONCURRENCY_LIMIT_MAX},
            "key": {"type": "string", "pattern": "^(application|environment|(label|lock):.+)$"},
            "when": {"enum": ["queue", "refuse", "cancel-older"]},
        },
        "required": ["limit"],
    }
    return {
        "description": "At most so many jobs at a time.",
        "anyOf": [{"type": ["integer", "null"]}, limit, {"type": "array", "items": limit}],
    }


def _named(schema: Schema, description: str) -> Schema:
    """Return the schema of named things, which may stand in a map or in a list of maps of one key."""
    named = {"type": "object", "additionalProperties": schema}
    return {
        "description": description,
        "anyOf": [{"type": "null"}, named, {"type": "array", "items": {"anyOf": [named, _TEXT]}}],
    }


def _steps() -> Schema:
    named = {"type": "object", "additionalProperties": {"$ref": "#/$defs/step"}}
    return {
        "description": "The steps by name. Those whose `precedingPhases` are finished run side by side.",
        "anyOf": [{"type": "null"}, named, {"type": "array", "items": named}],
    }


def _step() -> Schema:
    return {
        "type": ["object", "null"],
        "properties": {
            "action": {
                "description": "An action, a `.macro`, a workflow of this component, or `interface.command`.",
                "anyOf": [{"enum": sorted(Registry.load().names())}, _TEXT],
            },
            "phase": {"description": "The step's phase; its own name without it.", **_TEXT},
            "precedingPhases": {"description": "Phases that must be finished before the step starts.", **_NAMES},
            **_control(),
            "parameters": {"type": ["object", "null"]},
            "retryCount": {"description": "How often a failed step is tried again.", **_NUMBER},
            "ignoreFail": {"description": "Whether a failed step counts as finished.", "type": ["boolean", "string"]},
            "output": {
                "description": "Variable: output of the action.",
                "anyOf": [{"type": "null"}, {"type": "object"}, {"type": "array"}],
            },
        },
        "allOf": [_of_action(name) for name in sorted(Registry.load().names())],
    }


def _control() -> Schema:
    condition = {"type": ["string", "boolean", "null"]}
    duration = {"type": ["number", "string", "null"]}
    return {
        "when": {"description": "An expression; if it is false, the step is skipped.", **condition},
        "each": {
            "description": "A list, a map or an expression: the step runs once for each item.",
            "type": ["array", "object", "string", "null"],
        },
        "parallel": {
            "description": "How many items run at a time; 1 without it.",
            "type": ["integer", "string", "null"],
        },
        "until": {"description": "An expression; the step is repeated until it is true.", **condition},
        "delay": {"description": "The pause before `until` repeats the step; 10 seconds without it.", **duration},
        "timeout": {"description": "How long the step may take with all of its attempts.", **duration},
        "identity": {
            "description": "The step gets a token that says which job asks, for this audience.",
            "type": ["object", "string", "null"],
            "properties": {"audience": {"type": "string"}},
        },
        "secrets": {
            "description": "Secrets of providers by the names of variables: provider/path#key.",
            "type": ["object", "string", "null"],
            "additionalProperties": {"type": "string"},
        },
    }


def _of_action(name: str) -> Schema:
    """Return what the parameters of one action are for; others are passed on, and so are never wrong."""
    action = Registry.load().find(name)
    assert action is not None
    described = {each: {"description": parameter.description} for each, parameter in action.parameters.items()}
    given = {"properties": {"parameters": {"properties": described}}}
    return {"if": {"required": ["action"], "properties": {"action": {"const": name}}}, "then": given}


def _parameter() -> Schema:
    return {
        "type": "object",
        "properties": {
            "type": {"description": "A type of the language, such as `int` or `list<string>`.", **_TEXT},
            "default": {"description": "The value without another one.", **_ANYTHING},
            "description": {"description": "What the parameter is for.", **_SCALAR},
            "name": {"description": "The label in forms.", **_SCALAR},
            "suggestions": {"description": "Values to choose from.", **_ANYTHING},
            "enum": {"description": "Values to choose from, in older manifests.", **_ANYTHING},
        },
    }


def _returned() -> Schema:
    return {
        "type": "object",
        "properties": {
            "value": {"description": "A value, which may be or hold expressions such as `{$.x}`.", **_ANYTHING},
            "description": {"description": "What the result is.", **_SCALAR},
        },
    }
