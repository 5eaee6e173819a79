"""What lists read of the database doesn't grow with the organization, whoever asks: buffers that PostgreSQL counts."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import population
from launchbay.auth import permissions
from launchbay.auth.gate import Grants, RoleGrants, decide, read_role_text, visible
from launchbay.auth.permissions import Permission
from launchbay.features.secret_providers.rows import delete_unread, list_last_readers
from launchbay.store import fleet as store
from tests.support.databases import Databases
from tests.support.growth import (
    LARGE,
    SMALL,
    Grown,
    buffers,
    count_buffers,
    grow,
    page_statements,
    palette_buffers,
    plan_buffers,
)
from tests.support.service import accepted, running_api
from tests.support.statements import note_statements

pytestmark = pytest.mark.slow  # 3,300 instances with 33,000 jobs are written first

OF_ORGANIZATION = "organizations/ORGANIZATION"
FEW_BUFFERS = 60  # the depth of an index and such: below it, a ratio says nothing
SORTS = ("name", "-created", "-lastJob", "expiry")
FEW = {"limit": "5"}  # fewer than anybody who sees something sees in the small organization


@pytest.fixture(scope="module")
async def sizes(databases: Databases) -> AsyncIterator[tuple[Grown, Grown]]:
    """The same organization, small and ten times as large."""
    urls = [databases.create(), databases.create()]
    async with AsyncExitStack() as stack:
        found = [
            await grow(await stack.enter_async_context(running_api(url, engine=False)), url, size)
            for url, size in zip(urls, (SMALL, LARGE), strict=True)
        ]
        yield found[0], found[1]
    for url in urls:
        databases.drop(url)


@pytest.fixture(autouse=True)
def _notes(monkeypatch: pytest.MonkeyPatch) -> None:
    note_statements(monkeypatch)


async def read_in_both(sizes: tuple[Grown, Grown], who: str, path: str, query: Mapping[str, str]) -> tuple[int, int]:
    """Return the buffers that a request read in the small and in the large organization."""
    small, large = [(await buffers(each, who, path, query))[0] for each in sizes]
    return small, large


LISTS: Mapping[str, Mapping[str, str]] = {
    "instances": {},
    **{f"instances by {sort}": {"sort": sort} for sort in SORTS},
    "instances, counted": {"count": "true"},
    "instances that failed": {"status": "Failed"},
    "instances by words": {"q": "shop"},
    "jobs": {},
    "jobs, counted": {"count": "true"},
    "jobs that failed": {"status": "Failed"},
    "jobs by words": {"q": "shop"},
    "summary": {},
    "drift": {},
    "instances that drifted": {"drifted": "true"},
    "approvals": {},
}
# What a count of a page doesn't bound for who may see some: each run is looked at, or each row that may come first.
OTHERS: Mapping[str, Mapping[str, str]] = {
    "schedules": {},
    "instances with changed secrets": {"secretsChanged": "true"},
    "failures": {},
    "bulk": {},
    "change-sets": {},
    "rollouts": {},
    "change-rules": {},
}


def path_of(what: str) -> str:
    return f"{OF_ORGANIZATION}/{what.split(maxsplit=1)[0].rstrip(',')}"


@pytest.mark.parametrize("what", [*LISTS, *OTHERS])
async def test_who_sees_no_instance_is_answered_without_looking_at_any(sizes: tuple[Grown, Grown], what: str) -> None:
    _, large = await read_in_both(sizes, "nobody", path_of(what), {**LISTS, **OTHERS}[what])
    assert large <= FEW_BUFFERS // 2


# How many of the jobs of the large organization they see: a count, or an order without an index for it, looks at these.
THEIRS = {"an application": 30, "an environment": 600, "an administrator": 0}


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("who", THEIRS)
async def test_a_page_looks_at_what_is_the_readers_alone(sizes: tuple[Grown, Grown], who: str, what: str) -> None:
    if who == "an administrator" and what.endswith(("counted", "summary", "words")):
        pytest.skip("all of it is theirs")
    query = LISTS[what] if what == "summary" else {**LISTS[what], **FEW}
    small, large = await read_in_both(sizes, who, path_of(what), query)
    assert large <= (6 if what.endswith("words") else 3) * max(small, FEW_BUFFERS) + THEIRS[who]


@pytest.mark.parametrize("who", ["an application", "an environment", "a pattern", "an administrator"])
@pytest.mark.parametrize("what", OTHERS)
async def test_a_list_reads_few_buffers_for_each_row_that_it_looks_at(
    sizes: tuple[Grown, Grown], what: str, who: str
) -> None:
    query = OTHERS[what] if what == "change-rules" else {**OTHERS[what], **FEW}
    _, large = await read_in_both(sizes, who, path_of(what), query)
    assert large <= MOST_BUFFERS[what]


# Of 9,000 reads of secrets, 500 failed jobs, some 200 runs and change sets each, and 250 schedules.
MOST_BUFFERS = {
    "schedules": 1_200,
    "instances with changed secrets": 1_300,
    "failures": 2_800,
    "bulk": 1_300,
    "change-sets": 1_200,
    "rollouts": 60,
    "change-rules": 60,
}


async def test_a_secret_is_looked_at_again_without_reading_what_others_have_read(sizes: tuple[Grown, Grown]) -> None:
    found = []
    for grown in sizes:
        with psycopg.connect(grown.url) as connection:
            row = connection.execute(
                "SELECT service_id, path FROM secret_versions WHERE path LIKE 'instances/%'"
            ).fetchone()
            assert row is not None
            place = {"service_id": row[0], "paths": [row[1]]}
            found.append([count_buffers(connection, each.text, place) for each in (delete_unread, list_last_readers)])
    small, large = map(sum, found)
    assert large <= 2 * max(small, FEW_BUFFERS)


async def test_words_that_many_instances_have_are_found_without_reading_these_in_full(
    sizes: tuple[Grown, Grown],
) -> None:
    _, large = await read_in_both(sizes, "an administrator", f"{OF_ORGANIZATION}/jobs", {"q": "shop", **FEW})
    assert large <= 15 * 2_000  # the newest job of each of so many instances


ENTRIES: Mapping[str, Mapping[str, str]] = {
    "newest": {"sort": "-at"},
    "oldest": {},
    "by somebody who did nothing": {"actor": population.INACTIVE},
    "by an address that did nothing": {"actor": "nobody@grown.example"},
    "with a rare operation": {"action": population.RARE},
    "with rare operations": {"action": f"{population.RARE},delete_role"},
    "about an object": {"object": population.SMALL_APPLICATION},
    "by somebody with an operation": {"actor": "c" + "1".rjust(23, "0"), "action": "launch_application"},
}


@pytest.mark.parametrize("sort", ["at", "-at"])
@pytest.mark.parametrize("which", ENTRIES)
async def test_a_page_of_the_log_reads_its_entries_alone(sizes: tuple[Grown, Grown], which: str, sort: str) -> None:
    query = {"limit": "5", "sort": sort, **ENTRIES[which]}
    small, large = await read_in_both(sizes, "an administrator", f"{OF_ORGANIZATION}/audit", query)
    assert large <= 3 * max(small, FEW_BUFFERS)


async def test_a_page_of_users_reads_these_alone(sizes: tuple[Grown, Grown]) -> None:
    path = f"{OF_ORGANIZATION}/users"
    small, large = await read_in_both(sizes, "an administrator", path, {"limit": "40"})
    assert large <= 2 * small
    for who in ("nobody", "an application", "an environment", "a pattern"):  # they may read no user
        assert (await read_in_both(sizes, who, path, {"limit": "40"}))[1] <= FEW_BUFFERS // 2
    api = sizes[1].api
    whole = accepted(await api.get(f"organizations/{api.organization}/users"))
    assert len(whole) > LARGE.people
    found: list[Any] = []
    query = {"limit": "180"}
    while query:
        answer = await api.get(f"organizations/{api.organization}/users", **query)
        found += accepted(answer)
        following = answer.links.get("next")
        query = {} if following is None else dict(httpx.URL(following["url"]).params)
    assert found == sorted(whole, key=lambda each: each["id"])
    some = await api.member(f"Read: [/users/{whole[300]['id']}, /users/{whole[-1]['id']}]")
    assert len(accepted(await some.get(f"organizations/{api.organization}/users", limit="10"))) == 2


segment = st.sampled_from(["*", population.SMALL_APPLICATION, population.LARGE_APPLICATION, "a*3", "*1", "a0000000*"])
place = st.sampled_from(["*", population.ENVIRONMENT, "b" + "2".rjust(23, "0"), "*3", "b*"])
instance = st.sampled_from(["*", "6*", "*7", "0" * 24])
pattern = st.one_of(
    st.builds("/applications/{}/*".format, segment),
    st.builds("/applications/{}/instances/{}".format, segment, instance),
    st.builds("/environments/{}".format, place),
)
entries = st.lists(
    st.lists(pattern, min_size=1, max_size=3).map(lambda each: f"- Read: {json.dumps(each)}\n"), max_size=3
)


@given(entries, st.none() | entries)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_statements_find_the_instances_that_the_gate_allows(
    sizes: tuple[Grown, Grown], role: list[str], scope: list[str] | None
) -> None:
    limit = None if scope is None else RoleGrants("token", read_role_text("".join(scope)))
    grants = Grants((RoleGrants("role", read_role_text("".join(role))),), scope=limit)
    about = {"organization_id": sizes[0].api.organization, **visible(grants, Permission.READ)}
    with psycopg.connect(sizes[0].url) as connection:
        rows = connection.execute("SELECT application_id, instance_id, environment_id FROM fleet").fetchall()
        allowed = {
            instance_id
            for application_id, instance_id, environment_id in rows
            if decide(
                grants,
                Permission.READ,
                (permissions.instance(application_id, instance_id), permissions.environment(environment_id)),
            ).allowed
        }
        summarized = sum(row[-1] for row in connection.execute(store.summarize.text, about).fetchall())
        counted_jobs = connection.execute(store.count_running.text, {**about, "most": 100_000}).fetchone()
    assert summarized == len(allowed)
    assert counted_jobs == (0,)


# All names begin with "shop-"; "shop-f" is one in sixteen, "zz" none.
TYPED = ("s", "sh", "Shop-f", "zz", "zzz", "f0")
BEGINNINGS = {"s", "sh", "shop-f"}


@pytest.mark.parametrize("text", TYPED)
@pytest.mark.parametrize("who", population.READERS)
async def test_the_palette_reads_what_begins_with_the_text(sizes: tuple[Grown, Grown], who: str, text: str) -> None:
    small, large = [await palette_buffers(each, who, text) for each in sizes]
    if who == "a pattern" and text.lower() in BEGINNINGS:
        pytest.skip("all rows that begin so are compared with it")
    # Each row has what is known of it: its end, drift, secrets.
    assert large <= 3 * max(small, FEW_BUFFERS) + 2 * THEIRS.get(who, 0)


# Thousands of organizations of one instance with two jobs: a plan for any of them expects few rows.
_TINY = """
CREATE TEMP TABLE tiny ON COMMIT DROP AS
    SELECT 'd' || lpad(n::text, 23, '0') AS id, now() - n * interval '1 minute' AS at
    FROM generate_series(1, 20000) AS n;
