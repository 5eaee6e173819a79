"""PostgreSQL for tests and benchmarks: one private server, one template with the schema in it, databases cut from that.

    from tests.databases import Databases
    with Databases.start() as databases:
        url = databases.create()
        ...
        databases.drop(url)

Tests use the fixtures of `conftest.py` instead. `durable=True` keeps the product's own settings; otherwise the server
does not wait for the disk, which no test can see that does not cut the power.
"""

import asyncio
import fcntl
import itertools
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from launchbay.engine.queue_schema import apply_schema
from launchbay.store import schema
from launchbay.store.embedded import EmbeddedPostgres

_PREFIX = "launchbay-tests-"
_TEMPLATE = "template_launchbay"
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


class Databases:
    """A running server that hands out fresh databases with the product's schema."""

    def __init__(self, directory: Path, server: EmbeddedPostgres) -> None:
        self._directory = directory
        self._server = server
        self._numbers = itertools.count(1)
        self._admin = psycopg.connect(server.url, autocommit=True)
        self._run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        template = self.url_of(_TEMPLATE)
        upgrade(template)
        asyncio.run(apply_queue_schema(template))

    @classmethod
    def start(cls, *, durable: bool = False) -> Self:
        """Start a server in a temporary directory, after removing what killed runs left behind."""
        _sweep()
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        directory.chmod(0o711)
        return cls(directory, EmbeddedPostgres.start(directory, overrides={} if durable else _FAST))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()
        self._server.stop()
        shutil.rmtree(self._directory)

    def create(self, *, empty: bool = False) -> str:
        """Create a database, with the schema or empty, and return its URL."""
        name = f"test_{next(self._numbers)}"
        template = "template1" if empty else _TEMPLATE
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Drop a database that `create` made, whoever is still connected to it."""
        self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(str(conninfo_to_dict(url)["dbname"]))))

    def url_of(self, name: str) -> str:
        """Return the URL of one of the server's databases."""
        return make_conninfo(self._server.url, dbname=name)

    def _run(self, statement: sql.Composed) -> None:
        self._admin.execute(statement)


def migrate_to(url: str, revision: str) -> None:
    """Bring a database to an older schema than today's."""
    asyncio.run(schema.upgrade(url, to=revision))


def upgrade(url: str) -> bool:
    """Bring a database to today's schema; return whether anything was missing."""
    return asyncio.run(schema.upgrade(url))


async def apply_queue_schema(url: str) -> None:
    """Bring the queue's tables to today's."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await apply_schema(connection)


def _sweep() -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # One without the file belongs to a run that is just starting.
        with suppress(OSError), (directory / "server.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whose server is alive holds it
            with suppress(OSError, ValueError, IndexError):
                os.kill(int((directory / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            shutil.rmtree(directory, ignore_errors=True)
