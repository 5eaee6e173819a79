"""Below a path: what comes in loses it, and every address that goes out has it."""

import gzip
import json
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.console.app import served_by_console
from launchbay.errors import CannotStart
from launchbay.settings import OWN_SEGMENTS, Settings
from launchbay.web.path_prefix import PathPrefix, add_to_html
from tests.support.served import ENDPOINTS, PAGES

PREFIX = "/tools/bay"


class Echo:
    """An application that answers what it is told to, and keeps what it was asked."""

    def __init__(self, *bodies: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.bodies = bodies
        self.status = status
        self.headers = list((headers or {"content-type": "text/html; charset=utf-8"}).items())
        self.scope: Scope = {}
        self.sent = 0

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        self.scope = scope
        raw = [(name.encode(), value.encode()) for name, value in self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        for number, body in enumerate(self.bodies, 1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(self.bodies)})


async def asked(app: ASGIApp, path: str = PREFIX, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(PathPrefix(app, PREFIX))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=transport, base_url="https://bay.example.org") as client:
        return await client.request(method, path, headers=sent)


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (f"{PREFIX}/console", "/console"),
        (f"{PREFIX}/", "/"),
        (PREFIX, "/"),
        (f"{PREFIX}/api/1/x%2Fy", "/api/1/x/y"),
        ("/console", "/console"),  # the proxy has taken it off, or a probe asks the server itself
        ("/tools/bays", "/tools/bays"),
        (f"{PREFIX}{PREFIX}", PREFIX),
    ],
)
async def test_a_path_is_that_of_the_application(sent: str, seen: str) -> None:
    app = Echo(b"")
    await asked(app, sent)
    assert app.scope["path"] == seen


async def test_an_encoded_path_stays_as_it_was_sent() -> None:
    app = Echo(b"")
    await asked(app, f"{PREFIX}/api/1/x%2Fy")
    assert app.scope["raw_path"] == b"/api/1/x%2Fy"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ('<a href="/console">', '<a href="/p/console">'),
        ('<form method="post"\naction="/">', '<form method="post"\naction="/p/">'),
        ('<a href="//other.example/x">', '<a href="//other.example/x">'),
        ('<a href="https://other.example/x">', '<a href="https://other.example/x">'),
        ('<input value="/console">', '<input value="/console">'),
        ('<button formaction="/a" value="/b" hx-get="/c">', '<button formaction="/p/a" value="/b" hx-get="/p/c">'),
        ("<p>href=&#34;/console&#34;</p>", "<p>href=&#34;/console&#34;</p>"),
        ('<path d="M1">', '<path d="M1">'),
        ("", ""),
    ],
)
def test_addresses_in_pages_get_the_path(text: str, changed: str) -> None:
    assert add_to_html(text.encode(), b"/p").decode() == changed


@pytest.mark.parametrize("cut", range(1, 40))
async def test_a_page_in_two_parts_is_changed_as_a_whole(cut: int) -> None:
    whole = b'<a href="/console">\n<img src="/x">\n<p>'
    answer = await asked(Echo(whole[:cut], whole[cut:]))
    assert answer.text == f'<a href="{PREFIX}/console">\n<img src="{PREFIX}/x">\n<p>'


async def test_the_length_is_that_of_the_changed_page() -> None:
    page = b'<a href="/console">'
    headers = {"content-type": "text/html", "content-length": str(len(page))}
    answer = await asked(Echo(page, headers=headers))
    assert int(answer.headers["content-length"]) == len(answer.content) == len(page) + len(PREFIX)
    assert "content-length" not in (await asked(Echo(b"", headers=headers), method="HEAD")).headers


async def test_a_compressed_page_is_changed_and_compressed_again() -> None:
    headers = {"content-type": "text/html", "content-encoding": "gzip"}
    page = b'<a href="/docs/index">Documentation</a>'
    answer = await asked(Echo(gzip.compress(page), headers=headers))
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == b'<a href="/tools/bay/docs/index">Documentation</a>'


async def test_lines_of_a_stream_go_on_at_once() -> None:
    events = {"content-type": "text/event-stream"}
    parts: list[bytes] = []

    async def send(message: Any) -> None:
        parts.append(message.get("body", b"start"))

    app = Echo(b'event: x\ndata: <a href="/a">\n\n', b":\n\n", b"", headers=events)
    await PathPrefix(app, PREFIX)({"type": "http", "method": "GET", "path": "/", "headers": []}, None, send)  # type: ignore[arg-type]  # nothing is received
    assert parts == [b"start", f'event: x\ndata: <a href="{PREFIX}/a">\n\n'.encode(), b":\n\n", b""]