INSERT INTO fleet (organization_id, instance_id, name, status, application_id, environment_id, version, owner_id,
                   labels, destroy_at)
    SELECT id, id, 'tiny', 'Running', id, id, 1, id, '{}', 'infinity' FROM tiny;
INSERT INTO fleet_jobs (organization_id, job_id, instance_id, name, status, application_id, environment_id, owner_id,
                        created_at)
    SELECT id, 'e' || number || substr(id, 3), id, 'launch', 'Succeeded', id, id, id, at
    FROM tiny, generate_series(1, 2) AS number;
ANALYZE fleet;
ANALYZE fleet_jobs
"""
PAGES = ("", "/instances", "/runs")


@pytest.mark.parametrize("page", PAGES)
async def test_a_plan_that_serves_all_organizations_reads_no_more_of_a_large_one(
    sizes: tuple[Grown, Grown], page: str
) -> None:
    sent = await page_statements(sizes[1], f"/console/organizations/ORGANIZATION{page}")
    lists = [each for each in sent if each.text.startswith(b"WITH found") and each.is_prepared]
    assert lists
    with psycopg.connect(sizes[1].url) as connection:
        connection.execute(_TINY)
        for each in lists:
            lasting, planned = (plan_buffers(connection, each, mode) for mode in ("generic", "custom"))
            assert lasting <= 2 * max(planned, FEW_BUFFERS), each.text.decode()
        connection.rollback()
