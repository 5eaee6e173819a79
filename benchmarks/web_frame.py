"""What the HTTP frame costs: an authenticated endpoint that does nothing, against bare ASGI, in the same run.

    python benchmarks/web_frame.py [--seconds 3] [--connections 8] [--rounds 3]

Each server is a process of its own under the product's protocol and event loop; the client, in this process, speaks
raw HTTP over keep-alive connections. `bare` is the least that ASGI can do, `starlette` a Starlette route with a JSON
answer, `frame` the product's middleware, routing, authentication seam, encoding and access log (`frame, quiet`: with
the log level above it). CPU is that of the server process: on two cores the client's share of the machine does not
blur it.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import msgspec
import structlog
import uvloop
from starlette import requests as starlette_requests
from starlette import responses as starlette_responses
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.permissions import Actor, Method
from launchbay.limits import MIB
from launchbay.settings import Settings
from launchbay.web.app import create_app
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Response
from launchbay.web.routing import Endpoint
from launchbay.web.server import serve

ID = "0123456789abcdef01234567"
PATH = f"/api/1/things/{ID}"
VALUE = {"id": ID, "name": "thing"}
BODY = msgspec.json.encode({"environmentId": ID, "instanceName": "x", "parameters": {"a.b": "1", "a.c": ["x", "y"]}})


async def bare(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    body = msgspec.json.encode(VALUE)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _starlette_thing(_: starlette_requests.Request) -> starlette_responses.JSONResponse:
    return starlette_responses.JSONResponse(VALUE)


async def _thing(_: Request[None, None]) -> Response:
    return JSONResponse(VALUE)


class _Authenticator:
    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        assert headers["authorization"]
        return Actor(user_id=ID, email="a@b.example", name="A", address=client_address, method=Method.BEARER)


def _frame() -> ASGIApp:
    row: dict[str, Any] = {
        "path": "/api/1/things/{id}",
        "handler": _thing,
        "summary": "",
        "tags": (),
        "permission": "-",
    }
    rows = (
        Endpoint(method="GET", operation_id="get_thing", **row),
        Endpoint(method="POST", operation_id="post_thing", body=JsonBody(dict[str, Any]), **row),
    )
    services: Any = SimpleNamespace(is_secure=False, base_url="", manifest_bytes=MIB)  # nothing here reaches the others
    return create_app(rows, _Authenticator(), services)


APPS: Mapping[str, Callable[[], Any]] = {
    "bare": lambda: bare,
    "starlette": lambda: Starlette(routes=[Route("/api/1/things/{id}", _starlette_thing, methods=["GET", "POST"])]),
    "frame": _frame,
    "frame, quiet": _frame,
}


def _serve(name: str, pipe: Connection) -> None:
    with Path("/dev/null").open("ab") as sink:
        _configure_logs(name, sink)
        uvloop.run(_serve_until_killed(name, pipe))


async def _serve_until_killed(name: str, pipe: Connection) -> None:
    await serve(APPS[name](), Settings(port=0), asyncio.Event(), started=lambda _, port: pipe.send(port))


def _configure_logs(name: str, sink: BinaryIO) -> None:
    level = logging.WARNING if "quiet" in name else logging.INFO
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=lambda event, **_: msgspec.json.encode(event)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(file=sink),
        cache_logger_on_first_use=True,
    )


async def _connection(port: int, request: bytes, until: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[float] = []
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - started)
    writer.close()
    return times


async def _load(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    until = time.perf_counter() + seconds
    results = await asyncio.gather(*(_connection(port, request, until) for _ in range(connections)))
    return sorted(took for times in results for took in times)


def _cpu_s(pid: int | None) -> float:
    """Return the CPU seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(name: str, method: str, connections: int, seconds: float) -> dict[str, float]:
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(name, theirs), daemon=True)
    process.start()
    port = mine.recv()
    head = (
        f"{method} {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {'t' * 200}\r\nAccept: */*\r\nUser-Agent: b\r\n"
    )
    body = BODY if method == "POST" else b""
    framing = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n" if body else "\r\n"
    request = (head + framing).encode() + body
    uvloop.run(_load(port, request, connections, 0.5))
    before = _cpu_s(process.pid)
    times = uvloop.run(_load(port, request, connections, seconds))
    after = _cpu_s(process.pid)
    process.kill()
    process.join()
    return {
        "per_second": round(len(times) / seconds),
        "p99_ms": round(times[len(times) * 99 // 100] * 1000, 2),
        "cpu_us": round((after - before) / len(times) * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for method in ("GET", "POST"):
        best: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for name in APPS:
                found = _measure(name, method, options.connections, options.seconds)
                if name not in best or found["cpu_us"] < best[name]["cpu_us"]:
                    best[name] = found
        for name, found in best.items():
            ratio = round(found["cpu_us"] / best["bare"]["cpu_us"], 2)
            print(json.dumps({"method": method, "app": name, **found, "cpu_ratio_to_bare": ratio}))


if __name__ == "__main__":
    main()
