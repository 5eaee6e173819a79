"""JSON Schema as Python's types."""

from typing import Any

from generators.words import Schema

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def named(schema: Schema) -> str | None:
    """Return the name of the component that a schema refers to."""
    reference = schema.get("$ref")
    return None if reference is None else str(reference).rpartition("/")[2]


def annotation(schema: Schema, *, sent: bool, prefix: str = "") -> str:
    """Return the annotation of a value that is sent, or of one that is answered; `prefix` is that of components."""
    name = named(schema)
    if name is not None:
        return f"{prefix}{name}"
    if "anyOf" in schema:
        return _union([annotation(each, sent=sent, prefix=prefix) for each in schema["anyOf"]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([annotation({**schema, "type": each}, sent=sent, prefix=prefix) for each in kind])
    if kind == "array":
        inner = annotation(schema.get("items", {}), sent=sent, prefix=prefix)
        return f"Sequence[{inner}]" if sent else f"list[{inner}]"
    if kind == "object":
        return "Mapping[str, Any]" if sent else "dict[str, Any]"
    return "Any" if kind is None else _SIMPLE[kind]


def components_in(schema: Any) -> set[str]:
    """Return the names of all components that a schema refers to by itself."""
    if isinstance(schema, dict):
        own = named(schema)
        return ({own} if own else set()).union(*(components_in(each) for each in schema.values()))
    return set().union(*(components_in(each) for each in schema)) if isinstance(schema, list) else set()


def _union(kinds: list[str]) -> str:
    return " | ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))
