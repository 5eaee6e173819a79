"""The contract of the API shows each change that a program can notice, and none of what only people read."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_contract import contract

ITEM = {
    "title": "Item",
    "description": "An item.",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 9},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name"],
}
REFERENCE = {"$ref": "#/components/schemas/Item"}
OPERATION = {
    "operationId": "replace_items",
    "summary": "Replace the items.",
    "tags": ["Items"],
    "security": [],
    "parameters": [{"name": "limit", "in": "query", "required": False, "schema": {"type": "integer", "default": 5}}],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "array", "items": REFERENCE}, "example": []}},
    },
    "responses": {
        "200": {
            "description": "Done.",
            "headers": {"ETag": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": {"type": "object", "additionalProperties": REFERENCE}}},
        },
        "400": {"description": "Wrong.", "headers": {}, "content": {"application/json": {"schema": REFERENCE}}},
    },
}
DOCUMENT = {"paths": {"/items": {"put": OPERATION}}, "components": {"schemas": {"Item": ITEM}}}
TEXT = """\
PUT /items replace_items [Items] public
  query limit?: integer = 5
  body application/json: [Item]
  200 application/json: {*: Item}; ETag: string
  400 application/json: Item

Item
  name: string(maxLength=9)
  size?: integer | null = null
  kind?: "a" | "b\""""

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def changed(change: Change) -> str:
    """Return the contract after a change to the operation and the schema."""
    document: dict[str, Any] = copy.deepcopy(DOCUMENT)
    change(document["paths"]["/items"]["put"], document["components"]["schemas"]["Item"])
    return contract(document)


def test_each_operation_parameter_answer_and_field_has_a_line() -> None:
    assert contract(DOCUMENT) == TEXT


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda op, _: op.update(operationId="put_items"), "PUT /items put_items [Items] public"),
        (lambda op, _: op.pop("security"), "PUT /items replace_items [Items]"),
        (lambda op, _: op.update({"x-addition": True}), "PUT /items replace_items [Items] public x-addition=true"),
        (lambda op, _: op["parameters"][0].update(required=True), "  query limit: integer = 5"),
        (lambda op, _: op["parameters"][0]["schema"].update(default=6), "  query limit?: integer = 6"),
        (lambda op, _: op["parameters"][0].update({"in": "header"}), "  header limit?: integer = 5"),
        (lambda op, _: op["requestBody"].update(required=False), "  body? application/json: [Item]"),
        (lambda op, _: op["responses"]["200"]["headers"].clear(), "  200 application/json: {*: Item}"),
        (lambda op, _: op["responses"].update({"404": op["responses"]["400"]}), "  400 404 application/json: Item"),
        (lambda _, item: item["required"].clear(), "  name?: string(maxLength=9)"),
        (lambda _, item: item["properties"]["name"].update(maxLength=8), "  name: string(maxLength=8)"),
        (lambda _, item: item["properties"]["size"]["anyOf"].pop(), "  size?: integer = null"),
        (lambda _, item: item["properties"]["kind"]["enum"].append("c"), '  kind?: "a" | "b" | "c"'),
        (lambda _, item: item.update(additionalProperties=False), "  nothing else"),
        (lambda _, item: item["properties"].update(added=REFERENCE), "  added?: Item"),
    ],
)
def test_a_change_that_programs_notice_is_in_its_line(change: Change, line: str) -> None:
    assert line not in contract(DOCUMENT).splitlines()
    assert line in changed(change).splitlines()


def test_what_people_read_is_no_part_of_it() -> None:
    def reword(operation: dict[str, Any], item: dict[str, Any]) -> None:
        operation["summary"] = operation["responses"]["400"]["description"] = item["description"] = "Other words."
        operation["requestBody"]["content"]["application/json"]["example"] = [{"name": "x"}]

    assert changed(reword) == TEXT
