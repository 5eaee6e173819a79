"""The operations of the client: one module for each family, and the class that has them all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generators.client_types import module_name, wanted
from generators.schemas import annotation, named
from generators.words import Schema, docstring, literal, path_arguments, safe, snake, text_literal

JSON = "application/json"
# POST that changes nothing, or the same again: worth another attempt without a key.
_REPEATABLE = {"validate_manifest", "preview_launch", "preview_configuration", "exchange_token", "refresh_manifest"}
# A preview takes the body of what it previews; its own schema says nothing, since it answers what is wrong.
_PREVIEWS = {"preview_launch": "launch_application", "preview_configuration": "reconfigure_instance"}
# What the whole body of an operation is called where it has no fields.
_BODIES = {
    "run_workflow": "parameters",
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
        """Return the fields of the query."""
        found = [each for each in self.document.get("parameters", ()) if each["in"] == "query"]
        return [_field(each["name"], each["schema"], required=each["required"], sent=True) for each in found]

    def keyed(self) -> bool:
        """Tell whether it takes an Idempotency-Key."""
        return any(each["in"] == "header" for each in self.document.get("parameters", ()))

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
        if media_type != JSON:
            return Argument("text", "", "str")
        kind = annotation(schema, sent=True)
        name = _BODIES.get(self.id, "body")
        if self.document["requestBody"]["required"]:
            return Argument(name, "", kind)
        return Argument(name, "", f"{kind} | None", "None")

    def answer(self) -> tuple[str, str]:
        """Return the media type of its answer, and the type that it is read as."""
        ((media_type, content),) = self.document["responses"]["200"]["content"].items()
        if media_type == "text/event-stream":
            return media_type, "Event"
        if media_type.partition(";")[0] != JSON:
            return media_type.partition(";")[0], "str"
        schema = content["schema"]
        if schema.get("additionalProperties") is False:
            return media_type, "None"
        return media_type, annotation(schema, sent=False)


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


def operation_modules(document: Schema) -> dict[str, str]:
    """Return file name → text of the package `client/operations`."""
    families: dict[str, list[Operation]] = {}
    for operation in operations(document):
        families.setdefault(operation.tag, []).append(operation)
    types = wanted(document)
    modules = {f"{module_name(tag)}.py": _module(tag, members, types) for tag, members in families.items()}
    modules["__init__.py"] = _class(families)
    return modules


def _class(families: Mapping[str, Sequence[Operation]]) -> str:
    names = sorted(module_name(tag) for tag in families)
    lines = [
        '"""Every operation of the API, as methods of both clients.',
        "",
        "Made from the endpoint table by `python -m generators`; a test holds that it is up to date.",
        '"""',
        "",
        f"from launchbay.client.operations import {', '.join(names)}",
        "",
        "",
        "class Operations:",
        '    """The operations: on a client they make calls, on this class they are data (`operation.py`)."""',
    ]
    for tag, members in families.items():
        lines.append("")
        lines += [f"    {member.id} = {module_name(tag)}.{member.id}" for member in members]
    return "\n".join(lines) + "\n"


def _module(tag: str, members: Sequence[Operation], types: set[str]) -> str:
    body = "\n\n\n".join(_function(member) for member in members)
    used = sorted(name for name in types if f"{name}" in body)
    lines = [
        f'"""Operations of the API: {tag.lower()}.',
        "",
        "Made from the endpoint table by `python -m generators`; a test holds that it is up to date.",
        '"""',
        "",
        "from collections.abc import Mapping, Sequence",
        "from types import NoneType",
        "from typing import Any",
        "",
        "from msgspec import UNSET, UnsetType",
        "",
        "from launchbay.client.call import Call, Row, given",
        "from launchbay.client.events import Event",
        "from launchbay.client.operation import event_operation, list_operation, operation",
        f"from launchbay.client.types import {', '.join(used)}" if used else "",
        "",
        "",
    ]
    return "\n".join(lines) + body + "\n"


def _function(operation: Operation) -> str:
    _, returns = operation.answer()
    decorator = {"Event": "event_operation"}.get(returns, "operation")
    if returns.startswith("list[") and operation.method == "GET":
        decorator = "list_operation"
    whole, fields, query = operation.whole_body(), operation.body_fields() or [], operation.query()
    positional = [*operation.path_arguments(), *([whole] if whole else [])]
    named_ones = sorted([*fields, *query], key=lambda argument: bool(argument.default))
    if operation.keyed():
        named_ones.append(Argument("idempotency_key", "", "str | None", "None"))
    signature = [argument.text for argument in positional]
    if named_ones:
        signature += ["*", *(argument.text for argument in named_ones)]
    lines = [
        f"@{decorator}({_row(operation, [*fields, *query])})",
        f"def {operation.id}({', '.join(signature)}) -> Call[{returns}]:",
        docstring(_paragraphs(operation, [*fields, *query]), "    "),
        f"    return Call({', '.join(_call(operation, returns, whole, fields, query))})",
    ]
    return "\n".join(lines)


def _paragraphs(operation: Operation, fields: Sequence[Argument]) -> list[str]:
    summary = operation.document["summary"]
    needs = operation.document.get("description", "")
    if needs:
        needs = needs if needs.endswith(".") else f"{needs}."
    told = [f"`{field.name}`: {field.about}" for field in fields if field.about]
    return [summary, needs, *told]


def _row(operation: Operation, fields: Sequence[Argument]) -> str:
    body = operation.body()
    answer, _ = operation.answer()
    given = {
        "id": literal(operation.id),
        "method": literal(operation.method),
        "path": literal(operation.path),
        "media_type": literal(body[0]) if body else "",
        "answer": literal(answer) if answer != JSON else "",
        "keyed": "True" if operation.keyed() else "",
        "repeatable": "True" if operation.id in _REPEATABLE else "",
        "public": "True" if operation.document.get("security") == [] else "",
    }
    about = [f"{literal(field.name)}: {text_literal(field.about, '            ')}" for field in fields if field.about]
    if about:
        given["about"] = "{" + ", ".join(about) + "}"
    return "Row(" + ", ".join(f"{name}={value}" for name, value in given.items() if value) + ")"


def _call(
    operation: Operation, returns: str, whole: Argument | None, fields: Sequence[Argument], query: Sequence[Argument]
) -> list[str]:
    arguments = ["NoneType" if returns == "None" else returns]
    names = [argument.name for argument in operation.path_arguments()]
    if names:
        arguments.append(f"({', '.join(names)},)")
    if query:
        arguments.append("query={" + ", ".join(f"{literal(each.wire_name)}: {each.name}" for each in query) + "}")
    if whole is not None:
        arguments.append(f"body={whole.name} or {{}}" if whole.default else f"body={whole.name}")
    elif fields:
        nullable = [each.wire_name for each in fields if each.default == "UNSET"]
        pairs = "{" + ", ".join(f"{literal(each.wire_name)}: {each.name}" for each in fields) + "}"
        more = f", nullable=({', '.join(literal(name) for name in nullable)},)" if nullable else ""
        arguments.append(f"body=given({pairs}{more})")
    elif operation.body() is not None:
        arguments.append("body={}")
    if operation.keyed():
        arguments.append("idempotency_key=idempotency_key")
    return arguments


def _field(wire_name: str, schema: Schema, *, required: bool, sent: bool) -> Argument:
    name = safe(snake(wire_name))
    kind = annotation(schema, sent=sent)
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
