"""A name for every request: in the answer, in the error body, in every log line written meanwhile."""

import re

from structlog.contextvars import bind_contextvars

from launchbay.ids import new_id
from launchbay.web.asgi import App, Message, Receive, Scope, Send

_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Takes a sane `X-Request-Id` of the client or of a proxy, makes one otherwise, and answers with it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the id into `scope["state"]["request_id"]` and into the answer's headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        if _SANE.fullmatch(request_id) is None:
            request_id = new_id().encode()
        text = request_id.decode()
        scope.setdefault("state", {})["request_id"] = text
        bind_contextvars(request_id=text)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-request-id", request_id))
            await send(message)

        await self._app(scope, receive, send_with_id)
