"""The types of answers: the module `client/types.py`."""

from collections.abc import Iterator
from typing import Any

from generators.schemas import annotation, components_in
from generators.words import Schema, docstring, literal, safe, snake

ABOUT = "Made from the endpoint table by `python -m generators`; a test holds that it is up to date."


def types_module(document: Schema) -> str:
    """Return the text of `client/types.py`: a struct for each component that answers are made of."""
    schemas = document["components"]["schemas"]
    lines = [
        '"""The types of the API\'s answers. Times are milliseconds since the Unix epoch.',
        "",
        ABOUT,
        '"""',
        "",
        "from typing import Any",
        "",
        "import msgspec",
    ]
    structs = [_struct(name, schemas[name]) for name in _ordered(document)]
    return "\n".join(lines) + "\n\n\n" + "\n\n\n".join(structs) + "\n"


def _ordered(document: Schema) -> list[str]:
    """Return the names of the structs in the order of the API, each after those that it is made of."""
    schemas, types = document["components"]["schemas"], wanted(document)
    ordered: dict[str, None] = {}

    def take(name: str) -> None:
        if name in types and name not in ordered:
            for inner in sorted(components_in(schemas[name].get("properties", {}))):
                take(inner)
            ordered[name] = None

    for methods in document["paths"].values():
        for operation in methods.values():
            for name in sorted(_used(operation, schemas)):
                take(name)
    return list(ordered)


def wanted(document: Schema) -> set[str]:
    """Return the names of the components that are types of the client."""
    schemas = document["components"]["schemas"]
    found = set().union(
        *(_used(operation, schemas) for methods in document["paths"].values() for operation in methods.values())
    )
    todo = list(found)
    while todo:
        for name in components_in(schemas[todo.pop()].get("properties", {})) - found:
            found.add(name)
            todo.append(name)
    return found


def _used(operation: Schema, schemas: Schema) -> set[str]:
    """Return the names that an operation's answer and the fields of its request refer to by themselves."""
    found: set[str] = set()
    for content in operation["responses"]["200"]["content"].values():
        found |= components_in(content.get("schema", {}))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for name in components_in(content["schema"]):
            found |= components_in(schemas[name].get("properties", {}))
    return found


def _struct(name: str, schema: Schema) -> str:
    lines = [f"class {name}(msgspec.Struct, frozen=True, kw_only=True, rename='camel'):"]
    lines.append(docstring([schema.get("description", f"{name}.")], "    "))
    lines.append("")
    lines.extend(_fields(schema))
    return "\n".join(lines)


def _fields(schema: Schema) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for wire_name, field in schema.get("properties", {}).items():
        name = snake(wire_name)
        attribute = safe(name) if name in {"from", "to"} else name
        kind, default = annotation(field, sent=False), ""
        if wire_name not in required:
            default = _default(field)
            kind = kind if default != "None" or "None" in kind or kind == "Any" else f"{kind} | None"
        if attribute != name:
            default = f"msgspec.field(name={literal(wire_name)}" + (f", default={default})" if default else ")")
        yield f"    {attribute}: {kind}" + (f" = {default}" if default else "")


def _default(field: Any) -> str:
    default = field.get("default")
    if isinstance(default, list):
        return "[]"
    return literal(default) if isinstance(default, str) else repr(default)
