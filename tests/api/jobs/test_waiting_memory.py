"""What instances that wait leave in the memory of the process that ran them."""

import asyncio
import gc
from collections import Counter

import pytest

from launchbay.engine import dispatch
from tests.support.databases import Databases, row_of
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, running_api

WAITING = "launch:\n  steps:\n    - hold: {action: wait, parameters: {delay: 3600}}\n"
FIRST, MORE = 100, 200


async def _parked(api: Api, application: str, count: int) -> None:
    """Launch so many instances, and wait until their jobs wait in the database alone."""
    async with api.database.connection() as connection:
        [(before,)] = await (await connection.execute("SELECT count(*) FROM parked")).fetchall()
        for _ in range(count):
            accepted(await api.post(f"applications/{application}/launch", {}))
        await eventually(
            lambda: row_of(connection, "SELECT count(*) FROM parked"),
            lambda found: found == (before + count,),
            within_s=60,
        )


async def _objects() -> Counter[str]:
    await asyncio.sleep(0)
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects())


@pytest.mark.slow  # three hundred launches: what each leaves must be more than what comes and goes by itself
async def test_an_instance_that_waits_leaves_no_object_in_memory(databases: Databases) -> None:
    async with running_api(databases.create(), park_after_s=0.2) as api:
        application = await api.application(WAITING)
        await _parked(api, application, FIRST)  # fills the caches
        before = await _objects()
        await _parked(api, application, MORE)
        # The last ones are parked in the database before the process has let them go.
        await eventually(_objects, lambda found: all(count < MORE // 4 for count in (found - before).values()))


@pytest.mark.slow  # two hundred launches, as above
async def test_what_parked_jobs_leave_is_collected_before_there_is_much_of_it(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "COLLECTED_AFTER", 10)
    async with running_api(databases.create(), park_after_s=0.2) as api:
        application = await api.application(WAITING)
        await _parked(api, application, 10)
        gc.collect()
        before = len(gc.get_objects())
        gc.disable()  # in a server, it wouldn't come to them either
        try:
            await _parked(api, application, MORE)
            left = len(gc.get_objects()) - before
        finally:
            gc.enable()
        assert left < 50 * MORE  # without it, some two hundred objects for each
