"""How long one call keeps the event loop from everything else.

    measured = await called(api.parts.app, "GET", "/api/1/organizations", api.authorization)
    assert measured.blocked_ms < 50

Time is the CPU time of this process, on all its threads: other programs on a busy machine don't count, and a thread
that holds the interpreter's lock does. It is converted to the milliseconds of a quiet machine by a loop in Python,
which is timed right after the call: other programs slow this one through caches and the clock rate too.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

_LOOP_ROUNDS = 400_000
_LOOP_MS = 11.0  # that the loop takes on the machine of the limits
_TICK_S = 0.001


@dataclass(frozen=True, slots=True)
class Call:
    """The outcome of a call. `blocked_ms` is the longest time in which nothing else ran."""

    status: int
    size: int
    blocked_ms: float
    data: bytes


def _slowness() -> float:
    """Return how much slower than the machine of the limits this one is now, with what else runs on it."""
    found = []
    for _ in range(5):
        begun = time.process_time()
        total = 0
        for number in range(_LOOP_ROUNDS):
            total += number & 7
        found.append(time.process_time() - begun)
    return min(found) * 1_000 / _LOOP_MS


class Watchdog:
    """Measures the longest time in which the event loop ran nothing but its own work, from `start` to `stop`."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Watchdog":
        self._task = asyncio.create_task(self._tick())
        await asyncio.sleep(10 * _TICK_S)
        self._longest_s = 0.0
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        await asyncio.sleep(2 * _TICK_S)
        self._task.cancel()

    @property
    def blocked_ms(self) -> float:
        return self._longest_s * 1_000 / _slowness()

    async def _tick(self) -> None:
        last_s = time.process_time()
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.process_time()
            self._longest_s = max(self._longest_s, now_s - last_s)
            last_s = now_s


async def called(
    app: ASGIApp, method: str, target: str, headers: dict[str, str], body: bytes = b"", *, keep: int = 64 * 1024
) -> Call:
    """Send one request, and drop all of its answer but the beginning: collecting it would be measured too."""
    path, _, query = target.partition("?")
    sent = {"host": "launchbay", **headers}
    if body:
        sent["content-length"] = str(len(body))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("launchbay", 80),
    }
    status = size = 0
    beginning = bytearray()
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)] or [b""]

    async def receive() -> dict[str, Any]:
        if not pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        nonlocal status, size
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            piece = message.get("body", b"")
            size += len(piece)
            beginning.extend(piece[: max(0, keep - len(beginning))])
            await asyncio.sleep(0)

    async with Watchdog() as watchdog:
        await app(scope, receive, send)
    return Call(status, size, watchdog.blocked_ms, bytes(beginning))
