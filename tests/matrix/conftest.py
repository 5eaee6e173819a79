"""The world of the authorization matrix, one for each of its files."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support import matrix as golden
from tests.support.databases import Databases, Watch
from tests.support.matrix import TITLES, standing
from tests.support.worlds import World, running_world


@pytest.fixture(scope="module")
async def world(databases: Databases) -> AsyncIterator[World]:
    """Two organizations in which no list is empty, and the callers."""
    async with running_world(databases) as world:
        await standing(world.home)
        await standing(world.away)
        yield world


@pytest.fixture(scope="module")
def watch(world: World) -> Iterator[Watch]:
    """Notices what changes in the database of the world."""
    with Watch.on(world.api.settings.database_url) as watch:
        yield watch


@pytest.fixture(scope="module")
def sections() -> Iterator[dict[str, str]]:
    """Collect what was computed, and write it when that is asked for."""
    computed: dict[str, str] = {}
    yield computed
    if golden.WRITES:
        golden.write(computed, TITLES)
