"""One log line for each request, and its place in the metrics: who asked for what, and how it ended.

Never the query, which may be private, and never the secret that a link to a page may have in its path (promise 10).
"""

import time

import structlog

from launchbay.telemetry import metrics
from launchbay.web.asgi import App, Message, Receive, Scope, Send

_SECRET_BELOW = b"/invitation/"
_log = structlog.get_logger("launchbay.access_log")


class AccessLog:
    """Logs every request when it has been answered, and notes in the state that an answer has begun."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
                "request",
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
    # Also where it stands in another place than the table knows, such as below a prefix that a proxy left in.
    before, secret, _ = raw_path.partition(_SECRET_BELOW)
    return (before + secret + b"..." if secret else raw_path).decode("latin-1")
