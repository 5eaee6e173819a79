"""A fake hosting platform that the sample application calls over HTTP.

`python -m launchbay.demo.platform [PORT]` serves it on 127.0.0.1 and prints the address. If PORT is omitted or in use,
it uses a free port.
"""

import asyncio
import itertools
import socket
import sys
import time

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

READY_AFTER_S = 2.5


class Platform:
    """Deployments by name, and routes to them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._deployments: dict[str, dict[str, object]] = {}
        self._ready_at_s: dict[str, float] = {}

    async def deploy(self, request: Request) -> JSONResponse:
        wanted = await request.json()
        name = str(wanted["name"])
        found = self._deployments.get(name)
        if found is None:
            found = self._deployments[name] = {"id": f"{name}-{next(self._numbers)}", "articles": 0}
            self._ready_at_s[str(found["id"])] = time.monotonic() + READY_AFTER_S
        found["replicas"] = wanted["replicas"]
        if "articles" in wanted:
            found["articles"] = len(wanted["articles"])
        return JSONResponse({**found, "address": f"{self._url}/deployments/{found['id']}/health"})

    async def health(self, request: Request) -> JSONResponse:
        """Return a deployment, or 503 for `READY_AFTER_S` seconds after it was created."""
        wanted = request.path_params["id"]
        found = next((entry for entry in self._deployments.values() if entry["id"] == wanted), None)
        if found is None:
            return JSONResponse({"error": f"deployment {wanted} not found"}, 404)
        if time.monotonic() < self._ready_at_s[wanted]:
            return JSONResponse({"error": f"{wanted} is still starting"}, 503)
        return JSONResponse(found)

    async def remove(self, request: Request) -> JSONResponse:
        self._deployments.pop(request.path_params["name"], None)
        return JSONResponse({})

    async def route(self, request: Request) -> JSONResponse:
        wanted = await request.json()
        return JSONResponse({"url": f"{self._url}{wanted['path']}", "target": wanted["target"]})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/deployments", self.deploy, methods=["POST"]),
                Route("/deployments/{id}/health", self.health),
                Route("/deployments/{name}", self.remove, methods=["DELETE"]),
                Route("/routes", self.route, methods=["POST"]),
            ]
        )


def main() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(Platform(url).app(), log_level="warning"))
        print(url, flush=True)  # noqa: T201 - the parent process reads the address
        asyncio.run(server.serve([listener]))


if __name__ == "__main__":
    main()
