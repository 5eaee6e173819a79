"""What every test may ask for.

`async def` tests and fixtures just work: they run under anyio's plugin, on uvloop as the server does.

Fixtures, cheapest first; ask for the first that will do:

- `database_url`: a fresh PostgreSQL database with the schema in it, dropped after the test;
- `database`: the same with an open pool, `launchbay.store.pool.Database`;
- `empty_database_url`: a fresh database without any schema, for tests of migrations;
- `databases`: the server of the whole session, for tests that need several databases.

    async def test_an_organization_is_kept(database):
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO organizations (id, name) VALUES ('…', 'Acme')")

Tests that stop PostgreSQL, or look at durability, start one of their own: `EmbeddedPostgres.start(tmp_path)`.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from launchbay.store.pool import Database
from tests.databases import Databases


def pytest_configure(config: pytest.Config) -> None:
    """Let anyio run every coroutine test, marked or not."""
    config.option.anyio_mode = "auto"


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of the product."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """The PostgreSQL of this session."""
    with Databases.start() as started:
        yield started


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A fresh database with the schema in it."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A fresh database with nothing in it."""
    url = databases.create(empty=True)
    yield url
    databases.drop(url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open pool on a fresh database with the schema in it."""
    async with Database(database_url, connections=8) as opened:
        yield opened
