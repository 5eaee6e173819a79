"""JSON Schema as Python's types."""

from typing import Any

from generators.words import Schema, literal

_MOST_CHOICES = 12  # of more, a signature would be nothing else
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
    choices = schema.get("enum", ())
    if sent and 0 < len(choices) <= _MOST_CHOICES and all(isinstance(each, str) for each in choices):
        return f"Literal[{', '.join(literal(each) for each in choices)}]"
    kind = schema.get("type")
    each_of = schema.get("anyOf") or ([{**schema, "type": each} for each in kind] if isinstance(kind, list) else None)
    if each_of is not None:
        return _union([annotation(each, sent=sent, prefix=prefix) for each in each_of])
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
