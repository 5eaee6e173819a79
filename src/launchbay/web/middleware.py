"""ASGI middleware: request IDs, access log with metrics, security headers, traces.

The log never contains queries, which may be private, nor the token in the path of an invitation (promise 10).
"""

import re
import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from launchbay.ids import new_id
from launchbay.telemetry import metrics
from launchbay.telemetry.tracing import tracing

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
                status = message["status"]
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


class SecurityHeaders:
    """Adds the strictest headers, unless the response sets its own (pages need their scripts)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                present = {name for name, _ in headers}
                headers.extend(header for header in _HEADERS if header[0] not in present)
            await send(message)

        await self._app(scope, receive, send_with_headers)


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
