"""The operations of the client: the class that both clients inherit from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generators.client_types import ABOUT
from generators.schemas import annotation, named
from generators.words import Schema, docstring, literal, path_arguments, safe, snake

JSON = "application/json"
# POST that changes nothing, or the same again: worth another attempt without a key.
_REPEATABLE = {"validate_manifest", "preview_launch", "preview_configuration", "exchange_token", "refresh_manifest"}
# A preview takes the body of what it previews; its own schema says nothing, since it answers what is wrong.
_PREVIEWS = {"preview_launch": "launch_application", "preview_configuration": "reconfigure_instance"}
_INCLUDE = "include"  # the field of a query that asks for additions to the answer
# What the whole body of an operation is called where it has no fields.
_BODIES = {
    "run_workflow": "parameters",
    "put_application_labels": "labels",
    "put_environment_labels": "labels",
    "put_instance_labels": "labels",
    "put_user_data": "user_data",
    "assign_roles": "roles",
    "revoke_roles": "roles",
}


@dataclass(frozen=True)
class Argument:
    """An argument of an operation: `wire_name` is what the API calls it."""

    name: str
    wire_name: str
    annotation: str
    default: str = ""
    about: str = ""

    @property
    def text(self) -> str:
        """Return it as the signature has it."""
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True)
class Operation:
    """An operation of the document, taken apart."""

    id: str
    method: str
    path: str
    document: Mapping[str, Any]
    schemas: Mapping[str, Any]

    @property
    def tag(self) -> str:
        """Return its family."""
        return str(self.document["tags"][0])

    def path_arguments(self) -> list[Argument]:
        """Return what fills the path."""
        return [Argument(name, wire, "str") for wire, name in path_arguments(self.path).items()]

    def query(self) -> list[Argument]:
        """Return the fields of the query, but not `include`: the client always asks for all additions."""
        found = [each for each in self._query() if each["name"] != _INCLUDE]
        return [_field(each["name"], each["schema"], required=each["required"], sent=True) for each in found]

    def include(self) -> str:
        """Return all additions to the answer that the query can ask for."""
        about = next((each["schema"]["description"] for each in self._query() if each["name"] == _INCLUDE), "")
        return ",".join(re.findall(r"`(\w+)`", about))

    def _query(self) -> list[Any]:
        return [each for each in self.document.get("parameters", ()) if each["in"] == "query"]

    def keyed(self) -> bool:
        """Tell whether it takes an Idempotency-Key."""
        return "Idempotency-Key" in self._headers()

    def conditional(self) -> bool:
        """Tell whether it takes If-Match."""
        return "If-Match" in self._headers()

    def _headers(self) -> set[str]:
        return {each["name"] for each in self.document.get("parameters", ()) if each["in"] == "header"}

    def body(self) -> tuple[str, Schema] | None:
        """Return media type and schema of its body."""
        content = self.document.get("requestBody", {}).get("content", {})
        for media_type, entry in content.items():
            schema = entry["schema"]
            name = named(schema)
            return media_type, self.schemas[name] if name else schema
        return None

    def body_fields(self) -> list[Argument] | None:
        """Return the fields of its body; None where the body is one argument, or where there is none."""
        found = self.body()
        if found is None or "properties" not in found[1]:
            return None
        required = set(found[1].get("required", ()))
        return [
            _field(name, schema, required=name in required, sent=True)
            for name, schema in found[1]["properties"].items()
        ]

    def whole_body(self) -> Argument | None:
        """Return the one argument that is the body."""
        found = self.body()
        if found is None or self.body_fields() is not None:
            return None
        media_type, schema = found
        if media_type == "application/x-ndjson":
            return Argument("file", "", "Path")
        if media_type != JSON:
            return Argument("text", "", "str")
        kind = _annotation(schema, sent=True)
        name = _BODIES.get(self.id, "body")
        if self.document["requestBody"]["required"]:
            return Argument(name, "", kind)
        return Argument(name, "", f"{kind} | None", "None")

    def answer(self) -> tuple[str, str]:
        """Return the media type of its answer, and the type that it is read as."""
        media_type, content = next(iter(self.document["responses"]["200"]["content"].items()))
        if media_type == "text/event-stream":
            return media_type, "Event"
        if media_type.partition(";")[0] != JSON:
            return media_type.partition(";")[0], "str"
        schema = content["schema"]
        if schema.get("additionalProperties") is False:
            return media_type, "None"
        return media_type, _annotation(schema, sent=False)


def operations(document: Schema) -> list[Operation]:
    """Return all operations, in the order of the document."""
    schemas = document["components"]["schemas"]
    found = {
        entry["operationId"]: Operation(entry["operationId"], method.upper(), path, entry, schemas)
        for path, methods in document["paths"].items()
        for method, entry in methods.items()
    }
    for preview, previewed in _PREVIEWS.items():
        body = found[previewed].document["requestBody"]
        found[preview] = replace(found[preview], document={**found[preview].document, "requestBody": body})
    return list(found.values())


def by_family(document: Schema) -> dict[str, list[Operation]]:
    """Return the operations by their tags, both in the order of the document."""
    families: dict[str, list[Operation]] = {}
    for operation in operations(document):
        families.setdefault(operation.tag, []).append(operation)
    return families


def operations_module(document: Schema) -> str:
    """Return the text of `client/operations.py`."""
    lines = [
        '"""Every operation of the API, as methods of both clients.',
        "",
        ABOUT,
        '"""',
        "",
        # Only the command line reads annotations, of one operation at a time; imports need not evaluate them all.
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping, Sequence",
        "from pathlib import Path",
        "from typing import Any, Literal",
        "",
        "from msgspec import UNSET, UnsetType",
        "",
        "from launchbay.client import types",
        "from launchbay.client.core import JSON, Call, OperationSpec",
        "from launchbay.client.operation import event_operation, list_operation, operation",
        "from launchbay.client.streams import Event",
        "",
        "",
        "class Operations:",
        '    """The operations: on a client they make calls, on this class they are data (`operation.py`)."""',
    ]
    families = by_family(document)
    for tag, members in families.items():
        lines += ["", f"    # {tag}"]
        for member in members:
            lines += ["", *_method(member)]
    return "\n".join(lines) + "\n"


