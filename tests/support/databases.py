"""PostgreSQL for tests and benchmarks: one private server, one template with the schema in it, databases cut from that.

    from tests.support.databases import Databases
    with Databases.start() as databases:
        url = databases.create()
        ...
        databases.drop(url)

Tests use the fixtures of `conftest.py` instead. `durable=True` keeps the product's own settings and its files on the
disk; otherwise the server does not wait for the disk, which no test can see that does not cut the power.
"""

import asyncio
import fcntl
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store import schema
from tests.support.eventually import eventually

_PREFIX = "launchbay-tests-"
_TEMPLATE = "template_launchbay"
_UNFINISHED = "template_unfinished"
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
_CONNECTIONS = {"max_connections": "500"}  # several workers, each with several services and their pools
# Every new database brings a checkpoint, which removes the WAL that a test of another worker is about to read.
_KEPT = {"wal_keep_size": "512MB"}
_MEMORY = Path("/dev/shm")  # Linux keeps it in memory
_ROOM_BYTES = 6 << 30  # a run of all tests takes 2 GiB of it
_LEFT_LOCK_S = 5
_ROUNDS = 5
_TABLES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
_ROWS = "SELECT json_agg(t)::text FROM {} t"
_RESTART = b"""
SELECT setval(seqrelid, seqstart, false) FROM pg_sequence JOIN pg_class ON oid = seqrelid
WHERE relnamespace = 'public'::regnamespace"""
_ADVISORY = """
SELECT objid::text FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_OBJECTS = """
SELECT 'relation ' || oid::regclass FROM pg_class WHERE relnamespace::regnamespace::text NOT LIKE 'pg_toast%'
UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger ' || tgname || ' of ' || tgrelid::regclass || ' ' || tgenabled::text FROM pg_trigger
UNION ALL SELECT 'setting ' || unnest(setconfig) FROM pg_db_role_setting
WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"""


class Databases:
    """A running server that hands out fresh databases with the product's schema."""

    def __init__(self, directory: Path, server: EmbeddedPostgres, worker: str) -> None:
        self._directory = directory
        self._server = server
        self._worker = worker
        self._numbers = itertools.count(1)
        self._shared: SharedDatabase | None = None
        self._admin = psycopg.connect(server.url, autocommit=True)
        if self._admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone() is None:
            self._make_template()

    @property
    def wal_directory(self) -> Path:
        """The directory of PostgreSQL's WAL."""
        return next(self._directory.rglob("pg_wal"))

    @classmethod
    def start(cls, *, durable: bool = False, run: str | None = None, worker: str = "main") -> Self:
        """Start a server in a temporary directory, after removing what killed runs left behind.

        Processes that name the same run share its server, under different names of workers; the last to leave stops it.
        """
        with _one_at_a_time():
            _sweep()
            directory = _root(run, in_memory=not durable) / f"{_PREFIX}{run or uuid4().hex}"
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
            overrides = _CONNECTIONS if durable else _CONNECTIONS | _KEPT | _FAST
            server = EmbeddedPostgres.start(directory, serving=False, overrides=overrides)
            return cls(directory, server, worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shared is not None:
            self._shared.close()
        self._admin.close()
        with _one_at_a_time():
            with suppress(FileNotFoundError):  # another session may have swept the directory
                self._server.stop()
            _sweep()

    def create(self, *, empty: bool = False) -> str:
        """Create a database, with the schema or empty, and return its URL."""
        name = f"test_{self._worker}_{next(self._numbers)}"
        self._copy("template1" if empty else _TEMPLATE, name)
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Drop a database that `create` made, whoever is still connected to it."""
        self._run("DROP DATABASE {} WITH (FORCE)", str(conninfo_to_dict(url)["dbname"]))

    def shared(self) -> "SharedDatabase":
        """Return the database that the tests of this worker use one after another."""
        if self._shared is None:
            self._shared = SharedDatabase(self.create())
        return self._shared

    def drop_shared(self) -> None:
        """Drop the shared database, which is not what it was."""
        if self._shared is not None:
            self._shared.close()
            self.drop(self._shared.url)
            self._shared = None

    def url_of(self, name: str) -> str:
        """Return the URL of one of the server's databases."""
        return make_conninfo(self._server.url, dbname=name)

    def _make_template(self) -> None:
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", _UNFINISHED)  # of a worker that was killed
        self._run("CREATE DATABASE {}", _UNFINISHED)
        upgrade(self.url_of(_UNFINISHED))
        self._run("ALTER DATABASE {} RENAME TO {}", _UNFINISHED, _TEMPLATE)

    def _copy(self, template: str, name: str) -> None:
        # The other strategy writes every page to the log as well; this one takes half of its time.
        self._run("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)

    def _run(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


class SharedDatabase:
    """A database that tests use one after another: `empty` takes it back to what the template holds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(f"SET lock_timeout = '{_LEFT_LOCK_S}s'".encode())
        tables = self._column(_TABLES)
        deletions = ", ".join(f"d{n} AS (DELETE FROM {table} RETURNING 1)" for n, table in enumerate(tables))
        counts = " + ".join(f"(SELECT count(*) FROM d{n})" for n in range(len(tables)))
        # In one statement, since foreign keys are checked at its end: no order of the tables would suit all of them.
        self._delete = f"WITH {deletions} SELECT {counts}".encode()
        self._seeds = {table: rows for table in tables if (rows := self._column(_ROWS.format(table))[0]) is not None}
        self._objects = set(self._column(_OBJECTS))

    def close(self) -> None:
        """Leave the database."""
        self._connection.close()

    def empty(self) -> None:
        """Put everything back that statements can have changed. Raises AssertionError naming a lock that is held."""
        try:
            with self._connection.transaction():
                for _ in range(_ROUNDS):  # triggers of what is deleted may insert
                    if self._connection.execute(self._delete, prepare=True).fetchone() == (0,):
                        break
                else:
                    raise AssertionError("Somebody goes on writing into the shared database.")
                for table, rows in self._seeds.items():
                    insertion = f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, %s)"
                    self._connection.execute(insertion.encode(), [rows], prepare=True)
                self._connection.execute(_RESTART, prepare=True)
        except psycopg.errors.LockNotAvailable:
            raise AssertionError("A test left a transaction open in the shared database.") from None
        held = self._column(_ADVISORY)
        assert not held, f"A test left advisory locks in the shared database: {held}."

    def left_behind(self) -> list[str]:
        """Return what is in the database, or no longer, that `empty` does not put right: tables, triggers, settings."""
        return sorted(self._objects ^ set(self._column(_OBJECTS)))

    def _column(self, query: str) -> list[str]:
        return [row[0] for row in self._connection.execute(query.encode()).fetchall()]


async def row_of(connection: psycopg.AsyncConnection[Any], statement: str, *values: Any) -> Any:
    """Execute a statement, and return the first row of its answer."""
    return await (await connection.execute(statement.encode(), values)).fetchone()


async def until_locked(url: str, sessions: int = 1, statement: str = "") -> None:
    """Wait until so many sessions of a database wait for locks, in statements with this text in them."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, %s) > 0"
    )
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as look:
        await eventually(lambda: row_of(look, waiting, statement), lambda found: found[0] >= sessions)


def migrate_to(url: str, revision: str) -> None:
    """Bring a database to an older schema than today's."""
    asyncio.run(schema.upgrade(url, to=revision))


def upgrade(url: str) -> bool:
    """Bring a database to today's schema; return whether anything was missing."""
    return asyncio.run(schema.upgrade(url))


def _root(run: str | None, *, in_memory: bool) -> Path:
    """Return where a server's directory belongs: where its run has one, else in memory if that is wanted and fits.

    A database has 900 files. Making and removing hundreds of databases was a third of the tests' time on a disk.
    """
    for root in _roots():
        if run and (root / f"{_PREFIX}{run}").exists():
            return root
    with suppress(OSError):
        if in_memory and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES and os.access(_MEMORY, os.W_OK):
            return _MEMORY
    return Path(tempfile.gettempdir())


def _roots() -> list[Path]:
    return [Path(tempfile.gettempdir()), *([_MEMORY] if _MEMORY.is_dir() else [])]


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keep processes that start, join, leave and sweep servers out of each other's way."""
    with (Path(tempfile.gettempdir()) / f"launchbay-{os.getuid()}-tests.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep() -> None:
    """Remove the directories of servers that nobody uses any more."""
    for directory in (each for root in _roots() for each in root.glob(f"{_PREFIX}*")):
        with suppress(OSError), (directory / "postgres.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever uses the server shares it
            with suppress(OSError, ValueError, IndexError):
                os.kill(int((directory / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            shutil.rmtree(directory, ignore_errors=True)


class Watch:
    """Compares the content of all tables.

    A transaction that writes takes a number. As long as none was taken nothing was written, and nothing has to be read;
    one that was taken may have been rolled back, or have locked rows only, so then the content decides. What it was
    before is still there for a transaction that began before, so it is read only then, too.
    """

    def __init__(self, url: str) -> None:
        # They block the loop while they look: a look takes a tenth of a millisecond, and passing through the loop five.
        self._now = psycopg.connect(url, autocommit=True)
        self._before = psycopg.connect(url)
        self._before.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._number = ""
        # A refused sign-in counts, whatever it asked for. Servers note who sends requests, and which key they use.
        names = self._now.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
            " AND relname NOT IN ('wrong_sign_ins', 'wrong_passwords', 'server_activity', 'key_users')"
            " ORDER BY 1"
        ).fetchall()
        self._content = " UNION ALL ".join(map(_digest, [name for (name,) in names])).encode()

    @classmethod
    @contextmanager
    def on(cls, url: str) -> Iterator[Self]:
        """Watch a database through connections of one's own."""
        watch = cls(url)
        with watch._now, watch._before:
            yield watch

    def begin(self) -> None:
        """Look at the content as it is now."""
        self._before.rollback()
        self._number = self._taken(self._before)

    def changed(self) -> list[str]:
        """Return the tables that are not as they were at the last look."""
        if self._taken(self._now) == self._number:
            return []
        before: dict[str, str] = dict(self._before.execute(self._content).fetchall())
        after = self._now.execute(self._content).fetchall()
        self.begin()
        return [name for name, content in after if before[name] != content]

    @staticmethod
    def _taken(connection: psycopg.Connection) -> str:
        row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text", prepare=True).fetchone()
        assert row is not None
        return str(row[0])


def _digest(table: str) -> str:
    # A token is used by every request, whatever it asks for.
    row = "(to_jsonb(t) - 'last_used_at')::text" if table == "access_tokens" else "t::text"
    return f"SELECT '{table}', md5(coalesce(string_agg({row}, ';' ORDER BY {row}), '')) FROM {table} t"


def numbered(text: str) -> str:
    """Return a statement with `$1` in the place of `%(name)s`."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    return re.sub(
        r"%(?:%|\((\w+)\)s)", lambda found: "%" if found[1] is None else f"${names.index(found[1]) + 1}", text
    )
