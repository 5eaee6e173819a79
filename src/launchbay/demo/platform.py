"""The service that the sample application calls: a pretend hosting platform that answers over real HTTP.

It stands for whatever a platform team runs. `python -m launchbay.demo.platform [PORT]` serves it on that port of
127.0.0.1, or on a free one where it is taken or not given, and prints the address.
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
        """Make or change a deployment."""
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
        """Tell how a deployment is; it takes a moment to come up."""
        wanted = request.path_params["id"]
        found = next((entry for entry in self._deployments.values() if entry["id"] == wanted), None)
        if found is None:
            return JSONResponse({"error": f"there is no deployment {wanted}"}, 404)
        if time.monotonic() < self._ready_at_s[wanted]:
            return JSONResponse({"error": f"{wanted} is still starting"}, 503)
        return JSONResponse(found)

    async def remove(self, request: Request) -> JSONResponse:
        """Take a deployment away; one that is gone already is fine."""
        self._deployments.pop(request.path_params["name"], None)
        return JSONResponse({})

    async def route(self, request: Request) -> JSONResponse:
        """Publish a path."""
        wanted = await request.json()
        return JSONResponse({"url": f"{self._url}{wanted['path']}", "target": wanted["target"]})

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/deployments", self.deploy, methods=["POST"]),
                Route("/deployments/{id}/health", self.health),
                Route("/deployments/{name}", self.remove, methods=["DELETE"]),
                Route("/routes", self.route, methods=["POST"]),
            ]
        )


def main() -> None:
    """Serve until terminated."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(Platform(url).app(), log_level="warning"))
        print(url, flush=True)  # noqa: T201 - whoever started this process reads the address
        asyncio.run(server.serve([listener]))


if __name__ == "__main__":
    main()
