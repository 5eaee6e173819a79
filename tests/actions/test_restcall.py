import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.actions.restcall import RestCall
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from tests.support.contexts import RecordingContext, run
from tests.support.network import LoopbackServer, Received, answer, loopback_server, redirect

pytestmark = pytest.mark.anyio

FORM = "application/x-www-form-urlencoded"
CONTROLS = "".join(chr(code) for code in range(32)) + "\x7f"
JSON = ("Content-Type", "application/json; charset=utf-8")


async def sent(server: LoopbackServer, **parameters: Any) -> Received:
    await run(RestCall(), command=server.url(), **parameters)
    return server.received[-1]


async def test_a_url_alone_is_a_get_and_gives_content_status_and_headers() -> None:
    async with loopback_server() as server:
        server.routes["/a"] = answer(201, b'{"a": [1, "\xc3\xbc"]}', [JSON, ("X-One", "1"), ("X-One", "2")])
        context = RecordingContext()

        outputs = await run(RestCall(), context, command=server.url("/a"))

        assert outputs["content"] == {"a": [1, "ü"]}
        assert outputs["status"] == 201
        assert outputs["headers"]["x-one"] == "1, 2"
        assert json.loads(json.dumps(outputs)) == outputs
        received = server.received[0]
        assert (received.method, received.target, received.body) == ("GET", "/a", b"")
        assert "idempotency-key" not in received.headers
        assert context.lines == [("info", f"GET {server.url('/a')}: 201, 16 bytes, 0 ms.")]


@pytest.mark.parametrize(
    ("content_type", "body", "content"),
    [
        ("application/json", b"[1]", [1]),
        ("application/problem+json", b'{"a": null}', {"a": None}),
        ("APPLICATION/JSON", b"7", 7),
        ("application/json", b"", ""),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b"[NaN]", "[NaN]"),
        ("application/json", b"[" * 100, "[" * 100),
        ("application/json", b'"\\u0000\\ud800"', "\ufffd\ufffd"),
        ("text/plain", b"[1]", "[1]"),
        ("text/plain; charset=latin-1", b"\xfc", "ü"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("text/plain", b"\xff\x00", "\ufffd\ufffd"),
        ("", b"hello", "hello"),
    ],
)
async def test_content_is_the_value_where_it_is_json_and_else_the_text(
    content_type: str, body: bytes, content: Any
) -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(body=body, headers=[("Content-Type", content_type)])

        assert (await run(RestCall(), command=server.url()))["content"] == content


async def test_a_large_json_answer_is_parsed() -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(body=json.dumps(list(range(50_000))).encode(), headers=[JSON])

        assert (await run(RestCall(), command=server.url()))["content"][-1] == 49_999


@pytest.mark.parametrize("method", ["POST", "put", "Patch", "DELETE"])
async def test_what_changes_something_carries_the_steps_idempotency_key(method: str) -> None:
    async with loopback_server() as server:
        received = await sent(server, method=method)

        assert received.method == method.upper()
        assert received.headers["idempotency-key"] == RecordingContext().idempotency_key


async def test_an_idempotency_key_of_the_manifest_wins() -> None:
    async with loopback_server() as server:
        received = await sent(server, method="POST", headers={"Idempotency-Key": "own"})

        assert received.headers["idempotency-key"] == "own"


@pytest.mark.parametrize(
    ("parameters", "content_type", "body"),
    [
        ({"body": {"a": [1, "ü"]}}, "application/json", '{"a":[1,"ü"]}'),
        ({"body": [1, None]}, "application/json", "[1,null]"),
        ({"body": 7}, "application/json", "7"),
        ({"body": {"a": 1}, "contentType": "application/vnd.x+json"}, "application/vnd.x+json", '{"a":1}'),
        ({"body": {"a": 1}, "headers": {"Content-Type": "application/json"}}, "application/json", '{"a":1}'),
        ({"body": "text ü"}, "text/plain; charset=utf-8", "text ü"),
        ({"body": '{"a":1}', "contentType": "application/json"}, "application/json", '{"a":1}'),
        ({"body": "a=1", "contentType": FORM}, FORM, "a=1"),
        ({"body": "", "contentType": "a/b"}, "a/b", ""),
        ({"headers": {"content-type": "x/y"}, "contentType": "a/b", "body": "t"}, "a/b", "t"),
    ],
)  # fmt: skip
async def test_the_body_is_written_as_its_content_type_says(
    parameters: dict[str, Any], content_type: str, body: str
) -> None:
    async with loopback_server() as server:
        received = await sent(server, method="POST", **parameters)

        assert received.headers["content-type"] == content_type
        assert received.body.decode() == body


