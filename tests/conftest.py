"""What every test may ask for.

`async def` tests and fixtures just work: they run under anyio's plugin, on uvloop as the server does.

Fixtures, cheapest first; ask for the first that will do:

- `database`: an open pool, `launchbay.store.database.Database`, on an empty database that tests use one after another;
- `database_url`: a fresh PostgreSQL database with the schema in it, dropped after the test;
- `fresh_database`: the same with an open pool, for tests of the schema, of locks, of LISTEN and of lost connections;
- `empty_database_url`: a fresh database without any schema, for tests of migrations;
- `databases`: the server of the whole run, for tests that need several databases.

    async def test_an_organization_is_kept(database):
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO organizations (id, name) VALUES ('…', 'Acme')")

Tests that stop PostgreSQL, or look at durability, start one of their own: `EmbeddedPostgres.start(tmp_path)`.

`pytest -n 4 --dist loadscope` runs them in four processes; a file goes to one of them as a whole, and the longest files
go first (`tests/support/scheduling.py`). HYPOTHESIS_PROFILE=nightly tries many random examples where Hypothesis looks
for one that fails; without it the examples are few and always the same.
"""

import gc
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from launchbay.store.database import Database
from tests.support.databases import Databases, SharedDatabase
from tests.support.scheduling import ByDuration
from tests.support.selection import nothing_in

# httpx looks for this package in each request to an application, and searches the whole path for it in vain.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]  # None: there is no such module

# Time limits of single examples say how busy the machine is.
hypothesis.settings.register_profile("default", max_examples=25, derandomize=True, deadline=None)
hypothesis.settings.register_profile("nightly", max_examples=400, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")


def pytest_configure(config: pytest.Config) -> None:
    """Let anyio run every coroutine test, marked or not, and structlog write plain lines.

    With colors, and with the variables of each frame of a traceback, the log was a twentieth of the run.
    """
    config.option.anyio_mode = "auto"
    structlog.configure(
        [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ]
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector away from thousands of collected tests: walking over them again and again took a fifth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without anything that `-m` asks for."""
    return nothing_in(collection_path, config.getoption("markexpr")) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a feature where servers have none."""
    if os.environ.get("LAUNCHBAY_TEST_FEATURES") == "none":  # not from `tests.support.served`, which imports all code
        config.hook.pytest_deselected(items=[each for each in items if each.get_closest_marker("features")])
        items[:] = [each for each in items if not each.get_closest_marker("features")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByDuration | None:
    """Schedule `--dist loadscope` by files."""
    return ByDuration(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of the product."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session", autouse=True)
def one_form_of_logs() -> Iterator[None]:
    """Keep commands that tests call in this process from changing the logs: loggers keep what they began with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launchbay.app.commands.configure_logs", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def databases(testrun_uid: str, worker_id: str) -> Iterator[Databases]:
    """The PostgreSQL of this run, which its workers share."""
    with Databases.start(run=testrun_uid, worker=worker_id) as started:
        yield started


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A fresh database with the schema in it."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
async def fresh_database(database_url: str) -> AsyncIterator[Database]:
    """An open pool on a fresh database with the schema in it."""
    async with Database(database_url, connections=8) as opened:
        yield opened


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A fresh database with nothing in it."""
    url = databases.create(empty=True)
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
async def shared_pool(databases: Databases) -> AsyncIterator[tuple[SharedDatabase, Database]]:
    """The shared database and an open pool on it; names what the tests of a file left behind there."""
    shared = databases.shared()
    async with Database(shared.url, connections=8) as opened:
        yield shared, opened
    if left := shared.left_behind():
        databases.drop_shared()
        pytest.fail(f"Tests of this file left in the shared database, or removed: {left}. Use `fresh_database`.")


@pytest.fixture
async def database(databases: Databases, shared_pool: tuple[SharedDatabase, Database]) -> AsyncIterator[Database]:
    """An open pool on an empty database with the schema in it."""
    shared, opened = shared_pool
    yield opened
    try:
        shared.empty()
    except BaseException:
        databases.drop_shared()
        raise
