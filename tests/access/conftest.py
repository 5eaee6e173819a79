"""The world of the authorization matrix, one for each of its files."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.access import matrix_golden as golden
from tests.access.matrix import TITLES
from tests.access.matrix_requests import standing
from tests.access.matrix_world import World, running_world
from tests.access.watch import Watch
from tests.databases import Databases


@pytest.fixture(scope="module")
async def world(databases: Databases) -> AsyncIterator[World]:
    """Two organizations in which no list is empty, and the callers."""
    async with running_world(databases) as world:
        await standing(world.home)
        await standing(world.away)
        yield world


@pytest.fixture(scope="module")
async def watch(world: World) -> AsyncIterator[Watch]:
    """Notices what changes in the database of the world."""
    async with Watch.on(world.api.database) as watch:
        yield watch


@pytest.fixture(scope="module")
def sections() -> Iterator[dict[str, str]]:
    """Collect what was computed, and write it when that is asked for."""
    computed: dict[str, str] = {}
    yield computed
    if golden.WRITES:
        golden.write(computed, TITLES)