async def test_a_map_becomes_a_form_when_the_content_type_says_so() -> None:
    async with loopback_server() as server:
        received = await sent(
            server,
            method="POST",
            contentType="application/x-www-form-urlencoded; charset=utf-8",
            body={"a b": "ü&=", "n": 1, "t": True, "none": None, "many": ["x", "y"]},
        )

        fields = parse_qsl(received.body.decode("ascii"), keep_blank_values=True)
        assert fields == [("a b", "ü&="), ("n", "1"), ("t", "true"), ("none", ""), ("many", "x"), ("many", "y")]


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"username": "me", "password": "p:ü"}, "Basic " + base64.b64encode("me:p:ü".encode()).decode()),
        ({"user": "me", "password": ""}, "Basic " + base64.b64encode(b"me:").decode()),
        ({"token": "t0k"}, "Bearer t0k"),
        ({}, None),
        (None, None),
    ],
)
async def test_auth_becomes_the_authorization_header(auth: Any, header: str | None) -> None:
    async with loopback_server() as server:
        assert (await sent(server, auth=auth)).headers.get("authorization") == header


async def test_header_values_may_be_numbers_and_booleans() -> None:
    async with loopback_server() as server:
        received = await sent(server, headers={"X-N": 1, "X-B": True})

        assert (received.headers["x-n"], received.headers["x-b"]) == ("1", "true")


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"command": None}, "'command' is missing"),
        ({"command": ["x"]}, "'command' is wrong"),
        ({"command": ""}, "'command' is wrong"),
        ({"command": "no url"}, "must start with http"),
        ({"command": "ftp://127.0.0.1/"}, "must start with http"),
        ({"method": ["GET"]}, "'method' is wrong"),
        ({"method": "GE T"}, "Unsupported HTTP method"),
        ({"timeout": "soon"}, "'timeout' is wrong"),
        ({"timeout": limits.EGRESS_TIMEOUT_LONGEST_S + 1}, "'timeout' is wrong"),
        ({"headers": ["X: 1"]}, "'headers' is wrong"),
        ({"headers": {"X": ["1"]}}, r"'headers\.X' is wrong"),
        ({"headers": {"X": "s3cret\n"}}, "Header 'x'"),
        ({"headers": {"Host": "x"}}, "header 'host'"),
        ({"contentType": {}}, "'contentType' is wrong"),
        ({"auth": "me:s3cret"}, "'auth' is wrong"),
        ({"auth": {"username": "me"}}, "'auth' is wrong"),
        ({"auth": {"username": "a:b", "password": "s3cret"}}, "'auth' is wrong"),
        ({"auth": {"password": "s3cret"}}, "'auth' is wrong"),
        ({"body": {"a": 1}, "contentType": "text/xml"}, "'body' is wrong: expected a string, .* text/xml"),
        ({"body": [1], "contentType": FORM}, "'body' is wrong"),
        ({"body": {"a": {}}, "contentType": FORM}, r"'body\.a' is wrong"),
        ({"body": [float("inf")]}, "'body' is wrong"),
        ({"expectedStatus": []}, "'expectedStatus' is wrong"),
        ({"expectedStatus": "ok"}, "'expectedStatus' is wrong"),
        ({"expectedStatus": [200, 99]}, "'expectedStatus' is wrong"),
    ],
)  # fmt: skip
async def test_a_wrong_parameter_fails_before_any_connection_and_without_the_secret(
    parameters: dict[str, Any], named: str
) -> None:
    async with loopback_server() as server:
        with pytest.raises(ActionFailed, match=named) as failed:
            await run(RestCall(), **{"command": server.url(), "method": "POST", **parameters})

        assert not failed.value.retryable
        assert "s3cret" not in str(failed.value)
        assert server.connections == 0


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((400, False), (401, False), (404, False), (408, True), (409, False), (425, True), (429, True), (499, False)),
        *((500, True), (503, True), (304, False)),
    ],
)
async def test_a_failing_status_fails_the_step_with_status_and_start_of_the_body(
    status: int, *, retryable: bool
) -> None:
    async with loopback_server() as server:
        server.routes["/a"] = answer(status, b"because " + b"x" * 10_000)

        with pytest.raises(ActionFailed) as failed:
            await run(RestCall(), command=server.url("/a?token=s3cret"), method="POST")

        assert failed.value.retryable is retryable
        assert str(failed.value).startswith(f"POST {server.url('/a')} returned {status}")
        assert len(str(failed.value)) < 700
        assert "s3cret" not in str(failed.value)


