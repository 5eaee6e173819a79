"""The reference of the API: an index, a page for each resource, and one for the types, from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from generators.client_operations import JSON, Operation, operations
from generators.schemas import annotation, named
from generators.words import Schema, table_row

TYPES = "types"
_ALWAYS = {"200", "429", "500", "503"}


def api_pages(document: Schema) -> dict[str, tuple[str, str]]:
    """Return name of a page → its title and text; the index has the name `index` and no title."""
    found = operations(document)
    resources = {
        tag["name"]: [operation for operation in found if operation.tag == tag["name"]] for tag in document["tags"]
    }
    types = document["components"]["schemas"]
    pages = {
        _page(resource): (resource, _text(line for each in inner for line in (*_operation(each), "")))
        for resource, inner in resources.items()
    }
    pages[TYPES] = ("Types", _text(line for name, schema in types.items() for line in (*_type(name, schema), "")))
    return {**pages, "index": ("", _text(_index(resources, list(types))))}


def places_of_operations(document: Schema) -> dict[str, str]:
    """Return the ID of each operation → its page and anchor in the folder of the API."""
    return {each.id: f"{_page(each.tag)}.md#{each.id}" for each in operations(document)}


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def _page(resource: str) -> str:
    return resource.lower().replace(" ", "-")


def _index(resources: Mapping[str, list[Operation]], types: list[str]) -> Iterator[str]:
    """Yield a table of operations for each resource. Old links to an operation on this page find its row."""
    for resource, inner in resources.items():
        yield from (f"## {resource}", "", f"All of it: [{resource}]({_page(resource)}.md).", "")
        yield from ("| operation | request | |", "|---|---|---|")
        for each in inner:
            name = f'<a id="{each.id}"></a>[{each.id}]({_page(resource)}.md#{each.id})'
            yield table_row(name, f"`{each.method} {each.path}`", each.document["summary"])
        yield ""
    yield from ("## Types", "", f"All of them: [types]({TYPES}.md).", "")
    headings = {_page(resource) for resource in resources}
    for name in types:
        anchor = "" if name.lower() in headings else f'<a id="{name.lower()}"></a>'
        yield f"{anchor}[{name}]({TYPES}.md#{name.lower()}){'.' if name == types[-1] else ','}"


def _operation(operation: Operation) -> Iterator[str]:
    entry = operation.document
    yield f"## {operation.id}"
    yield ""
    yield f"`{operation.method} {operation.path}`"
    yield ""
    marks = ["Extension."] if entry.get("x-addition") else []
    marks += ["Without credentials."] if entry.get("security") == [] else []
    needs = entry.get("description", "")
    yield " ".join([entry["summary"], *([f"{needs.rstrip('.')}."] if needs else []), *marks])
    yield ""
    yield from _parameters(entry)
    yield from _body(operation)
    yield from _answer(operation)


def _parameters(entry: Mapping[str, Any]) -> Iterator[str]:
    found = [each for each in entry.get("parameters", ()) if each["in"] != "path"]
    if not found:
        return
    yield "| parameter | in | type | |"
    yield "|---|---|---|---|"
    for each in found:
        about = each.get("description") or _about(each["schema"])
        needed = "Required. " if each.get("required") else ""
        yield f"| `{each['name']}` | {each['in']} | {_shown(each['schema'])} | {needed}{about} |"
    yield ""


def _body(operation: Operation) -> Iterator[str]:
    content = operation.document.get("requestBody", {}).get("content", {})
    for media_type, entry in content.items():
        optional = "" if operation.document["requestBody"]["required"] else ", optional"
        kind = "" if media_type != JSON else f": {_shown(entry['schema'])}"
        yield f"Body `{media_type}`{kind}{optional}."
        yield ""
        properties = entry["schema"].get("properties")
        if properties:
            yield from _fields(properties, set())
            yield ""
        if "example" in entry:
            yield from _example(media_type, entry["example"])


def _answer(operation: Operation) -> Iterator[str]:
    answer = operation.document["responses"]["200"]
    (media_type, content), *others = answer["content"].items()
    _, kind = operation.answer()
    shown = _shown(content["schema"]) if media_type == JSON and kind != "None" else ""
    if kind == "None":
        shown = "`{}`"
    about = answer["description"] if answer["description"] != "Success." else ""
    told = " ".join(part for part in (f"Returns `{media_type}`", shown and f"{shown}") if part)
    forms = f" Other media types: {', '.join(f'`{kind}`' for kind, _ in others)}." if others else ""
    yield f"{told}. {about}{forms}".strip()
    yield ""
    if "example" in content:
        yield from _example(media_type, content["example"])
    refusals = [status for status in operation.document["responses"] if status not in _ALWAYS and status >= "400"]
    if refusals:
        yield f"Error statuses: {', '.join(refusals)}."
    else:
        yield "No error statuses of its own."


def _example(media_type: str, example: Any) -> Iterator[str]:
    is_text = isinstance(example, str)
    text = example if is_text else json.dumps(example, indent=2, ensure_ascii=False)
    yield f"```{'yaml' if 'yaml' in media_type else 'json' if not is_text else 'text'}"
    yield text.rstrip("\n")
    yield "```"
    yield ""


def _type(name: str, schema: Schema) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    about = " ".join(str(schema.get("description", "")).split())
    if about:
        yield about
        yield ""
    yield from _fields(schema.get("properties", {}), set(schema.get("required", ())))


def _fields(properties: Mapping[str, Any], required: set[str]) -> Iterator[str]:
    if not properties:
        return
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, field in properties.items():
        needed = "Always. " if name in required else ""
        yield f"| `{name}` | {_shown(field)} | {needed}{_about(field)} |"


def _about(schema: Schema) -> str:
    about = schema.get("description", "")
    if not about:
        about = next((each["description"] for each in schema.get("anyOf", ()) if "description" in each), "")
    return " ".join(str(about).split()).replace("|", "\\|")


def _shown(schema: Schema) -> str:
    """Return a type as a reader of JSON calls it, with a link where it has a section of its own."""
    name = named(schema)
    if name is not None:
        return f"[{name}]({TYPES}.md#{name.lower()})"
    if schema.get("type") == "array":
        return f"list of {_shown(schema.get('items', {}))}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shown(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    text = annotation(schema, sent=False)
    words = {
        "str": "text",
        "int": "integer",
        "bool": "boolean",
        "dict[str, Any]": "object",
        "Any": "any",
        "None": "null",
    }
    return " or ".join(words.get(part, part) for part in text.split(" | "))
