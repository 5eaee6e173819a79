"""Requests that wait hold nothing: no turn, no connection to the database, and no more time than they asked for."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from launchbay.app import build
from launchbay.fairness.turns import RequestTurns
from launchbay.usecases.waits import Ends
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import EMAIL, PASSWORD, Api, Caller, accepted, basic, running_api, served

HOLDING = """
launch: {steps: []}
hold: {steps: [{rest: {action: wait, parameters: {delay: 60 sec}}}]}
"""
WAITERS = 200
ASKED_S = 30
ADMINISTRATOR = basic(EMAIL, PASSWORD)

pytestmark = pytest.mark.slow  # hundreds of connections to a server


@dataclass
class Held:
    """What waiting requests could hold."""

    turns: set[RequestTurns] = field(default_factory=set)
    ends: list[Ends] = field(default_factory=list)

    def turns_of(self, tenant: str) -> int:
        return sum(each.under_way(tenant) for each in self.turns)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Collects the turns and the waits of the service that starts next."""
    held = Held()
    begin = RequestTurns.begin

    def collecting(self: RequestTurns, *given: object, **more: object) -> object:
        held.turns.add(self)
        return begin(self, *given, **more)  # type: ignore[arg-type]  # whatever it is called with

    class Collected(Ends):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]  # whatever it is called with
            held.ends.append(self)

    monkeypatch.setattr(RequestTurns, "begin", collecting)
    monkeypatch.setattr(build, "Ends", Collected)
    return held


@dataclass
class Bay:
    """A served service, an instance whose job runs for long, and that job."""

    api: Api
    port: int
    instance: str
    job: str

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncIterator["Bay"]:
        async with running_api(url) as api, served(api) as port:
            instance = await api.running(HOLDING)
            accepted(await api.post(f"instances/{instance}/hold", {}))
            job = accepted(await api.get(f"instances/{instance}"))["workflowHistory"][0]["id"]
            yield cls(api, port, instance, job)
            accepted(await api.delete(f"instances/{instance}/jobs/{job}"))

    def requests(self, seconds: int) -> list[bytes]:
        """Return a request of each kind that waits."""
        call = {"name": "wait", "arguments": {"job": self.job, "seconds": seconds}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
        api = "GET /api/1"
        return [
            self._request(f"{api}/jobs/{self.job}?wait={seconds}"),
            self._request(f"{api}/instances/{self.instance}/jobs/{self.job}?wait={seconds}"),
            self._request(f"{api}/instances/{self.instance}?wait={seconds}"),
            self._request(f"{api}/instances/{self.instance}/events?after=1000000000"),
            self._request(f"{api}/instances/{self.instance}/log?after=1000000000", "text/event-stream"),
            self._request("POST /mcp", "application/json, text/event-stream", body),
        ]

    @staticmethod
    def _request(line: str, accept: str = "*/*", body: bytes = b"") -> bytes:
        lines = [f"{line} HTTP/1.1", "Host: launchbay", f"Authorization: {ADMINISTRATOR}", f"Accept: {accept}"]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    @asynccontextmanager
    async def waiters(self) -> AsyncIterator[list[asyncio.StreamReader]]:
        """Let WAITERS requests of all kinds wait; at the end their clients go away."""
        kinds = self.requests(ASKED_S)
        readers, writers = [], []
        for number in range(WAITERS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(kinds[number % len(kinds)])
            readers.append(reader)
            writers.append(writer)
        try:
            yield readers
        finally:
            for writer in writers:
                writer.transport.abort()


async def until_they_wait(bay: Bay, held: Held) -> None:
    """Wait until all have had their first look, and the streams have begun."""
    jobs, instances = WAITERS // 6 * 3, WAITERS // 6
    async with asyncio.timeout(20):
        await eventually(
            lambda: (
                held.ends[0].waiting >= jobs + instances
                and bay.api.parts.feed.streams.of(bay.api.organization) >= WAITERS // 6 * 2
            )
        )
        await eventually(lambda: not held.turns_of(bay.api.organization) and not bay.api.database.pool.used)


async def cost_of_reads(caller: Caller, paths: list[str]) -> float:
    """Return how much of the process the quickest of some rounds of reads took: other programs don't count."""
    best = float("inf")
    for _ in range(15):
        began_s = time.process_time()
        for path in paths:
            accepted(await caller.get(path))
        best = min(best, time.process_time() - began_s)
    return best


async def test_200_waiters_hold_no_turn_and_no_connection_and_slow_no_read(databases: Databases, held: Held) -> None:
    async with Bay.opened(databases.create()) as bay:
        stranger, organization, _ = await bay.api.outsider()
        own = [f"jobs/{bay.job}", f"instances/{bay.instance}", f"instances/{bay.instance}/jobs"]
        foreign = [f"organizations/{organization}/applications", f"organizations/{organization}/environments"]
        own_before, foreign_before = await cost_of_reads(bay.api, own), await cost_of_reads(stranger, foreign)
        async with bay.waiters():
            await until_they_wait(bay, held)
            samples = 0
            for _ in range(100):  # looks at the database are short, and one for all
                await asyncio.sleep(0.01)
                assert held.turns_of(bay.api.organization) == 0
                samples += bay.api.database.pool.used > 2
            assert samples < 10
            looks = held.ends[0].looks
            own_with, foreign_with = await cost_of_reads(bay.api, own), await cost_of_reads(stranger, foreign)
            assert held.ends[0].looks - looks < 15 * 200  # not one for each waiter and read
        assert own_with < 3 * own_before
        assert foreign_with < 3 * foreign_before


async def test_no_wait_outlasts_what_it_asked_for(databases: Databases, held: Held) -> None:
    async with Bay.opened(databases.create()) as bay:
        quick = bay.requests(1)[:3]

        async def waited_s(request: bytes) -> float:
            reader, writer = await asyncio.open_connection("127.0.0.1", bay.port)
            began_s = time.monotonic()
            writer.write(request)
            status = await reader.readline()
            took_s = time.monotonic() - began_s
            writer.transport.abort()
            assert status.startswith(b"HTTP/1.1 200")
            return took_s

        alone_s = await waited_s(quick[0])
        async with bay.waiters():
            await until_they_wait(bay, held)
            assert await waited_s(quick[0]) < 1.5 * alone_s
        # 60 of them take their turns at the same moment.
        together_s = await asyncio.gather(*(waited_s(quick[number % 3]) for number in range(60)))
        assert max(together_s) < 3 * alone_s


async def test_what_clients_leave_is_given_back_at_once(databases: Databases, held: Held) -> None:
    async with Bay.opened(databases.create()) as bay:
        began_s = time.monotonic()
        async with bay.waiters():
            await until_they_wait(bay, held)
        async with asyncio.timeout(10):
            organization = bay.api.organization
            await eventually(
                lambda: (
                    not held.ends[0].waiting
                    and not bay.api.parts.feed.streams.of(organization)
                    and not held.turns_of(organization)
                )
            )
        assert time.monotonic() - began_s < ASKED_S
