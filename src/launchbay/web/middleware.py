"""What surrounds every request: request IDs, access log with metrics, security headers, accepted hosts, traces.

The log never contains queries, which may be private, nor the token in the path of an invitation (promise 10).
"""

import logging
import re
import time
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from launchbay.ids import new_id
from launchbay.telemetry import metrics
from launchbay.telemetry.tracing import tracing
from launchbay.web.problems import plain_problem

_SECRET_BELOW = b"/invitation/"
_log = structlog.get_logger("launchbay.access_log")


class _Noted:
    """Sends the answer of a request, and logs and measures it.

    It adds headers that the answer doesn't set itself.
    """

    __slots__ = ("_headers", "_scope", "_send", "_started_s", "_status")

    def __init__(self, scope: Scope, send: Send, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._scope = scope
        self._send = send
        self._headers = headers
        self._status = 0
        self._started_s = time.perf_counter()

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._status = int(message["status"])  # packages send members of an enumeration, which logs show as such
            self._scope["state"]["answer_started"] = True
            if self._headers:
                headers = message["headers"]
                present = {name for name, _ in headers}
                headers.extend([header for header in self._headers if header[0] not in present])
        return self._send(message)

    def end(self) -> None:
        scope, state = self._scope, self._scope["state"]
        elapsed_s = time.perf_counter() - self._started_s
        if not state.get("is_stream"):
            metrics.requests_of(state.get("operation") or "none", self._status).observe(elapsed_s)
        if not _log.is_enabled_for(logging.INFO):  # what the line says costs more than the measurement
            return
        client = scope.get("client")
        _log.info(
            "http.request",
            method=scope["method"],
            path=_shown(scope.get("raw_path") or scope["path"].encode()),
            operation=state.get("operation"),
            status=self._status,
            ms=round(elapsed_s * 1000, 2),
            user_id=state.get("user_id"),
            address=client[0] if client else "",
            request_id=state["request_id"],
            client_gone=state.get("client_gone", False),
        )


class AccessLog:
    """Logs and measures requests of tools in this process, which don't come through `Entrance`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        noted = _Noted(scope, send)
        try:
            await self._app(scope, receive, noted.send)
        finally:
            noted.end()


def _shown(raw_path: bytes) -> str:
    # Anywhere in the path: a proxy may have left a prefix in.
    before, secret, _ = raw_path.partition(_SECRET_BELOW)
    return (before + secret + b"..." if secret else raw_path).decode("latin-1")


_VALID_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


# A year and all subdomains, as ASVS 5.0 requires (3.4.1).
_ENCRYPTED_ONLY = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")
# Probes and collectors reach a process by an address that no setting knows, and these responses contain no links.
_ANY_HOST = frozenset({"/health/live", "/health/ready", "/metrics"})


class Entrance:
    """What happens to every request, in one layer.

    Five layers around each other cost a tenth of a read. It uses a valid `X-Request-Id` of the client or a proxy, or
    generates one, and returns it in the response. It sets `request_id` and, when the response starts, `answer_started`
    in the state. It logs, measures and traces the request, and adds the strictest headers, unless the response sets its
    own (pages need their scripts). With `encrypted_only`, browsers never use an unencrypted connection to this host
    again.

    It rejects requests whose `Host` is malformed (400; missing and repeated are, too) or names another server (421).
    Without a base URL, links in responses use this header, so that a forged one would make a link to another server.
    `hosts` are the accepted names. Always accepted are the names of this machine for itself, and the address
    where the request arrived. None accepts every well-formed name.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None = None, *, encrypted_only: bool = False) -> None:
        self._app = app
        self._hosts = hosts
        self._headers = (*_HEADERS, _ENCRYPTED_ONLY) if encrypted_only else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Only HTTP gets past it."""
        if scope["type"] != "http":
            return
        request_id = parent = b""
        hosts: list[bytes] = []
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"x-request-id" and not request_id:
                request_id = value
            elif name == b"traceparent" and not parent:
                parent = value
        if _VALID_ID.fullmatch(request_id) is None:
            request_id = new_id().encode()
        text = request_id.decode()
        scope.setdefault("state", {})["request_id"] = text
        bind_contextvars(request_id=text)
        if not tracing.is_on:
            await self._answer(scope, receive, send, request_id, hosts)
            return
        about = {"http.request.method": scope["method"], "launchbay.request_id": text}
        with tracing.span(scope["method"], about, parent.decode("latin-1")) as span:

            async def send_noting_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._answer(scope, receive, send_noting_status, request_id, hosts)
            finally:
                span.update_name(scope["state"].get("operation") or "no operation")

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, request_id: bytes, hosts: Sequence[bytes]
    ) -> None:
        noted = _Noted(scope, send, (*self._headers, (b"x-request-id", request_id)))
        try:
            refused = self._refused(scope, hosts)
            if refused is None:
                await self._app(scope, receive, noted.send)
            else:
                await _send_refusal(refused, scope, noted.send)
        finally:
            noted.end()

    def _refused(self, scope: Scope, hosts: Sequence[bytes]) -> "_Refused | None":
        if not hosts and scope["http_version"] == "1.0":
            return None  # HTTP/1.0 doesn't have the header
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None:
            return _Refused(400, "InvalidHost", "The header Host must occur once, as `name` or `name:port`.")
        if self._hosts is None or name in self._hosts or scope["path"] in _ANY_HOST or _is_here(name, scope):
            return None
        return _Refused(
            421,
            "UnknownHost",
            f"This server isn't known as {name[:100]!r}. Its administrator can set LAUNCHBAY_BASE_URL, or add the name"
            " to LAUNCHBAY_ALLOWED_HOSTS.",
        )


class _Refused(NamedTuple):
    status: int
    code: str
    message: str


async def _send_refusal(refused: _Refused, scope: Scope, send: Send) -> None:
    metrics.refusals.labels(refused.code).inc()
    answer = plain_problem(refused.status, refused.code, refused.message, scope["state"]["request_id"])
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{0,5})?", re.IGNORECASE)


@lru_cache
def _host_name(host: bytes) -> str | None:
    """Return the name in a Host header in lower case, or None if it is malformed."""
    found = _HOST.fullmatch(host)
    return None if found is None else found[1].decode("ascii").strip("[]").rstrip(".").lower()


def _is_here(name: str, scope: Scope) -> bool:
    """Whether the name is a loopback name, or the address at which the connection arrived."""
    server = scope.get("server")
    if name == "localhost" or (server is not None and name == server[0].lower()):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
