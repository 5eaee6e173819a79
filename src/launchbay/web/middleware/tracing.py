"""A span for every request, on the trace that the client names in `traceparent` (W3C Trace Context)."""

from launchbay.telemetry.tracing import tracing
from launchbay.web.asgi import App, Message, Receive, Scope, Send


class Tracing:
    """Traces requests while traces go anywhere."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request inside its span."""
        if scope["type"] != "http" or not tracing.is_on:
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
