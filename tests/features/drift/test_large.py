"""Drift of large organizations: what is read, and what lists count."""

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from launchbay.clock import to_ms
from launchbay.features.drift import rows as store
from launchbay.features.drift.rules import Difference, Finding
from tests.support.databases import Databases
from tests.support.service import Api, accepted, running_api

WAITING = 5_000


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        yield api
    databases.drop(url)


async def test_taking_a_check_visits_each_one_that_waits_a_few_times_only(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        async with api.database.transaction() as connection:
            await connection.execute("ALTER TABLE drift_reports DROP CONSTRAINT drift_reports_instance_id_fkey")
            await connection.execute(
                "INSERT INTO drift_reports (instance_id, organization_id, waiting_since)"
                " SELECT 'instance-' || number, %s, now() FROM generate_series(1, %s) AS number",
                [api.organization, WAITING],
            )
        async with api.database.transaction() as connection:  # counts what it reads
            assert await store.take(connection, lease_s=60, busy=[]) is not None
            counted = await connection.execute(
                "SELECT sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::integer"
                " FROM pg_class WHERE oid = 'drift_reports'::regclass OR oid IN"
                " (SELECT indexrelid FROM pg_index WHERE indrelid = 'drift_reports'::regclass)"
            )
            [(read,)] = await counted.fetchall()
        assert read < 10 * WAITING
    databases.drop(url)


async def test_one_index_serves_the_reports_of_an_organization(api: Api) -> None:
    async with api.database.transaction() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        for condition in ("", " AND (new_findings > 0 OR ignored_until <> '{}' OR problem IS NOT NULL)"):
            explained = await connection.execute(
                f"EXPLAIN SELECT FROM drift_reports WHERE organization_id = 'acme'{condition}".encode()
            )
            assert "drift_reports_organization" in "\n".join(line for (line,) in await explained.fetchall())


async def test_a_finding_whose_time_is_over_counts_everywhere_before_the_next_check(api: Api) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\n"))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET status = 'Running', job_id = NULL WHERE id = %s", [instance])
    now = api.clock.now()
    ends = [None, now - timedelta(days=1), now - timedelta(hours=1), now + timedelta(days=1)]
    findings = [
        Finding(
            difference=Difference(step="web#launch/infra", component="web", address=f"box{place}", kind="missing"),
            state="new" if end is None else "ignored",
            first_seen=0,
            last_seen=0,
            until=None if end is None else to_ms(end),
        )
        for place, end in enumerate(ends)
    ]
    async with api.database.transaction() as connection:
        await store.ask(connection, instance_id=instance, organization_id=api.organization, learns=None)
        await store.put_findings(
            connection,
            instance_id=instance,
            findings=msgspec.json.encode(findings).decode(),
            new_findings=1,
            ignored_until=[each for each in ends if each is not None],
        )

    counts = {"new": 3, "ignored": 1}
    assert accepted(await api.get(f"instances/{instance}/drift/report"))["counts"] == counts
    [listed] = accepted(await api.get(f"organizations/{api.organization}/drift"))
    assert (listed["id"], listed["counts"]) == (instance, counts)
    async with api.database.connection() as connection:
        assert await store.get_new_findings(connection, instance_id=instance) == 3
    [drifted] = accepted(await api.get(f"organizations/{api.organization}/instances", drifted="true"))
    assert (drifted["id"], drifted["isDrifted"]) == (instance, True)
