"""A listener of server-sent events over a real connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.api.running import EMAIL, PASSWORD, basic


@dataclass
class Event:
    name: str
    data: Any
    id: int | None


@dataclass
class Stream:
    """An open stream. `comments` counts heartbeats, `retry_ms` is what the server wants a browser to wait."""

    response: httpx.Response
    comments: int = 0
    retry_ms: int | None = None
    last_id: int | None = None
    _lines: AsyncIterator[str] | None = None
    seen: list[Event] = field(default_factory=list)

    async def next(self, timeout_s: float = 10.0) -> Event | None:
        """Return the next event, None at the end of the stream."""
        if self._lines is None:
            self._lines = self.response.aiter_lines()
        name, data, number = "", "", None
        async with asyncio.timeout(timeout_s):
            async for line in self._lines:
                field_name, _, value = line.partition(": ")
                if line == ":":
                    self.comments += 1
                elif field_name == "retry":
                    self.retry_ms = int(value)
                elif field_name == "event":
                    name = value
                elif field_name == "data":
                    data = value
                elif field_name == "id":
                    number = self.last_id = int(value)
                elif line == "" and name:
                    self.seen.append(Event(name, json.loads(data), number))
                    return self.seen[-1]
        return None

    async def until(self, kind: str, /, **data: Any) -> Event:
        """Read on to an event of this kind with these data."""
        while event := await self.next():
            if event.name == kind and all(event.data[key] == value for key, value in data.items()):
                return event
        raise AssertionError(f"the stream ended before {kind} {data}; it had {self.seen}")

    async def ended(self) -> bool:
        """Read to the end; True when it is a proper one."""
        while await self.next():
            pass
        return True

    def of(self, name: str) -> list[Any]:
        """Return the data of the events of one name so far."""
        return [event.data for event in self.seen if event.name == name]


@asynccontextmanager
async def stream(
    port: int, instance: str, after: int | str | None = None, authorization: str | None = None, query: str = ""
) -> AsyncIterator[Stream]:
    """Open a stream of an instance's events, by default as the administrator."""
    headers = {"Authorization": authorization or basic(EMAIL, PASSWORD)}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    url = f"http://127.0.0.1:{port}/api/1/instances/{instance}/events{query}"
    async with httpx.AsyncClient(timeout=30) as client, client.stream("GET", url, headers=headers) as response:
        yield Stream(response)
