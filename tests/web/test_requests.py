"""What a request's body may be (conformance.md, "Wire" 3)."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import httpx
import msgspec
import pytest
from starlette.types import Message

from launchbay.errors import BadRequest
from launchbay.limits import JSON_BODY_BYTES, MANIFEST_BYTES
from launchbay.web.requests import BodyReader, JsonBody, read_body, read_query
from tests.support.routes import ID
from tests.support.served import ENDPOINTS

JSON = {"Content-Type": "application/json"}
THINGS, RUN = "/api/1/things", f"/api/1/things/{ID}/go"
SCHEDULE, CLONE, CHANGE, DATA, TEXT, ROLES = (
    f"/api/1/things/{ID}/go/schedule",
    f"/api/1/things/{ID}/clone",
    f"/api/1/things/{ID}",
    f"/api/1/things/{ID}/data",
    f"/api/1/things/{ID}/text",
    f"/api/1/things/{ID}/roles",
)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/json ; charset=utf8",
        "application/json; version=1",
    ],
)
async def test_json_is_read_however_its_content_type_is_spelled(client: httpx.AsyncClient, content_type: str) -> None:
    answer = await client.post(THINGS, content=b'{"name": "x"}', headers={"Content-Type": content_type})
    assert answer.json()["body"] == {"name": "x", "wheelCount": 4}


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/x-yaml",
        "application/jsonx",
        "application/vnd.x+json",
        "application/json; charset=utf-16",
    ],
)
@pytest.mark.parametrize("path", [THINGS, RUN, SCHEDULE, CLONE])
async def test_a_body_with_another_content_type_is_400(
    client: httpx.AsyncClient, path: str, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = await client.post(path, content=b'{"name": "x"}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "WrongContentType")


async def test_a_compressed_body_is_400(client: httpx.AsyncClient) -> None:
    answer = await client.post(THINGS, content=b"\x1f\x8b", headers={**JSON, "Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (400, "WrongContentType")


@pytest.mark.parametrize("content", [b"", b" \r\n"])
@pytest.mark.parametrize("path", [RUN, SCHEDULE, CLONE])
async def test_where_nothing_is_required_an_empty_json_body_is_an_empty_object(
    client: httpx.AsyncClient, path: str, content: bytes
) -> None:
    answer = await client.post(path, content=content, headers=JSON)
    assert answer.status_code == 200
    assert answer.json()["body"] in ({}, {"version": None, "labels": {}}, {"name": None})


@pytest.mark.parametrize("path", [RUN, SCHEDULE, CLONE])
async def test_where_nothing_is_required_a_request_without_any_body_is_fine(
    client: httpx.AsyncClient, path: str
) -> None:
    assert (await client.post(path)).status_code == 200


async def test_only_clone_takes_an_empty_body_of_another_content_type(client: httpx.AsyncClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post(CLONE, headers=form)).status_code == 200
    assert (await client.post(RUN, headers=form)).status_code == 400


@pytest.mark.parametrize(("method", "path"), [("POST", THINGS), ("PUT", DATA), ("DELETE", ROLES)])
async def test_where_something_is_required_an_empty_body_is_400(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await client.request(method, path, headers=JSON)
    assert answer.status_code == 400
    assert "body is empty" in answer.json()["errors"][0]


async def test_the_body_of_a_delete_is_read(client: httpx.AsyncClient) -> None:
    answer = await client.request("DELETE", ROLES, json=["a", "b"])
    assert answer.json()["body"] == ["a", "b"]


async def test_a_body_nobody_asked_for_is_ignored(client: httpx.AsyncClient) -> None:
    assert (await client.request("GET", CHANGE, content=b"{{{", headers=JSON)).status_code == 200
    assert (await client.request("DELETE", CHANGE, content=b"{{{")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        (THINGS, [], "expected an object, got a list."),
        (THINGS, {}, "name: this field is required."),
        (THINGS, {"name": 5}, "name: expected a string, got a whole number."),
        (THINGS, {"name": "x", "wheelCount": "4"}, "wheelCount: expected a whole number, got a string."),
        (SCHEDULE, {"labels": {"a": 1}}, "labels.a: expected a string, got a whole number."),
        (RUN, [], "expected an object, got a list."),
        (RUN, "text", "expected an object, got a string."),
        (RUN, None, "expected an object, got null."),
    ],
)
async def test_a_body_of_the_wrong_types_is_400_naming_the_field(
    client: httpx.AsyncClient, path: str, body: object, complaint: str
) -> None:
    answer = await client.post(path, content=json.dumps(body), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "WrongField")
    assert answer.json()["errors"] == [complaint]


async def test_fields_nobody_knows_are_ignored(client: httpx.AsyncClient) -> None:
    answer = await client.post(THINGS, json={"name": "x", "colour": "red"})
    assert answer.json()["body"] == {"name": "x", "wheelCount": 4}


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": 5}, "name"), ({"parameters": []}, "parameters"), ({"colour": "red"}, "colour"), ([], "errors")],
)
async def test_where_errors_are_by_field_wrong_types_are_too(
    client: httpx.AsyncClient, body: object, field: str
) -> None:
    answer = await client.put(CHANGE, json=body)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert all(isinstance(message, str) for message in answer.json()[field])


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bad"}])
async def test_where_errors_are_by_field_every_error_has_that_form(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.put(CHANGE if headers else f"{CHANGE}0", json={}, headers=headers)
    assert answer.status_code == (401 if headers else 404)
    assert all(isinstance(messages, list) for messages in answer.json().values())


async def test_the_largest_body_is_read_and_one_byte_more_is_413(client: httpx.AsyncClient) -> None:
    largest = b'{"a":"' + b"x" * (JSON_BODY_BYTES - 8) + b'"}'
    assert len(largest) == JSON_BODY_BYTES
    assert (await client.put(DATA, content=largest, headers=JSON)).status_code == 200
    for headers in (JSON, {"Content-Type": "text/plain"}):
        answer = await client.put(DATA, content=largest + b" ", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "TooLarge")


async def test_a_body_of_unknown_length_is_413_beyond_the_bound(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * (JSON_BODY_BYTES // 16)

    answer = await client.put(DATA, content=chunks(), headers=JSON)
    assert answer.status_code == 413


async def test_yaml_arrives_as_its_text_and_leaves_as_yaml(client: httpx.AsyncClient) -> None:
    text = "policies:\n  é: true\n"
    answer = await client.put(TEXT, content=text.encode(), headers={"Content-Type": "application/x-yaml"})
    assert (answer.headers["content-type"], answer.text) == ("application/x-yaml", text)


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml", "text/yaml", ""])
async def test_yaml_of_another_content_type_is_400(client: httpx.AsyncClient, content_type: str) -> None:
    answer = await client.put(TEXT, content=b"a: 1", headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["code"]) == (400, "WrongContentType")


@pytest.mark.parametrize("content", [b"a: \xff", b"a: \x00"])
async def test_yaml_that_no_database_can_keep_is_400(client: httpx.AsyncClient, content: bytes) -> None:
    answer = await client.put(TEXT, content=content, headers={"Content-Type": "application/x-yaml"})
    assert (answer.status_code, answer.json()["code"]) == (400, "MalformedBody")


async def test_yaml_beyond_its_bound_is_413(client: httpx.AsyncClient) -> None:
    answer = await client.put(TEXT, content=b"x" * (MANIFEST_BYTES + 1), headers={"Content-Type": "application/x-yaml"})
    assert answer.status_code == 413


class Inner(msgspec.Struct):
    """A part of a body."""

    size: Literal["small", "large"] = "small"


class Choices(msgspec.Struct):
    """Choices at several places."""

    kind: Literal["one", "two"] | None = None
    events: list[Literal["job", "status"]] = []
    inner: Annotated[Inner, msgspec.Meta(description="A part.")] = msgspec.field(default_factory=Inner)
    by_name: dict[str, Literal["on"]] = {}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"kind": "three"}, "kind: invalid value 'three'; expected one or two."),
        ({"events": ["job", "no"]}, "events[1]: invalid value 'no'; expected job or status."),
        ({"inner": {"size": "huge"}}, "inner.size: invalid value 'huge'; expected large or small."),
        ({"by_name": {"a": "off"}}, "by_name.a: invalid value 'off'; expected on."),
    ],
)
async def test_a_wrong_choice_is_refused_with_the_right_ones(document: Any, told: str) -> None:
    content = json.dumps(document).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": content}

    headers = {"content-type": "application/json", "content-length": str(len(content))}
    with pytest.raises(BadRequest) as caught:
        await read_body(JsonBody(type=Choices), headers, BodyReader(headers, receive), field_errors=False)
    assert caught.value.messages == (told,)


def test_queries_of_all_endpoints_name_the_right_choices() -> None:
    checked = 0
    for row in ENDPOINTS:
        if row.query is None:
            continue
        schema = msgspec.json.schema(row.query)["$defs"][row.query.__name__]
        for name, field in schema["properties"].items():
            parts = [part for part in field.get("anyOf", [field]) if part.get("type") != "null"]
            choices = [str(each) for part in parts for each in part.get("enum", ()) if each is not None]
            if choices and not any("type" in part for part in parts):  # others are checked by their use case
                given = {**dict.fromkeys(schema.get("required", ()), "x"), name: "no-such"}
                query = "&".join(f"{each}={value}" for each, value in given.items()).encode()
                with pytest.raises(BadRequest) as caught:
                    read_query(query, row.query, refuses_unknown=row.extension)
                assert all(each in str(caught.value) for each in choices), (row.operation_id, str(caught.value))
                checked += 1
    assert checked >= 3
