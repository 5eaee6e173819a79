"""The authorization matrix: the rows about instances."""

import pytest

from tests.support.databases import Watch
from tests.support.matrix import check_row, rows_of
from tests.support.worlds import World


@pytest.mark.slow
@pytest.mark.parametrize("operation", rows_of("instances"))
async def test_who_may_call_it(world: World, watch: Watch, sections: dict[str, str], operation: str) -> None:
    await check_row(world, watch, sections, operation)
