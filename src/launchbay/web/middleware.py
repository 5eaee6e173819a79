"""ASGI middleware: request IDs, access log with metrics, security headers, accepted hosts, traces.

The log never contains queries, which may be private, nor the token in the path of an invitation (promise 10).
"""

import re
import time
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


class AccessLog:
    """Logs and measures every request, and sets `answer_started` in the state when its response starts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        status = 0
        started = time.perf_counter()

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])  # packages send members of an enumeration, which logs show as such
                state["answer_started"] = True
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            elapsed_s = time.perf_counter() - started
            if not state.get("is_stream"):
                metrics.requests.labels(state.get("operation") or "none", status).observe(elapsed_s)
            client = scope.get("client")
            _log.info(
                "http.request",
                method=scope["method"],
                path=_shown(scope.get("raw_path") or scope["path"].encode()),
                operation=state.get("operation"),
                status=status,
                ms=round(elapsed_s * 1000, 2),
                user_id=state.get("user_id"),
                address=client[0] if client else "",
                request_id=state["request_id"],
                client_gone=state.get("client_gone", False),
            )


def _shown(raw_path: bytes) -> str:
    # Anywhere in the path: a proxy may have left a prefix in.
    before, secret, _ = raw_path.partition(_SECRET_BELOW)
    return (before + secret + b"..." if secret else raw_path).decode("latin-1")


_VALID_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Uses a valid `X-Request-Id` of the client or a proxy, or generates one, and returns it in the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Set `scope["state"]["request_id"]` and the response header. The outermost: only HTTP gets past it."""
        if scope["type"] != "http":
            return
        request_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        if _VALID_ID.fullmatch(request_id) is None:
            request_id = new_id().encode()
        text = request_id.decode()
        scope.setdefault("state", {})["request_id"] = text
        bind_contextvars(request_id=text)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-request-id", request_id))
            await send(message)

        await self._app(scope, receive, send_with_id)


_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


# A year and all subdomains, as ASVS 5.0 requires (3.4.1).
_ENCRYPTED_ONLY = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")


class SecurityHeaders:
    """Adds the strictest headers, unless the response sets its own (pages need their scripts).

    With `encrypted_only`, browsers never use an unencrypted connection to this host again.
    """

    def __init__(self, app: ASGIApp, *, encrypted_only: bool = False) -> None:
        self._app = app
        self._headers = (*_HEADERS, _ENCRYPTED_ONLY) if encrypted_only else _HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                present = {name for name, _ in headers}
                headers.extend(header for header in self._headers if header[0] not in present)
            await send(message)

        await self._app(scope, receive, send_with_headers)


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{0,5})?", re.IGNORECASE)
# Probes and collectors reach a process by an address that no setting knows, and these responses contain no links.
_ANY_HOST = frozenset({"/health/live", "/health/ready", "/metrics"})


class AcceptedHosts:
    """Rejects requests whose `Host` is malformed (400) or names another server (421).

    Missing and repeated are malformed too.
    Without a base URL, links in responses use this header, so that a forged one would make a link to another server.
    `names` are the accepted names. Always accepted are the names of this machine for itself, and the address
    where the request arrived. None accepts every well-formed name.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str] | None) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
            return
        metrics.refusals.labels(refused.code).inc()
        answer = plain_problem(refused.status, refused.code, refused.message, scope["state"]["request_id"])
        headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
        headers.append((b"content-length", b"%d" % len(answer.body)))
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _refused(self, scope: Scope) -> "_Refused | None":
        sent = [value for name, value in scope["headers"] if name == b"host"]
        if not sent and scope["http_version"] == "1.0":
            return None  # HTTP/1.0 doesn't have the header
        host = _HOST.fullmatch(sent[0].decode("latin-1")) if len(sent) == 1 else None
        if host is None:
            return _Refused(400, "InvalidHost", "The header Host must occur once, as `name` or `name:port`.")
        name = host[1].strip("[]").rstrip(".").lower()
        if self._names is None or name in self._names or scope["path"] in _ANY_HOST or _is_here(name, scope):
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


def _is_here(name: str, scope: Scope) -> bool:
    """Whether the name is a loopback name, or the address at which the connection arrived."""
    server = scope.get("server")
    if name == "localhost" or (server is not None and name == server[0].lower()):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class Tracing:
    """Traces requests if tracing is on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not tracing.is_on:
            await self._app(scope, receive, send)
            return
        state = scope["state"]
        parent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"").decode("latin-1")
        about = {"http.request.method": scope["method"], "launchbay.request_id": state["request_id"]}
        with tracing.span(scope["method"], about, parent) as span:

            async def send_noting_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._app(scope, receive, send_noting_status)
            finally:
                span.update_name(state.get("operation") or "no operation")
