"""A database that leaves while a command needs it: one sentence and an exit code, wherever the command was."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from launchbay.app import build, commands
from launchbay.settings import Settings
from tests.support.databases import Databases
from tests.support.network import CuttingProxy, answered_by
from tests.support.service import QUICK_HASHES

pytestmark = pytest.mark.slow  # a start for each place in which the database can leave


@dataclass
class Leaving(CuttingProxy):
    """Closes everything, for good, once it has got so many messages."""

    left: int = 0

    def intercepts(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        self.left -= 1
        if self.left < 0:
            self.cuts += 1
        return self.left < 0


@asynccontextmanager
async def leaving(url: str, directory: Path) -> AsyncIterator[tuple[Leaving, str]]:
    """Give what leaves, and the URL that leads through it."""
    proxy = Leaving(Path(str(conninfo_to_dict(url)["host"])), directory, Random(0))
    async with answered_by(proxy):
        yield proxy, make_conninfo(url, host=str(directory))


async def start(settings: Settings) -> None:
    async with build.lifespan(settings, hasher=QUICK_HASHES):
        pass


async def prepare(settings: Settings) -> None:
    async with build.prepared(settings, QUICK_HASHES):
        pass


async def reported(work: Callable[[Settings], Awaitable[None]], settings: Settings) -> int | None:
    """Do what a command does; return its exit code, None if it succeeds."""
    try:
        with commands._reporting_errors():
            await work(settings)
    except SystemExit as end:
        return int(str(end.code))
    return None


@pytest.mark.parametrize("work", [start, prepare], ids=["server or worker", "supervisor"])
async def test_a_process_that_starts(
    databases: Databases,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    work: Callable[[Settings], Awaitable[None]],
) -> None:
    url = databases.create()
    async with leaving(url, tmp_path) as (proxy, through):
        settings = Settings(
            data_dir=tmp_path / "data", database_url=through, admin_email="a@example.org", admin_password="a password 7"
        )
        settings.data_dir.mkdir()
        messages, code = 0, None
        for messages in [*range(8), *range(8, 400, 9)]:
            proxy.left, proxy.cuts = messages, 0
            code = await reported(work, settings)
            if not proxy.cuts:
                break
            said = capsys.readouterr().err
            if code is None:
                continue  # what left at the end was not missed
            assert code == 1
            assert said.count("\n") <= 2, said
            assert "Traceback" not in said
            assert "database" in said
        assert code is None, "with all of its messages, it starts"
        assert messages > 8, "there were several places to leave at"


@pytest.mark.parametrize(
    "command", [["migrate"], ["quota", "list", "none"], ["doctor"], ["worker"], ["serve", "--port=0"]]
)
async def test_a_command(databases: Databases, tmp_path: Path, command: list[str]) -> None:
    async with leaving(databases.create(), tmp_path) as (proxy, through):
        for messages in (0, 2, 4):
            proxy.left = messages
            ended = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-m", "launchbay.cli.main", *command],
                check=False,
                capture_output=True,
                text=True,
                env={
                    **os.environ,
                    "LAUNCHBAY_DATABASE_URL": through,
                    "LAUNCHBAY_DATA_DIR": str(tmp_path / "data"),
                    "LAUNCHBAY_ADMIN_EMAIL": "a@example.org",
                },
                timeout=120,
            )
            assert ended.returncode != 0
            assert "Traceback" not in ended.stderr + ended.stdout
            assert "database" in ended.stderr + ended.stdout