async def test_the_message_of_a_failure_holds_what_the_other_side_said() -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(422, b"name is taken\n")

        with pytest.raises(ActionFailed, match=r"422 Unprocessable \w+: name is taken$"):
            await run(RestCall(), command=server.url())


async def test_a_body_of_many_lines_is_one_line_in_the_message() -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(404, b"<html>\n  <body>\r\n    <p>No such berth.</p>\n  </body>\n</html>\n")

        with pytest.raises(ActionFailed) as failed:
            await run(RestCall(), command=server.url())

        assert str(failed.value).endswith("404 Not Found: <html> <body> <p>No such berth.</p> </body> </html>")


@pytest.mark.parametrize(
    ("expected", "status", "succeeds"),
    [
        (404, 404, True),
        ("404", 404, True),
        ([200, "404"], 404, True),
        ([200, 404], 201, False),
        (404, 200, False),
    ],
)
async def test_expected_statuses_take_the_place_of_2xx(expected: Any, status: int, *, succeeds: bool) -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(status)

        if succeeds:
            assert (await run(RestCall(), command=server.url(), expectedStatus=expected))["status"] == status
        else:
            with pytest.raises(ActionFailed, match=str(status)):
                await run(RestCall(), command=server.url(), expectedStatus=expected)


async def test_a_forbidden_address_fails_the_step_with_the_remedy() -> None:
    async with loopback_server() as server:
        context = RecordingContext(egress=EgressClient())

        with pytest.raises(ActionFailed, match=r"127\.0\.0\.1 is refused.*the setting outgoing_allow") as failed:
            await run(RestCall(), context, command=server.url())

        assert not failed.value.retryable
        assert server.connections == 0


async def test_nobody_listening_is_worth_another_attempt() -> None:
    async with loopback_server() as server:
        url = server.url()

    with pytest.raises(ActionFailed, match="Can't reach") as failed:
        await run(RestCall(), command=url)

    assert failed.value.retryable


async def test_the_timeout_of_the_step_counts() -> None:
    async def silent(_received: Received, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with loopback_server() as server:
        server.routes["/"] = silent

        with pytest.raises(ActionFailed, match=r"after 0\.2 s") as failed:
            await run(RestCall(), command=server.url(), timeout="200 ms")

        assert failed.value.retryable


async def test_a_redirected_answer_is_the_content() -> None:
    async with loopback_server() as server:
        server.routes["/a"] = redirect("/b")

        assert (await run(RestCall(), command=server.url("/a")))["content"] == "hello"


@given(
    st.text(st.characters(codec="latin-1", exclude_characters=CONTROLS), max_size=60),
    st.binary(max_size=200),
    st.sampled_from([200, 204, 404]),
)
async def test_any_answer_gives_outputs_that_can_be_kept_or_fails_the_step(
    content_type: str, body: bytes, status: int
) -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(
            status, b"" if status == 204 else body, [("Content-Type", content_type), ("X-A", content_type)]
        )

        try:
            outputs = await run(RestCall(), command=server.url())
        except ActionFailed:
            assert status == 404
        else:
            assert "\x00" not in json.dumps(outputs, ensure_ascii=False).encode("utf-8").decode()
