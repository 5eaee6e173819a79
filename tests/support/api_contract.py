"""The contract of the API in an OpenAPI document: a line for each operation, parameter, body, answer and field.

What is for readers alone is left out: descriptions, examples and links. The reference pages and their tests have those
(decision 0235).
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_FOR_READERS = {"title", "description", "example", "examples", "default"}
_IN_THE_TYPE = {
    "$ref",
    "anyOf",
    "enum",
    "type",
    "items",
    "prefixItems",
    "additionalProperties",
    "properties",
    "required",
}


def contract(document: Mapping[str, Any]) -> str:
    """Return the contract, in the order of the document."""
    lines = [
        line
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for line in _operation(f"{method.upper()} {path}", operation)
    ]
    for name, schema in document["components"]["schemas"].items():
        lines += [
            "",
            name if "properties" in schema and schema["type"] == "object" else f"{name}: {written(schema)}",
            *_fields(schema),
        ]
    return "\n".join(lines)


def written(schema: Schema) -> str:
    """Return a schema as one expression: `[Named]`, `integer(minimum=1) | null`, `{*: string}`."""
    base = _base(schema)
    left = [f"{key}={json.dumps(value)}" for key, value in schema.items() if key not in _FOR_READERS | _IN_THE_TYPE]
    return f"{base}({', '.join(left)})" if left else base


def _base(schema: Schema) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"anyOf": kinds}:
            return " | ".join(map(written, kinds))
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"type": "array", "prefixItems": kinds}:
            return f"[{', '.join(map(written, kinds))}]"
        case {"type": "array"}:
            return f"[{written(schema.get('items', {}))}]"
        case {"type": "object", "properties": _}:
            return f"{{{', '.join(line.strip() for line in _fields(schema))}}}"
        case {"type": "object", "additionalProperties": Mapping() as values}:
            return f"{{*: {written(values)}}}"
        case {"type": "object", "additionalProperties": False}:
            return "{}"
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " | ".join(kind)


def _fields(schema: Schema) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        default = f" = {json.dumps(field['default'])}" if "default" in field else ""
        yield f"  {name}{'' if name in required else '?'}: {written(field)}{default}"
    match schema.get("additionalProperties") if "properties" in schema else None:
        case False:
            yield "  nothing else"
        case Mapping() as others:
            yield f"  *: {written(others)}"


def _operation(head: str, operation: Mapping[str, Any]) -> Iterator[str]:
    known = {"operationId", "summary", "description", "tags", "parameters", "requestBody", "responses", "security"}
    marks = [f"{key}={json.dumps(value)}" for key, value in operation.items() if key not in known]
    public = ["public"] if operation.get("security") == [] else []
    yield " ".join([head, operation["operationId"], f"[{', '.join(operation['tags'])}]", *public, *marks])
    for each in operation.get("parameters", ()):
        default = f" = {json.dumps(each['schema']['default'])}" if "default" in each["schema"] else ""
        yield f"  {each['in']} {each['name']}{'' if each['required'] else '?'}: {written(each['schema'])}{default}"
    body = operation.get("requestBody", {})
    for media, content in body.get("content", {}).items():
        yield f"  body{'' if body['required'] else '?'} {media}: {written(content.get('schema', {}))}"
    answers: defaultdict[str, list[str]] = defaultdict(list)  # most errors answer the same
    for status, answer in operation["responses"].items():
        contents = [f"{media}: {written(each.get('schema', {}))}" for media, each in answer.get("content", {}).items()]
        headers = [f"{name}: {written(each['schema'])}" for name, each in answer["headers"].items()]
        answers["; ".join([*contents, *headers])].append(status)
    for answer, statuses in answers.items():
        yield f"  {' '.join(statuses)} {answer}"
