"""The calls as the libraries of old clients write them, byte by byte.

Python's requests, Ruby's Net::HTTP and rest-client, Java's HttpURLConnection and Apache HttpClient, curl.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.manifests import WORKFLOWS
from tests.support.network import RawAnswer, Wire
from tests.support.service import EMAIL, PASSWORD, Api, basic, fresh_name


@dataclass(frozen=True)
class Library:
    """How a library writes a request.

    `before` and `after` are the header lines around those of the call, `authorization` and so on the spelling of these
    names. `form_when_empty` labels an empty POST as a form, as Ruby's and Java's do by themselves.
    """

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    authorization: str = "Authorization"
    content_type: str = "Content-Type"
    content_length: str = "Content-Length"
    json_type: str = "application/json"
    yaml_type: str = "application/x-yaml"
    form_when_empty: bool = False
    chunked: bool = False
    expect: bool = False

    def __str__(self) -> str:
        return self.name


LIBRARIES = [
    Library(
        "requests 1.2",
        before=("Host: launchbay:8080",),
        after=(
            "Accept-Encoding: gzip, deflate, compress",
            "Accept: */*",
            "User-Agent: python-requests/1.2.3 CPython/2.7.5",
        ),
    ),
    Library(
        "requests 2.32",
        before=(
            *("Host: launchbay:8080", "User-Agent: python-requests/2.32.3", "Accept-Encoding: gzip, deflate, br, zstd"),
            *("Accept: */*", "Connection: keep-alive"),
        ),
    ),
    Library(
        "requests with lower-case names",
        before=("host: launchbay", "accept: */*"),
        authorization="authorization",
        content_type="content-type",
        content_length="content-length",
    ),
    Library(
        "Net::HTTP",
        before=("Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "Accept: */*", "User-Agent: Ruby"),
        after=("Connection: close", "Host: launchbay:8080"),
        form_when_empty=True,
    ),
    Library(
        "rest-client",
        before=(
            *("Accept: application/json", "User-Agent: rest-client/2.1.0 (linux x86_64) ruby/2.7.0p0"),
            *("Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "Host: launchbay"),
        ),
        json_type="application/json; charset=utf-8",
        form_when_empty=True,
    ),
    Library(
        "HttpURLConnection",
        before=(
            *("User-Agent: Java/1.8.0_292", "Host: launchbay:8080"),
            *("Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "Connection: keep-alive"),
        ),
        json_type="application/json;charset=UTF-8",
        yaml_type="application/x-yaml;charset=UTF-8",
        form_when_empty=True,
    ),
    Library(
        "HttpURLConnection with chunks",
        before=("User-Agent: Java/11.0.2", "Host: launchbay", "Accept: */*", "Connection: keep-alive"),
        chunked=True,
    ),
    Library(
        "Apache HttpClient",
        before=("Host: launchbay", "Connection: Keep-Alive", "User-Agent: Apache-HttpClient/4.5.13 (Java/1.8.0_292)"),
        after=("Accept-Encoding: gzip,deflate",),
        json_type="application/json; charset=UTF-8",
        expect=True,
    ),
    Library(
        "curl",
        before=("Host: launchbay", "User-Agent: curl/7.29.0", "Accept: */*"),
        authorization="AUTHORIZATION",
        content_type="CONTENT-TYPE",
        json_type='application/json; charset="utf-8"',
    ),
]


class Client:
    """One connection of a library."""

    def __init__(self, library: Library, wire: Wire) -> None:
        self.library = library
        self.wire = wire

    async def call(self, method: str, path: str, body: bytes | None = None, content_type: str = "") -> RawAnswer:
        """Send a request as the library would and return the answer; None is a request without a body."""
        library = self.library
        lines = [f"{method} /api/1/{path} HTTP/1.1", *library.before]
        lines.append(f"{library.authorization}: {basic(EMAIL, PASSWORD)}")
        if body is not None or method == "POST":
            if not body and library.form_when_empty:
                content_type = "application/x-www-form-urlencoded"
            if content_type:
                lines.append(f"{library.content_type}: {content_type}")
        payload = body or b""
        if library.chunked and body:
            lines.append("Transfer-Encoding: chunked")
            half = len(body) // 2
            payload = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part)
            payload += b"0\r\n\r\n"
        elif body is not None or method in {"POST", "PUT"}:
            lines.append(f"{library.content_length}: {len(payload)}")
        if library.expect and payload:
            lines.append("Expect: 100-continue")
        await self.wire.send("\r\n".join([*lines, *library.after, "", ""]).encode())
        if library.expect and payload:
            async with asyncio.timeout(5):
                assert await self.wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        if payload:
            await self.wire.send(payload)
        return await self.wire.answer()

    async def ask(self, method: str, path: str, value: Any = None) -> Any:
        """Send a value as JSON, or nothing, and return the decoded answer of a success."""
        body = None if value is None else json.dumps(value).encode()
        answer = await self.call(method, path, body, "" if value is None else self.library.json_type)
        assert answer.status == 200, (method, path, answer.body)
        assert answer.headers["content-type"] == "application/json"
        return answer.json()


@pytest.fixture(params=LIBRARIES, ids=str)
async def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


async def opened(port: int, library: Library) -> Client:
    return Client(library, await Wire.open(port))


@pytest.mark.slow
async def test_a_whole_life_of_an_instance(port: int, api: Api, library: Library) -> None:
    async def ask(method: str, path: str, value: Any = None) -> Any:
        client = await opened(port, library)
        try:
            return await client.ask(method, path, value)
        finally:
            client.wire.close()

    [organization] = await ask("GET", "organizations")
    created = await ask("POST", f"organizations/{organization['id']}/applications", {"name": fresh_name()})
    application = created["id"]
    client = await opened(port, library)
    answer = await client.call("PUT", f"applications/{application}/manifest", WORKFLOWS.encode(), library.yaml_type)
    assert (answer.status, answer.json()) == (200, {"version": 2})
    client.wire.close()
    launched = await ask(
        "POST", f"applications/{application}/launch", {"instanceName": "old", "label": "Ü", "size": "2"}
    )
    instance = launched["id"]
    assert (await api.settled(instance))["returnValues"] == {"shown": "2 of Ü"}
    assert await ask("POST", f"instances/{instance}/echo", {"text": "hello"}) == {"id": instance}
    assert (await api.settled(instance))["returnValues"] == {"shown": "hello"}
    assert await ask("POST", f"instances/{instance}/echo") == {"id": instance}
    assert (await api.settled(instance))["returnValues"] == {"shown": "nothing"}
    assert await ask("PUT", f"instances/{instance}/userData", {"k": ["v"]}) == {}
    wanted = {"interval": "3600000", "parameters": {}}
    scheduled = await ask("POST", f"instances/{instance}/echo/schedule", wanted)
    assert await ask("POST", f"instances/{instance}/{scheduled['id']}/reschedule", {"interval": "0"}) == {}
    assert await ask("GET", f"instances/{instance}/schedules?") == {"schedules": []}
    assert [row["id"] for row in await ask("GET", f"applications/{application}/instances?")] == [instance]
    await ask("POST", f"instances/{instance}/destroy", {})
    assert (await api.settled(instance))["status"] == "Destroyed"
    assert await ask("DELETE", f"instances/{instance}?force=1") == {}


async def test_a_launch_and_a_run_with_an_empty_body(port: int, api: Api, library: Library) -> None:
    application = await api.application()
    for _ in range(2):
        client = await opened(port, library)
        answer = await client.call("POST", f"applications/{application}/launch")
        assert answer.status == 200, answer.body
        instance = answer.json()["id"]
        client.wire.close()
    await api.settled(instance)
    client = await opened(port, library)
    answer = await client.call("POST", f"instances/{instance}/destroy")
    assert answer.json() == {"id": instance}
    client.wire.close()


@pytest.mark.parametrize(
    "library", [each for each in LIBRARIES if "Connection: close" not in each.after], ids=str, indirect=True
)
async def test_a_refusal_leaves_the_connection_usable(port: int, api: Api, library: Library) -> None:
    client = await opened(port, library)
    instance = await api.running(None)
    for _ in range(2):
        answer = await client.call("POST", f"instances/{instance}/fly", b"{}", library.json_type)
        assert (answer.status, answer.json()["code"]) == (400, "UnknownWorkflow")
        answer = await client.call("POST", f"instances/{instance}/launch", b"{", library.json_type)
        assert (answer.status, answer.json()["code"]) == (400, "MalformedBody")
        assert (await client.ask("GET", f"instances/{instance}"))["status"] == "Running"
    client.wire.close()


async def test_a_form_is_never_taken_for_json(port: int, api: Api, library: Library) -> None:
    application = await api.application()
    client = await opened(port, library)
    form = "application/x-www-form-urlencoded"
    answer = await client.call("POST", f"applications/{application}/launch", b"version=1", form)
    assert (answer.status, answer.json()["code"]) == (400, "WrongContentType")
    client.wire.close()


@pytest.mark.parametrize(
    "target",
    [
        "/api/1/organizations",
        "/api/1/organizations?",
        "http://launchbay/api/1/organizations",
        "/api/1/organizations?x=%20",
    ],
)
async def test_the_address_may_be_written_in_several_ways(port: int, target: str) -> None:
    wire = await Wire.open(port)
    await wire.send(
        f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic(EMAIL, PASSWORD)}\r\n\r\n".encode()
    )
    answer = await wire.answer()
    assert (answer.status, [row["name"] for row in answer.json()]) == (200, ["Default"])
    wire.close()


async def test_http_1_0_is_answered_and_closed(port: int) -> None:
    wire = await Wire.open(port)
    await wire.send(f"GET /api/1/organizations HTTP/1.0\r\nAuthorization: {basic(EMAIL, PASSWORD)}\r\n\r\n".encode())
    answer = await wire.answer()
    assert answer.status == 200
    assert await wire.ended()


async def test_ruby_sends_nested_query_brackets_and_they_are_ignored(port: int, api: Api) -> None:
    application = await api.application()
    wire = await Wire.open(port)
    target = f"/api/1/applications/{application}/instances?filter[status]=Running&ids[]=1"
    await wire.send(
        f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic(EMAIL, PASSWORD)}\r\n\r\n".encode()
    )
    assert (await wire.answer()).json() == []
    wire.close()
