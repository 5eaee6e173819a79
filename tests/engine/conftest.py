from collections.abc import AsyncIterator

import pytest

from launchbay.store.pool import Database
from tests.engine.bay import Bay


@pytest.fixture
async def bay(database: Database) -> AsyncIterator[Bay]:
    """An organization on a fresh database, and what runs jobs in it."""
    async with Bay(database) as made:
        yield made


@pytest.fixture
async def other_database(database: Database) -> AsyncIterator[Database]:
    """A second pool on the same database: that of another process."""
    async with Database(database.url, connections=8) as opened:
        yield opened
