"""`/mcp`: the Model Context Protocol, behind the checks of the API.

Its tools call the API of this process.

The endpoint has no rights of its own: each call of a tool is a request with the same credentials, which is
authenticated, counted, checked and logged as if it had come over the network.
"""

import asyncio
from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from launchbay.concurrency import cancel_all
from launchbay.errors import NotAllowed, NotFound
from launchbay.limits import JSON_BODY_BYTES
from launchbay.web.problems import MethodNotAllowed
from launchbay.web.requests import BodyReader, header_map
from launchbay.web.responses import until_disconnect

PATH = "/mcp"


def _is_same_host(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # such as an address in brackets that isn't closed
        return False


class _HttpServer(Protocol):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def close(self) -> None: ...


class Mcp:
    """Answers requests of the protocol.

    The package is loaded with the first one: a server without them needs neither its time nor its memory.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._server: _HttpServer | None = None
        self._loading = asyncio.Lock()

    async def answer(self, api: ASGIApp, scope: Scope, receive: Receive, body: BodyReader, send: Send) -> None:
        """Answer a request whose sender is known. `api` is what the tools call.

        Raises MethodNotAllowed, NotAllowed for a page of another origin, NotFound without the package, TooLarge.
        """
        if scope["method"] != "POST":
            # No session, so there is no stream to read and nothing to end.
            raise MethodNotAllowed(scope["method"], ("POST",))
        headers = header_map(scope["headers"])
        origin = headers.get("origin")
        if origin is not None and not _is_same_host(origin, headers.get("host", "")):
            raise NotAllowed("Pages of other servers may not call this one.", "Call it from a program.")
        data = await body.read(JSON_BODY_BYTES)
        messages: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive_again() -> Message:
            return messages.pop() if messages else await receive()

        server = await self._loaded(api)
        address = self._base_url or f"{scope['scheme']}://{headers.get('host', '')}"
        scope["state"]["console"] = f"{address.rstrip('/')}/console"
        gone = scope["state"]["gone"] = asyncio.create_task(until_disconnect(receive))
        try:
            await server(scope, receive_again, send)
        finally:
            await cancel_all((gone,))

    async def _loaded(self, api: ASGIApp) -> _HttpServer:
        async with self._loading:
            if self._server is None:
                try:
                    module = await asyncio.to_thread(import_module, "launchbay.mcp.server")
                except ImportError as error:
                    raise NotFound(
                        f"This server doesn't speak MCP: {error}.",
                        "Its administrator can run pip install 'launchbay[mcp]'.",
                        code="McpMissing",
                    ) from error
                self._server = module.HttpServer(api, JSON_BODY_BYTES)
            return self._server

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
