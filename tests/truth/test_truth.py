"""What each surface shows of a population is what is in its tables: counts, statuses, reasons, times and names."""

from collections.abc import AsyncIterator

import pytest

from tests.support.databases import Databases
from tests.support.truth.comparisons import COMPARISONS, View, differences
from tests.support.truth.oracle import read_tables
from tests.support.truth.population import Population, populated
from tests.support.truth.viewers import viewers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # hundreds of instances, read in some thousand requests


@pytest.fixture(scope="module")
async def population(databases: Databases) -> AsyncIterator[Population]:
    async with populated(databases, seed=35, cranes=260) as made:
        yield made


@pytest.fixture(scope="module")
async def views(population: Population) -> AsyncIterator[list[View]]:
    async with viewers(population) as found:
        yield found


@pytest.mark.parametrize("comparison", COMPARISONS)
async def test_what_is_shown_is_so(views: list[View], comparison: str) -> None:
    found = [each for view in views for each in await differences(view, comparison)]
    assert found == [], "\n".join(found[:20])


async def test_the_population_has_what_there_is_to_be_told(population: Population) -> None:
    tables = read_tables(population.url)
    statuses = {row["status"] for row in tables["instances"]}
    assert statuses == {"Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed"}
    assert len(tables["instances"]) > 300
    assert {row["status"] for row in tables["jobs"]} == {"Executing", "Succeeded", "Failed"}
    assert {row["status"] for row in tables["approvals"]} >= {"pending", "approved", "rejected"}
    assert {row["status"] for row in tables["rollouts"]} == {"Finished", "Stopped"}
    assert {row["status"] for row in tables["bulk_instances"]} == {"Succeeded", "Failed"}
    assert {row["version"] for row in tables["instances"]} >= {2, 3, 4}
    assert any(row["is_asleep"] for row in tables["instance_sleeps"])
    assert any((row["error_message"] or "").startswith("Cancelled") for row in tables["jobs"])
    assert len({row["organization_id"] for row in tables["instances"]}) == 2
    assert {row["wait"]["kind"] for row in tables["step_waits"]} == {"retry"}
    assert any(not row["is_held"] for row in tables["concurrency_places"])
