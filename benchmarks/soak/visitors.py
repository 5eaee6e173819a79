"""Those who only look: lists, instances, pages of the console, and event streams that are opened and left."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx

from tests.support.servers import EMAIL, PASSWORD

PAGES = ("", "/instances", "/applications", "/audit")
PAUSE_S = (0.3, 1.0)
STREAM_S = (1.0, 15.0)
STREAMS = 4


class Visitors:
    """Visitors of one server, for as long as `visit` runs. `answers` counts statuses by kind of visit.

    A server that is away is tried again; what is not 200 from one that is there is for the caller to judge.
    """

    def __init__(self, port: Callable[[], int | None], chance: random.Random) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self._port = port
        self._chance = chance
        self._instances: list[str] = []

    async def visit(self) -> None:
        """Look at things until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again(self._lists))
            tasks.create_task(self._again(self._pages))
            for _ in range(STREAMS):
                tasks.create_task(self._again(self._stream))

    async def _again(self, look: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        while True:
            address = f"http://127.0.0.1:{self._port() or 1}"
            async with httpx.AsyncClient(base_url=address, timeout=10, trust_env=False, follow_redirects=True) as http:
                with suppress(httpx.HTTPError):
                    await look(http)
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))

    async def _get(self, http: httpx.AsyncClient, kind: str, path: str) -> httpx.Response:
        answer = await http.get(path, auth=None if kind == "page" else (EMAIL, PASSWORD))
        self.answers[kind, answer.status_code] += 1
        await asyncio.sleep(self._chance.uniform(*PAUSE_S))
        return answer

    async def _lists(self, http: httpx.AsyncClient) -> None:
        for _ in range(20):
            [organization] = (await self._get(http, "list", "/api/1/organizations")).json()
            path = f"/api/1/organizations/{organization['id']}/applications"
            applications = (await self._get(http, "list", path)).json()
            application = self._chance.choice(applications)["id"]
            listed = (await self._get(http, "list", f"/api/1/applications/{application}/instances")).json()
            if listed:
                self._instances = [instance["id"] for instance in listed[-20:]]
                await self._get(http, "instance", f"/api/1/instances/{self._chance.choice(self._instances)}")

    async def _pages(self, http: httpx.AsyncClient) -> None:
        await http.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        home = str((await self._get(http, "page", "/console")).url)
        for _ in range(20):
            await self._get(http, "page", home + self._chance.choice(PAGES))
            if self._instances:
                await self._get(http, "page", f"/console/instances/{self._chance.choice(self._instances)}")

    async def _stream(self, http: httpx.AsyncClient) -> None:
        if not self._instances:
            return
        path = f"/api/1/instances/{self._chance.choice(self._instances)}/events"
        async with http.stream("GET", path, auth=(EMAIL, PASSWORD)) as answer:
            self.answers["stream", answer.status_code] += 1
            try:
                async with asyncio.timeout(self._chance.uniform(*STREAM_S)):
                    async for _ in answer.aiter_raw():
                        pass
            except TimeoutError:
                return