def _method(operation: Operation) -> list[str]:
    _, returns = operation.answer()
    decorator = {"Event": "event_operation"}.get(returns, "operation")
    if returns.startswith("list[") and operation.method == "GET":
        decorator = "list_operation"
    whole, fields, query = operation.whole_body(), operation.body_fields() or [], operation.query()
    positional = [*operation.path_arguments(), *([whole] if whole else [])]
    named_ones = sorted([*fields, *query], key=lambda argument: bool(argument.default))
    if operation.conditional():
        named_ones.append(Argument("if_match", "", "str | None", "None"))
    if operation.keyed():
        named_ones.append(Argument("idempotency_key", "", "str | None", "None"))
    signature = ["self", *(argument.text for argument in positional)]
    if named_ones:
        signature += ["*", *(argument.text for argument in named_ones)]
    return [
        f"    @{decorator}({_row(operation, [*fields, *query])})",
        f"    def {operation.id}({', '.join(signature)}) -> Call[{returns}]:",
        docstring(_paragraphs(operation, [*fields, *query]), "        "),
    ]


def _paragraphs(operation: Operation, fields: Sequence[Argument]) -> list[str]:
    summary, needs = operation.document["summary"], operation.document.get("description", "")
    if needs:
        summary = f"{summary.removesuffix('.')}. {needs.removesuffix('.')}."
    return [summary, *(f"`{field.name}`: {field.about}" for field in fields if field.about)]


def _row(operation: Operation, arguments: Sequence[Argument]) -> str:
    body = operation.body()
    answer, _ = operation.answer()
    fields = {
        "media_type": _media_type(body[0]) if body else "",
        "answer": _media_type(answer) if answer != JSON else "",
        "keyed": "True" if operation.keyed() else "",
        "repeatable": "True" if operation.id in _REPEATABLE else "",
        "public": "True" if operation.document.get("security") == [] else "",
        "query": _query(operation) if body else "",
        "include": literal(operation.include()) if operation.include() else "",
        "is_camel": "False" if any("_" in field.wire_name for field in arguments) else "",
    }
    known = [literal(operation.method), literal(operation.path)]
    return f"OperationSpec({', '.join([*known, *(f'{name}={value}' for name, value in fields.items() if value)])})"


def _query(operation: Operation) -> str:
    names = [literal(field.wire_name) for field in operation.query()]
    return f"({', '.join(names)},)" if names else ""


def _media_type(name: str) -> str:
    return "JSON" if name == JSON else literal(name)


def _annotation(schema: Schema, *, sent: bool) -> str:
    return annotation(schema, sent=sent, prefix="types.")


def _field(wire_name: str, schema: Schema, *, required: bool, sent: bool) -> Argument:
    name = safe(snake(wire_name))
    kind = _annotation(schema, sent=sent)
    about = schema.get("description", "")
    if not about:
        about = next((each["description"] for each in schema.get("anyOf", ()) if "description" in each), "")
    if required:
        return Argument(name, wire_name, kind, about=about)
    if "default" not in schema and "anyOf" in schema and "None" in kind:
        return Argument(
            name, wire_name, f"{kind.removesuffix(' | None')} | UnsetType | None", "UNSET", about
        )  # null has a meaning of its own
    if "None" not in kind and kind != "Any":
        kind = f"{kind} | None"
    return Argument(name, wire_name, kind, "None", about)
