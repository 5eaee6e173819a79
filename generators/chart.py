"""The schema of the values of the Helm chart, from the settings of the server."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from launchbay.settings import Settings

SCHEMA = Path("integrations/helm/launchbay/values.schema.json")
# The chart sets these itself, in files and variables of its own.
_OF_CHART = frozenset(
    {
        *(
            "admin_password",
            "base_url",
            "data_dir",
            "database_direct_url",
            "database_url",
            "host",
            "log_format",
            "port",
        ),
        *("secret_key_file", "tls_certificate", "tls_key"),
    }
)


def chart_schema() -> dict[Path, str]:
    """Return path → text of the schema."""
    return {SCHEMA: json.dumps(_schema(), indent=2) + "\n"}


def _schema() -> dict[str, Any]:
    of_server = [each for each in fields(Settings) if each.name not in _OF_CHART]
    resources = {"type": "object", "properties": {"requests": _MAP, "limits": _MAP}, "additionalProperties": False}

    def process(least: int) -> dict[str, Any]:
        return _closed(replicas={"type": "integer", "minimum": least}, resources=resources)

    reference = {**_closed(name=_NAME, key={"type": "string", "minLength": 1}), "required": ["name", "key"]}
    values = _closed(
        baseUrl={"type": "string", "pattern": r"^https?://[^/\s]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?$"},
        image=_closed(
            repository={"type": "string", "minLength": 1},
            tag=_TEXT,
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        imagePullSecrets={"type": "array", "items": _closed(name=_NAME)},
        existingSecret=_NAME,
        settings=_closed(**{each.name: _setting(each.default) for each in of_server if each.repr}),
        secretSettings=_closed(**{each.name: reference for each in of_server}),
        server=process(1),
        worker=process(0),
        migration=_closed(
            enabled={"type": "boolean"}, deadlineSeconds={"type": "integer", "minimum": 60}, resources=resources
        ),
        service=_closed(
            type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
            port={"type": "integer", "minimum": 1, "maximum": 65535},
        ),
        ingress=_closed(enabled={"type": "boolean"}, className=_TEXT, annotations=_TEXTS, tlsSecret=_TEXT),
        networkPolicy=_closed(enabled={"type": "boolean"}, **{"from": _OBJECTS}, egress=_OBJECTS),
        podDisruptionBudget=_closed(enabled={"type": "boolean"}),
        podAnnotations=_TEXTS,
        nodeSelector=_TEXTS,
        tolerations=_OBJECTS,
        affinity=_MAP,
    )
    values["properties"]["global"] = _MAP  # of charts above this one
    return {"$schema": "https://json-schema.org/draft-07/schema#", **values, "required": ["baseUrl", "existingSecret"]}


def _setting(default: object) -> dict[str, Any]:
    """Return the schema of a setting's value. The server checks its bounds."""
    kind = {int: "integer", float: "number"}.get(type(default), "string")
    return {"type": kind, "default": default}


_TEXT = {"type": "string"}
_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
_MAP = {"type": "object"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_OBJECTS = {"type": "array", "items": _MAP}


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
