"""The path below which a proxy serves this server, such as `/launchbay`.

It is what `base_url` has after the host. The application knows nothing of it. This frame takes the path off what comes
in, unless the proxy has done so, and puts it in front of every address that goes out in a header, an HTML page or an
error (decision 0142).
"""

import gzip
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import pairwise
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The attributes of our pages that contain an address. Values of fields are not among them: forms send these back.
ATTRIBUTES = frozenset(
    {
        b"action",
        b"data-base",
        b"data-card",
        b"data-check",
        b"data-glyphs",
        b"data-home",
        b"data-href",
        b"data-impact",
        b"data-script",
        b"formaction",
        b"href",
        b"hx-get",
        b"hx-post",
        b"src",
        b"sse-connect",
    }
)
_ADDRESSES = frozenset({b"content-location", b"hx-location", b"hx-push-url", b"hx-redirect", b"location"})
_OWN_COOKIE = b"launchbay_"
_HOST_ONLY = b"__Host-"
_HTML = b"text/html"
_EVENTS = b"text/event-stream"
_JSON = b"application/json"
_DOCS = b'"docs":"/'  # of the body of an error (problems.py); in a string the quotes would be escaped

Header = tuple[bytes, bytes]


def path_prefix(base_url: str) -> str:
    """Return the path of an address: "", or with a slash at its beginning."""
    return urlsplit(base_url).path.rstrip("/")


def add_to_html(text: bytes, prefix: bytes) -> bytes:
    """Put a path in front of the addresses on this server in HTML.

    In a text, the quotes of an attribute are always escaped, so what this finds is an attribute. Addresses that begin
    with two slashes name another server.
    """
    parts = text.split(b'="/')
    changed = [parts[0]]
    for before, part in pairwise(parts):
        name = before[max(before.rfind(b" "), before.rfind(b"\n")) + 1 :]
        is_own = name in ATTRIBUTES and not part.startswith(b"/")
        changed += (b'="', prefix, b"/", part) if is_own else (b'="/', part)
    return b"".join(changed)


class PathPrefix:
    """Serves an application below a path."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        """Serve below `prefix`, which is not empty."""
        assert path_prefix(f"//host{prefix}") == prefix != "", prefix
        self._app = app
        self._text = prefix
        self._prefix = prefix.encode("ascii")
        # Several servers on one host don't take each other's cookies, although those of TLS all have the path `/`.
        self._mark = self._prefix.replace(b"/", b"~")
        self._pages = re.compile(rb"([a-z]+://[^/?#]*)" + re.escape(self._prefix) + rb"(?=[/?#]|$)", re.IGNORECASE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the prefix or without it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()
        if raw == self._prefix or raw.startswith(self._prefix + b"/"):
            scope["raw_path"] = raw[len(self._prefix) :] or b"/"
            scope["path"] = scope["path"][len(self._text) :] or "/"
        scope["headers"] = [self._received(*each) for each in scope["headers"]]
        await self._app(scope, receive, _Answer(self, scope["method"], send).send)

    def change_of(self, kind: bytes, status: int) -> Callable[[bytes], bytes] | None:
        """Return what adds the path to such a body, or None."""
        if kind.startswith((_HTML, _EVENTS)):
            return self._add_to_html
        return self._add_to_error if status >= 400 and kind.startswith(_JSON) else None

    def _add_to_html(self, text: bytes) -> bytes:
        return add_to_html(text, self._prefix)

    def _add_to_error(self, body: bytes) -> bytes:
        return body.replace(_DOCS, _DOCS[:-1] + self._prefix + b"/")

    def sent(self, headers: Iterable[Header]) -> list[Header]:
        """Return the headers of an answer as browsers get them."""
        return [self._sent(name.lower(), value) for name, value in headers]

    def _received(self, name: bytes, value: bytes) -> Header:
        if name == b"cookie" and _OWN_COOKIE in value:
            return name, self._own_cookies(value)
        if name in {b"referer", b"hx-current-url"}:
            return name, self._pages.sub(rb"\1", value, count=1)
        return name, value

    def _sent(self, name: bytes, value: bytes) -> Header:
        if name in _ADDRESSES and _is_own(value):
            return name, self._prefix + value
        if name == b"link":
            return name, re.sub(rb"<(?=/(?!/))", b"<" + self._prefix, value)
        if name == b"set-cookie":
            return name, self._set_cookie(value)
        return name, value

    def _own_cookies(self, header: bytes) -> bytes:
        """Return the Cookie header as the application set its cookies.

        Those of servers below other paths are left out.
        """
        kept = []
        for pair in header.split(b";"):
            name, equals, value = pair.strip(b" \t").partition(b"=")
            if name.removeprefix(_HOST_ONLY).startswith(_OWN_COOKIE):
                if not name.endswith(self._mark):
                    continue
                name = name.removesuffix(self._mark)
            kept.append(name + equals + value)
        return b"; ".join(kept)

    def _set_cookie(self, header: bytes) -> bytes:
        pair, *attributes = header.split(b"; ")
        name, _, value = pair.partition(b"=")
        if name.removeprefix(_HOST_ONLY).startswith(_OWN_COOKIE):
            pair = name + self._mark + b"=" + value
        if not name.startswith(_HOST_ONLY):  # browsers refuse such a cookie with another path
            attributes = [
                b"Path=" + self._prefix + path.rstrip(b"/") if (path := each.removeprefix(b"Path=")) != each else each
                for each in attributes
            ]
        return b"; ".join((pair, *attributes))


def _is_own(address: bytes) -> bool:
    return address.startswith(b"/") and not address.startswith(b"//")


def _in_gzip(change: Callable[[bytes], bytes], body: bytes) -> bytes:
    return gzip.compress(change(gzip.decompress(body)), mtime=0) if body else body


class _Answer:
    """Sends the answer of a request, with the path in front of its addresses."""

    __slots__ = ("_change", "_frame", "_method", "_rest", "_send", "_start")

    def __init__(self, frame: PathPrefix, method: str, send: Send) -> None:
        self._frame = frame
        self._method = method
        self._send = send
        self._change: Callable[[bytes], bytes] | None = None  # of whole lines of the body
        self._start: Message | None = None  # while the length of the changed body isn't known
        self._rest = b""  # of a line that isn't complete yet

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            return self._begin(message)
        return self._send(message) if self._change is None else self._go_on(message, self._change)

    async def _begin(self, message: Message) -> None:
        headers = self._frame.sent(message["headers"])
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        self._change = self._frame.change_of(kind, message["status"])
        if self._change is not None and (b"content-encoding", b"gzip") in headers:
            self._change = partial(_in_gzip, self._change)  # such pages come whole
        if self._change is not None:
            headers = [header for header in headers if header[0] != b"content-length"]
        started = {**message, "headers": headers}
        if self._change is None or kind.startswith(_EVENTS):
            await self._send(started)
        else:
            self._start = started

    async def _go_on(self, message: Message, change: Callable[[bytes], bytes]) -> None:
        body, goes_on = message.get("body", b""), message.get("more_body", False)
        # An attribute never continues on another line, so whole lines are changed.
        lines, newline, self._rest = (self._rest + body).rpartition(b"\n") if goes_on else (self._rest + body, b"", b"")
        changed = change(lines + newline)
        if self._start is not None:
            started, self._start = self._start, None
            if not goes_on and self._method != "HEAD":
                started["headers"].append((b"content-length", b"%d" % len(changed)))
            await self._send(started)
        if changed or not goes_on:
            await self._send({**message, "body": changed})
