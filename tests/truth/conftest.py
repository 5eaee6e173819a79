"""A small population and who looks at it, for tests that read it again and again."""

from collections.abc import AsyncIterator

import pytest

from tests.support.databases import Databases
from tests.support.truth.all import View
from tests.support.truth.population import populated
from tests.support.truth.viewers import viewers


@pytest.fixture(scope="session")
async def views(databases: Databases) -> AsyncIterator[dict[str, View]]:
    async with populated(databases, seed=36, cranes=24) as population, viewers(population) as found:
        yield {view.name: view for view in found}
