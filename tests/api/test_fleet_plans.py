"""EXPLAIN of each list of an organization with many instances: by index, and none scans a table."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import httpx
import pytest

from benchmarks import fleet, population
from launchbay.store.connection import BoundedConnection, Statement
from tests.support.databases import Databases
from tests.support.service import Api, accepted, running_api

pytestmark = pytest.mark.slow  # 8,000 instances are made first

_collected: ContextVar[list[Statement]] = ContextVar("statements")
# Of these, a page shows what is known of its own rows.
_SHOWN = ("approvals", "drift_reports", "secret_reads")
_SORTS = [order for name in ("name", "created", "lastJob", "expiry") for order in (name, f"-{name}")]


@pytest.fixture(scope="module")
async def full(databases: Databases) -> AsyncIterator[Api]:
    """A service whose organization has 8,000 instances and 24,000 jobs."""
    url = databases.create()
    async with running_api(url) as api:
        fleet.fill(url, population.Size(8_000, 3))
        yield api
    databases.drop(url)


@pytest.fixture(autouse=True)
def _collects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the task of a test collect its statements; the engine's own tasks don't."""
    exchange = BoundedConnection._exchange

    async def collecting(self: BoundedConnection, given: Sequence[Statement]) -> Any:
        _collected.get([]).extend(given)
        return await exchange(self, given)

    monkeypatch.setattr(BoundedConnection, "_exchange", collecting)


async def plans(api: Api, statements: Sequence[Statement]) -> list[str]:
    """Return the plans of those statements that read the lists."""
    found = []
    async with api.database.connection() as connection:
        for statement in list(statements):
            if b"FROM fleet" in statement.text:
                explained = Statement(b"EXPLAIN " + statement.text, statement.parameters, is_prepared=False)
                result = await connection.run(explained)
                lines = [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]
                found.append("\n".join(lines))
    return found


@pytest.mark.parametrize("what", list(fleet.FILTERS))
async def test_no_list_of_instances_scans_a_table_in_any_order(full: Api, what: str) -> None:
    for sort in _SORTS:
        await check(full, "instances", {**fleet.FILTERS[what], "sort": sort})


@pytest.mark.parametrize("what", list(fleet.JOB_FILTERS))
async def test_no_list_of_jobs_scans_a_table_in_any_order(full: Api, what: str) -> None:
    for sort in ("created", "-created"):
        await check(full, "jobs", {**fleet.JOB_FILTERS[what], "sort": sort})


async def test_the_next_page_begins_at_its_place_in_the_index(full: Api) -> None:
    for path, sorts in (("instances", _SORTS), ("jobs", ["created", "-created"])):
        for sort in sorts:
            answer = await full.get(f"organizations/{full.organization}/{path}", sort=sort, limit=10)
            after = httpx.URL(answer.links["next"]["url"]).params["after"]
            await check(full, path, {"sort": sort, "limit": "10", "after": after})


async def test_a_search_reads_the_words_of_its_own_organization_alone(full: Api) -> None:
    async with full.database.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        await connection.execute("SET LOCAL enable_indexscan = off")
        found = await connection.execute(
            "EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) SELECT id FROM instances WHERE"
            " launchbay_word_groups(organization_id, launchbay_search_text(name, labels))"
            " @> launchbay_word_groups(%s, 'shop')",
            [fleet.NEIGHBOR],
        )
        plan = "\n".join(line for (line,) in await found.fetchall())
    assert "Bitmap Index Scan on instances_word_groups (actual rows=50" in plan, plan
    [own] = accepted(await full.get(f"organizations/{fleet.NEIGHBOR}/instances", q="shop-17"))
    assert own["name"] == "shop-17"


async def test_the_summary_reads_an_index_alone(full: Api) -> None:
    found = await check(full, "summary", {})
    assert any("Index Only Scan using fleet_summary" in plan for plan in found), found
    assert any("using fleet_jobs_failures" in plan for plan in found), found


@pytest.mark.parametrize(
    ("what", "query", "index"),
    [
        ("jobs", {"status": "Failed"}, "fleet_jobs_unsuccessful"),
        ("jobs", {"workflow": "restore"}, "fleet_jobs_workflow"),
        ("instances", {"status": "Failed"}, "fleet_status"),
        ("instances", {"lastStatus": "Failed"}, "fleet_failed_jobs"),
        ("instances", {"lastWorkflow": "restore"}, "fleet_last_workflow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_page_of_one_value_reads_no_more_than_the_page(
    full: Api, what: str, query: Mapping[str, str], index: str
) -> None:
    [plan] = await check(full, what, {**query, "limit": "10"})
    [_, scan] = [line.strip() for line in plan[plan.index("Limit") :].splitlines()[:2]]
    assert scan.startswith(f"->  Index Scan Backward using {index} on "), plan


@pytest.mark.parametrize("sort", ["created", "-created"])
async def test_pages_of_the_jobs_of_some_instances_have_all_of_them_in_order(full: Api, sort: str) -> None:
    path = f"organizations/{full.organization}/jobs"
    # All jobs fit this filter, so that it changes nothing but how they are found.
    whole = accepted(await full.get(path, q="shop-1a", longerThan="0", sort=sort, limit="1000"))
    assert len({job["instanceId"] for job in whole}) > 10
    found: list[str] = []
    query = {"q": "shop-1a", "sort": sort, "limit": "1"}  # of three jobs of each instance
    while query:
        answer = await full.get(path, **query)
        found += [job["id"] for job in accepted(answer)]
        following = answer.links.get("next")
        query = {} if following is None else dict(httpx.URL(following["url"]).params)
    assert found == [job["id"] for job in whole]


async def check(api: Api, what: str, query: Mapping[str, str]) -> list[str]:
    """Make a request, and return the plans of its statements, none of which may scan a table."""
    statements: list[Statement] = []
    _collected.set(statements)
    accepted(await api.get(f"organizations/{api.organization}/{what}", **query))
    found = await plans(api, statements)
    assert found, "the request has read a list"
    for plan in found:
        assert not any(f"Seq Scan on {table} " in plan for table in (*fleet.LARGE, *_SHOWN)), plan
    return found