async def test_only_the_explanation_of_an_error_has_an_address_in_json() -> None:
    body = json.dumps({"errors": ['"docs":"/x"'], "docs": "/docs/codes/NotFound"}, separators=(",", ":")).encode()
    kind = {"content-type": "application/json"}
    refused = await asked(Echo(body, status=404, headers=kind))
    assert refused.json() == {"errors": ['"docs":"/x"'], "docs": f"{PREFIX}/docs/codes/NotFound"}
    assert (await asked(Echo(body, headers=kind))).content == body  # a document of somebody's


@pytest.mark.parametrize(
    ("name", "sent", "changed"),
    [
        ("location", "/console", f"{PREFIX}/console"),
        ("location", "https://login.example.org/authorize", "https://login.example.org/authorize"),
        ("location", "//other.example", "//other.example"),
        ("hx-redirect", "/console", f"{PREFIX}/console"),
        ("content-location", "/api/1/x", f"{PREFIX}/api/1/x"),
        ("link", '</api/1/x?page=2>; rel="next"', f'<{PREFIX}/api/1/x?page=2>; rel="next"'),
        ("etag", '"/x"', '"/x"'),
    ],
)
async def test_headers_with_addresses_get_the_path(name: str, sent: str, changed: str) -> None:
    assert (await asked(Echo(b"", headers={name: sent}))).headers[name] == changed


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ("launchbay_session=a; Path=/; HttpOnly", f"launchbay_session~tools~bay=a; Path={PREFIX}; HttpOnly"),
        ("launchbay_flash=a; Path=/console", f"launchbay_flash~tools~bay=a; Path={PREFIX}/console"),
        # Browsers want exactly this path of it, so its name has the path alone.
        ("__Host-launchbay_session=a; Path=/; Secure", "__Host-launchbay_session~tools~bay=a; Path=/; Secure"),
        ("PLAY_SESSION=a; Path=/", f"PLAY_SESSION=a; Path={PREFIX}"),
    ],
)
async def test_cookies_are_of_the_path(sent: str, changed: str) -> None:
    answer = await asked(Echo(b"", headers={"set-cookie": sent}))
    assert answer.headers["set-cookie"] == changed


async def test_a_server_gets_its_own_cookies_and_those_of_no_other_path() -> None:
    app = Echo(b"")
    brought = (
        "x=1; __Host-launchbay_session~tools~bay=mine; __Host-launchbay_session~other=b; __Host-launchbay_session=c"
    )
    await asked(app, cookie=brought)
    assert dict(app.scope["headers"])[b"cookie"] == b"x=1; __Host-launchbay_session=mine"


async def test_pages_that_a_browser_comes_from_lose_the_path() -> None:
    app = Echo(b"")
    page = f"https://bay.example.org{PREFIX}/console/instances?q=1"
    await asked(app, referer=page, hx_current_url=page)
    headers = dict(app.scope["headers"])
    assert headers[b"referer"] == headers[b"hx-current-url"] == b"https://bay.example.org/console/instances?q=1"


@pytest.mark.features("documentation")
def test_no_path_begins_like_one_of_the_servers_own() -> None:
    own = {path.split("/")[1] for path in (*(each.path for each in ENDPOINTS), *(page.path for page in PAGES))}
    assert own - {"", ".well-known"} <= set(OWN_SEGMENTS)  # no segment of an address begins with a dot
    assert {"mcp", "metrics", "docs"} <= set(OWN_SEGMENTS)
    assert served_by_console(PAGES)("/docs/index")
    for segment in OWN_SEGMENTS:
        with pytest.raises(CannotStart, match=r"can't begin with one of the server's own"):
            Settings(base_url=f"https://bay.example.org/{segment}/x")


@pytest.mark.parametrize("path", ["/a b", "/a%20b", "/\u00fc", "//a", "/a//b", "/../a", '/a"b', "/a;b", "/a~b"])
def test_a_path_that_needs_encoding_stops_the_start(path: str) -> None:
    with pytest.raises(CannotStart, match="its path may have letters"):
        Settings(base_url=f"https://bay.example.org{path}")
