"""A server process, to be killed and started again, and its API."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx

from tests.api.running import BUSY, Caller, accepted, basic
from tests.durability.servers import EMAIL, PASSWORD, Process, remove_postgres

PATIENCE_S = 120.0


@dataclass
class Remote(Caller):
    """A server process's API, in its first organization."""

    client: httpx.AsyncClient
    organization: str = ""

    async def launch(self, manifest: str, **body: Any) -> str:
        """Launch a new application with this manifest and return the instance's id."""
        created = await self.post(f"organizations/{self.organization}/applications", {"name": "app"})
        path = f"applications/{accepted(created)['id']}"
        accepted(await self.put_yaml(f"{path}/manifest", dedent(manifest)))
        return str(accepted(await self.post(f"{path}/launch", body))["id"])

    async def settled(self, instance: str) -> Any:
        """Wait until no job is under way and return the instance in detail."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                document = accepted(await self.get(f"instances/{instance}"))
                if document["status"] not in BUSY:
                    return document
                await asyncio.sleep(0.1)


@asynccontextmanager
async def calling(server: Process) -> AsyncIterator[Remote]:
    headers = {"Authorization": basic(EMAIL, PASSWORD)}
    base_url = f"http://127.0.0.1:{server.port}/api/1/"
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30) as client:
        remote = Remote(client)
        [organization] = accepted(await remote.get("organizations"))
        remote.organization = organization["id"]
        yield remote


@contextmanager
def server_directory() -> Iterator[Path]:
    """Give a directory that PostgreSQL's account may enter."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-faults-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        remove_postgres(directory / "data")
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def serving(place: Path, settings: dict[str, str], seed: str | None = None) -> AsyncIterator[Process]:
    command = ["serve", "--port", "0", "--data-dir", str(place / "data")]
    server = Process(command, place, seed=seed, settings=settings)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.end)
