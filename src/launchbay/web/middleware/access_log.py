"""One log line for each request: who asked for what, and how it ended; never the query, which may be private."""

import time

import structlog

from launchbay.web.asgi import App, Message, Receive, Scope, Send

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
            client = scope.get("client")
            _log.info(
                "request",
                method=scope["method"],
                path=(scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
                operation=state.get("operation"),
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 2),
                user_id=state.get("user_id"),
                address=client[0] if client else "",
                request_id=state["request_id"],
                client_gone=state.get("client_gone", False),
            )
