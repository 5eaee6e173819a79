"""The authorization matrix: the rows about instances."""

import pytest

from tests.access.matrix import check_row, rows_of
from tests.access.matrix_world import World
from tests.access.watch import Watch


@pytest.mark.parametrize("operation", rows_of("instances"))
async def test_who_may_call_it(world: World, watch: Watch, sections: dict[str, str], operation: str) -> None:
    await check_row(world, watch, sections, operation)
