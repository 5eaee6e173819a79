"""Quotas of organizations: what is refused, when, and what the operator may change (decision 0098)."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from launchbay.cli.main import main
from launchbay.engine.journal import LogQuota
from launchbay.fairness.turns import CHUNKS_ALONE
from launchbay.quotas.bounds import Quota, Quotas, default_quotas
from launchbay.quotas.stored_bytes import StoredBytes, fold_instance_counts
from launchbay.settings import Settings
from launchbay.store import quotas as store
from launchbay.store.database import Connection
from launchbay.web.api import jobs
from tests.support.clock import HandClock
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import PAUSING, WORKFLOWS
from tests.support.service import Api, accepted, fresh_name, refused, running_api

QUIET = "launch:\n  steps: []\ndestroy:\n  steps: []\n"


@asynccontextmanager
async def bounded(databases: Databases, **settings: Any) -> AsyncIterator[Api]:
    """Start a service with small quotas."""
    url = databases.create()
    async with running_api(url, **{"engine": False, **settings}) as api:
        yield api
    databases.drop(url)


async def usage(api: Api) -> dict[str, tuple[int, int | None]]:
    """Return used and allowed by quota."""
    rows = accepted(await api.get(f"organizations/{api.organization}/usage"))
    return {row["id"]: (row["used"], row["allowed"]) for row in rows}


async def test_requests_that_come_together_count_what_is_used_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    quotas = Quotas(default_quotas(Settings()), clock)
    count, counted = store.count, []

    async def counting(connection: Connection, **asked: Any) -> list[int]:
        counted.append(asked["quotas"])
        return await count(connection, **asked)

    monkeypatch.setattr(store, "count", counting)
    async with api.database.connection() as one, api.database.connection() as other:
        await quotas.admit(one, api.organization, {Quota.INSTANCES: 1})
        clock.advance(2)
        calls = [quotas.admit(each, api.organization, {Quota.INSTANCES: 1}) for each in (one, other)]
        await asyncio.gather(*calls)
    assert counted == [[Quota.INSTANCES], [Quota.INSTANCES]]


async def test_first_requests_that_come_together_count_what_is_used_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = Quotas(default_quotas(Settings()), HandClock())
    count, counted = store.count, []

    async def counting(connection: Connection, **asked: Any) -> list[int]:
        counted.append(asked["quotas"])
        return await count(connection, **asked)

    monkeypatch.setattr(store, "count", counting)
    adding = {Quota.INSTANCES: 1, Quota.SCHEDULES: 0}

    async def admit() -> None:
        async with api.database.connection() as connection:
            await quotas.admit(connection, api.organization, adding)

    await asyncio.gather(*(admit() for _ in range(6)))
    assert counted == [sorted(adding)]


async def test_a_first_count_that_is_given_up_is_begun_again_by_who_waits_for_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = Quotas(default_quotas(Settings()), HandClock())
    count, is_first, has_begun = store.count, True, asyncio.Event()

    async def hanging_at_first(connection: Connection, **asked: Any) -> list[int]:
        nonlocal is_first
        if is_first:
            is_first = False
            has_begun.set()
            await asyncio.Event().wait()
        return await count(connection, **asked)

    monkeypatch.setattr(store, "count", hanging_at_first)
    async with api.database.connection() as one, api.database.connection() as other:
        given_up = asyncio.create_task(quotas.admit(one, api.organization, {Quota.INSTANCES: 1}))
        await has_begun.wait()
        waiting = asyncio.create_task(quotas.admit(other, api.organization, {Quota.INSTANCES: 1}))
        await asyncio.sleep(0)
        given_up.cancel()
        await waiting


async def test_an_ordinary_organization_is_far_from_every_quota(api: Api) -> None:
    await api.launch(await api.application())
    shown = await usage(api)
    assert len(shown) == 13
    for used, allowed in shown.values():
        assert allowed is not None
        assert used < allowed / 10
    assert shown["applications"][0] >= 1
    assert shown["manifestBytes"][0] > 0


async def test_parallel_launches_never_exceed_the_instances(databases: Databases) -> None:
    async with bounded(databases, quota_instances=5) as api:
        application = await api.application(QUIET)
        answers = await asyncio.gather(*(api.post(f"applications/{application}/launch", {}) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [400] * 7
        sentence = refused(next(each for each in answers if each.status_code == 400), 400, "QuotaExceeded")
        assert "may have 5 instances that aren't destroyed, and has at least 5" in sentence
        assert "quota instances" in sentence
        assert (await usage(api))["instances"] == (5, 5)


async def test_two_servers_together_never_exceed_the_applications(databases: Databases) -> None:
    url = databases.create()
    async with (
        running_api(url, engine=False, quota_applications=5) as one,
        running_api(url, engine=False, quota_applications=5) as other,
    ):
        path = f"organizations/{one.organization}/applications"
        answers = await asyncio.gather(
            *(api.post(path, {"name": fresh_name("app")}) for api in (one, other) for _ in range(6))
        )
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [400] * 7
    databases.drop(url)


async def test_what_is_deleted_makes_room_at_once(databases: Databases) -> None:
    async with bounded(databases, quota_applications=1) as api:
        application = await api.application()
        path = f"organizations/{api.organization}/applications"
        refused(await api.post(path, {"name": "second"}), 400, "QuotaExceeded")
        accepted(await api.delete(f"applications/{application}"))
        accepted(await api.post(path, {"name": "second"}))


async def test_submodules_count_and_nothing_of_a_refused_launch_stays(databases: Databases) -> None:
    async with bounded(databases, quota_instances=2) as api:
        application = await api.application(QUIET)
        await api.launch(application)
        await api.launch(application)
        refused(await api.post(f"applications/{application}/launch", {}), 400, "QuotaExceeded")
        async with api.database.connection() as connection:
            for table in ("instances", "jobs", "ready"):
                row = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
                assert row == (2,), table


async def test_jobs_that_have_not_ended_are_bounded_and_destroying_is_not(databases: Databases) -> None:
    async with bounded(databases, quota_jobs=2) as api:
        application = await api.application(QUIET)
        instance = await api.launch(application)
        await api.launch(application)
        refused(await api.post(f"applications/{application}/launch", {}), 400, "QuotaExceeded")
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE jobs SET status = 'Succeeded' WHERE instance_id = %s", (instance,))
            await connection.execute(
                "UPDATE instances SET status = 'Running', job_id = NULL WHERE id = %s", (instance,)
            )
        await api.launch(application)
        accepted(await api.post(f"instances/{instance}/destroy", {}))
        assert (await usage(api))["jobs"] == (3, 2)


@pytest.mark.features("webhooks")
async def test_schedules_manifests_and_webhooks_are_bounded(databases: Databases) -> None:
    quotas = {"quota_schedules": 2, "quota_manifests_mib": 1, "quota_webhooks": 3}
    async with bounded(databases, **quotas, engine=True) as api:
        application = await api.application(QUIET)
        instance = await api.launch(application)
        await api.settled(instance)
        body = {"interval": 3_600_000}
        for _ in range(2):
            accepted(await api.post(f"instances/{instance}/launch/schedule", body))
        refused(await api.post(f"instances/{instance}/launch/schedule", body), 400, "QuotaExceeded")

        long = QUIET + "#" * 200_000
        for _ in range(5):
            accepted(await api.put_yaml(f"applications/{application}/manifest", long))
        refused(await api.put_yaml(f"applications/{application}/manifest", long), 400, "QuotaExceeded")
        accepted(await api.put_yaml(f"applications/{application}/manifest", QUIET))

        hook = {"url": "https://receiver.example/hook", "events": ["job"]}
        path = f"organizations/{api.organization}/webhooks"
        answers = await asyncio.gather(*(api.post(path, hook) for _ in range(6)))
        assert sorted(each.status_code for each in answers) == [200] * 3 + [400] * 3


async def test_access_tokens_of_an_organization_are_bounded_and_a_revoked_one_makes_room(databases: Databases) -> None:
    async with bounded(databases, quota_access_tokens=3) as api:
        path = f"organizations/{api.organization}/accessTokens"
        account = {"name": "Deployment", "roles": ["Guest"]}
        service = accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", account))["id"]
        bodies = [{"name": f"token {number}", "owner": service if number % 2 else None} for number in range(6)]
        answers = await asyncio.gather(*(api.post(path, body) for body in bodies))
        assert sorted(each.status_code for each in answers) == [200] * 3 + [400] * 3
        sentence = refused(next(each for each in answers if each.status_code == 400), 400, "QuotaExceeded")
        assert "may have 3 access tokens, and has at least 3" in sentence
        assert (await usage(api))["accessTokens"] == (3, 3)
        made = next(accepted(each)["id"] for each in answers if each.status_code == 200)
        accepted(await api.delete(f"{path}/{made}"))
        accepted(await api.post(path, {"name": "another"}))


@pytest.mark.slow
async def test_with_many_jobs_that_only_wait_no_new_ones_are_accepted(databases: Databases) -> None:
    async with bounded(databases, quota_waiting_jobs=2, park_after_s=0.1, engine=True) as api:
        application = await api.application(PAUSING)
        instances = [await api.launch(application) for _ in range(2)]
        for instance in instances:
            await api.settled(instance)
            accepted(await api.post(f"instances/{instance}/pause", {"parameters": {"seconds": 600}}))
        async with asyncio.timeout(10):
            await eventually(lambda: usage(api), lambda found: found["waitingJobs"] == (2, 2))
            # counts are a second old at most
            answer = await eventually(
                lambda: api.post(f"applications/{application}/launch", {}), lambda answer: answer.status_code != 200
            )
        assert "may have 2 jobs that only wait, and has at least 2" in refused(answer, 400, "QuotaExceeded")
        accepted(await api.delete(f"instances/{instances[0]}?force=1"))


async def test_requests_of_an_organization_are_bounded_and_those_of_others_are_not(databases: Databases) -> None:
    async with bounded(databases, quota_requests_per_s=20) as api:
        outsider, organization, _ = await api.outsider()
        path = f"organizations/{api.organization}"
        answers = [(await api.get(path)) for _ in range(60)]
        answer = next(each for each in answers if each.status_code == 429)
        assert "20 requests per second" in refused(answer, 429, "TooManyRequests")
        assert answer.headers["retry-after"] == "1"
        accepted(await outsider.get(f"organizations/{organization}"))


async def test_requests_of_organizations_that_one_person_created_count_together(databases: Databases) -> None:
    async with bounded(databases, quota_requests_per_s=20, organization_creators="user-managers") as api:
        outsider, _, _ = await api.outsider()
        branches = [accepted(await outsider.post("organizations", {"name": fresh_name()}))["id"] for _ in range(5)]
        await asyncio.sleep(2)  # what made them counts no more within this second
        people = [await api.member("Read: [/*]", organization=branch) for branch in branches]
        for person, branch in zip(people, branches, strict=True):
            await person.get(f"organizations/{branch}")  # so that the process knows whose requests these are
        answers = [
            await person.get(f"organizations/{branch}")
            for _ in range(12)
            for person, branch in zip(people, branches, strict=True)
        ]
        answer = next(each for each in answers if each.status_code == 429)
        assert "one person created may together send 20 requests" in refused(answer, 429, "TooManyRequests")
        accepted(await api.get(f"organizations/{api.organization}"))


async def test_requests_that_compute_for_long_are_few_at_a_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = await api.launch(await api.application(QUIET))
    job = (await api.settled(instance))["workflowHistory"][0]["id"]
    under_way: list[str] = []
    most: list[int] = []
    real = jobs.job_detail

    def noted(*arguments: Any) -> Any:
        under_way.append("one")
        most.append(len(under_way))
        time.sleep(0.05)
        under_way.pop()
        return real(*arguments)

    monkeypatch.setattr(jobs, "job_detail", noted)
    answers = await asyncio.gather(*(api.get(f"instances/{instance}/jobs/{job}") for _ in range(12)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(most) == 12
    assert max(most) == CHUNKS_ALONE


@pytest.mark.slow
async def test_the_operator_sets_a_quota_of_one_organization(databases: Databases) -> None:
    async with bounded(databases, quota_applications=1) as api:
        await api.application()
        path = f"organizations/{api.organization}/applications"
        refused(await api.post(path, {"name": "second"}), 400, "QuotaExceeded")

        async def quota(*arguments: str) -> str:
            command = ["quota", *arguments, "--database-url", api.database.url]
            result = await asyncio.to_thread(CliRunner().invoke, main, command)
            assert result.exit_code == 0, result.output
            return result.output

        assert await quota("set", "Default", "applications", "2") == "applications: 2\n"
        await eventually(lambda: api.post(path, {"name": "second"}), lambda found: found.status_code != 400)
        assert "applications: 2 of 2\n" in await quota("list", api.organization)
        refused(await api.post(path, {"name": "third"}), 400, "QuotaExceeded")
        await quota("reset", "Default", "applications")
        entries = accepted(await api.get(f"{path.rpartition('/')[0]}/audit"))
        assert [entry["after"] for entry in entries if entry["actor"]["id"] == "operator"] == [
            {"quota": "applications", "allowed": 2},
            {"quota": "applications", "allowed": None},
        ]


@pytest.mark.parametrize("name", ["Nowhere", "00" * 12])
async def test_a_quota_of_no_organization_is_an_error(api: Api, name: str) -> None:
    command = ["quota", "set", name, "applications", "2", "--database-url", api.database.url]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == 1
    assert f"No organization '{name}'" in result.output


async def test_the_kept_number_of_instances_is_right_after_any_history(databases: Databases) -> None:
    chance = random.Random(37)
    async with bounded(databases) as api:
        application = await api.application(QUIET)
        instances = [await api.launch(application) for _ in range(8)]
        destroy = "UPDATE instances SET status = 'Destroyed' WHERE id = ANY(%s)"
        delete = "DELETE FROM instances WHERE id = ANY(%s)"
        copy = (
            "INSERT INTO instances SELECT (jsonb_populate_record(i, jsonb_build_object('id', md5(random()::text)))).*"
            " FROM instances AS i WHERE id = ANY(%s)"
        )
        for _ in range(60):
            chosen = chance.sample(instances, chance.randint(1, 3))
            end = chance.choice(["commit", "commit", "roll back", "kill"])
            async with await psycopg.AsyncConnection.connect(api.settings.database_url) as connection:
                await connection.execute(chance.choice([destroy, destroy, delete, copy]).encode(), [chosen])
                if chance.random() < 0.4:  # beside what isn't committed yet
                    await fold_instance_counts(api.database)
                if end == "kill":
                    with contextlib.suppress(psycopg.Error):
                        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                    continue
                await (connection.commit() if end == "commit" else connection.rollback())
            if chance.random() < 0.3:
                await asyncio.gather(*(fold_instance_counts(api.database) for _ in range(3)))
            async with api.database.connection() as counting:
                cursor = await counting.execute("SELECT id FROM instances WHERE destroyed_at IS NULL")
                alive = [each for (each,) in await cursor.fetchall()]
                assert await store.list_miscounted(counting) == []
            assert (await usage(api))["instances"][0] == len(alive)
            instances = alive if len(alive) > 5 else [*alive, *[await api.launch(application) for _ in range(4)]]


async def test_launches_wait_for_no_number_of_instances(databases: Databases) -> None:
    async with bounded(databases) as api:
        application = await api.application(QUIET)
        instance = await api.launch(application)
        async with await psycopg.AsyncConnection.connect(api.settings.database_url) as open_still:
            await open_still.execute("UPDATE instances SET status = 'Destroyed' WHERE id = %s", [instance])
            async with asyncio.timeout(10):
                await fold_instance_counts(api.database)
                await api.launch(application)
                await fold_instance_counts(api.database)
        assert (await usage(api))["instances"][0] == 1


async def test_a_sample_of_instances_reads_as_little_of_many_as_of_few(databases: Databases) -> None:
    async with bounded(databases) as api:
        instance = await api.launch(await api.application(QUIET))
        read = []
        for copies in (10, 3_000):
            async with api.database.transaction() as connection:
                await connection.execute(
                    "INSERT INTO instances"
                    " SELECT (jsonb_populate_record(i, jsonb_build_object('id', md5(random()::text)))).*"
                    " FROM instances AS i, generate_series(1, %s) WHERE id = %s",
                    [copies, instance],
                )
            await fold_instance_counts(api.database)
            async with await psycopg.AsyncConnection.connect(api.settings.database_url, autocommit=True) as vacuuming:
                await vacuuming.execute("VACUUM instance_count_changes")
            read.append(await buffers_of_a_sample(api))
        few, many = read
        assert many <= few + 5


async def buffers_of_a_sample(api: Api) -> int:
    """Return how many pages the second count of the instances reads in a session."""
    async with await psycopg.AsyncConnection.connect(api.settings.database_url) as connection:
        for _ in range(2):
            cursor = await connection.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT launchbay_usage(%s, 'instances', 200000)",
                [api.organization],
            )
            [(plans,)] = await cursor.fetchall()
    return int(plans[0]["Plan"]["Shared Hit Blocks"] + plans[0]["Plan"]["Shared Read Blocks"])


async def test_a_wrong_number_of_instances_is_found_and_corrected(databases: Databases) -> None:
    async with bounded(databases) as api:
        application = await api.application(QUIET)
        for _ in range(3):
            await api.launch(application)
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE instance_counts SET live = live + 5")
            await connection.execute("INSERT INTO instance_count_changes VALUES (%s, 2)", [api.organization])
            assert [row.missing for row in await store.list_miscounted(connection)] == [-2]
            await connection.execute(
                "INSERT INTO organization_bytes (organization_id, measured_at) VALUES (%s, '-infinity')",
                [api.organization],
            )
        await StoredBytes(api.database, api.parts.quotas).measure()
        assert (await usage(api))["instances"][0] == 3


@pytest.mark.slow
async def test_logs_and_journals_are_measured_and_deletions_make_room(databases: Databases) -> None:
    async with bounded(databases, engine=True) as api:
        instance = await api.launch(await api.application(WORKFLOWS), parameters={"label": "x"})
        await api.settled(instance)
        await api.run(instance, "pause", seconds="0")
        await eventually(lambda: usage(api), lambda found: found["journalBytes"][0] != 0)
        async with api.database.transaction() as connection:
            await connection.execute("DELETE FROM instances")
        stored = StoredBytes(api.database, api.parts.quotas)
        assert await stored.measure()
        assert not await stored.measure()  # not due for ten minutes
        assert (await usage(api))["journalBytes"] == (0, 102_400 * 2**20)


async def test_a_measurement_sums_over_all_instances_a_few_at_a_time(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.quotas.stored_bytes.MEASURED_AT_ONCE", 2)
    async with bounded(databases) as api:
        application = await api.application(WORKFLOWS)
        instances = [await api.launch(application, parameters={"label": "x"}) for _ in range(5)]
        async with api.database.transaction() as connection:
            for instance in instances:
                await connection.execute(
                    "INSERT INTO log_lines (instance_id, job_id, level, text, at)"
                    " VALUES (%s, '', 'info', '1234567', now())",
                    [instance],
                )
            await connection.execute(
                "INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, outputs)"
                " SELECT id, 'worker/launch/measured', 'measured', 'Succeeded', 100, true, 1, '{}' FROM jobs"
            )
            await connection.execute(
                "INSERT INTO organization_bytes (organization_id, log_bytes) VALUES (%s, 1)"
                " ON CONFLICT (organization_id) DO UPDATE SET measured_at = '-infinity'",
                [api.organization],
            )
        stored = StoredBytes(api.database, api.parts.quotas)
        assert await stored.measure()
        async with api.database.connection() as connection:
            cursor = await connection.execute(
                "SELECT log_bytes, (SELECT sum(octet_length(text)) FROM log_lines), journal_bytes,"
                " (SELECT sum(octet_length(path) + coalesce(octet_length(outputs), 0)) FROM steps)"
                " FROM organization_bytes"
            )
            [(log_bytes, log_there, journal_bytes, journal_there)] = await cursor.fetchall()
        assert log_bytes == log_there >= 5 * len("1234567")
        assert journal_bytes == journal_there >= 5 * len("worker/launch/measured{}")


async def test_an_organization_whose_logs_are_full_writes_only_why_and_errors(databases: Databases) -> None:
    async with bounded(databases, quota_logs_mib=1) as api:
        await fill(api, "log_bytes")
        stored = StoredBytes(api.database, api.parts.quotas)
        assert not stored.are_logs_full(api.organization)
        stored.add(api.organization, 10, 0)
        await stored.save()
        assert stored.are_logs_full(api.organization)
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE organization_bytes SET log_bytes = 0")
        await stored.save()  # without anything written, it finds out that there is room again
        assert not stored.are_logs_full(api.organization)

    quota = LogQuota()
    assert quota.admit("a", "info", "text") == ("info", "text")
    told = quota.admit("a", "info", "text", is_full=True)
    assert told is not None
    assert "reached their quota" in told[1]
    assert quota.admit("b", "info", "text", is_full=True) is None
    assert quota.admit("b", "error", "why", is_full=True) == ("error", "why")


@pytest.mark.slow
async def test_an_organization_whose_journal_is_full_starts_no_job_but_destroys(databases: Databases) -> None:
    async with bounded(databases, quota_journals_mib=1, engine=True) as api:
        application = await api.application(WORKFLOWS)
        instance = await api.launch(application, parameters={"label": "x"})
        await api.settled(instance)
        await fill(api, "journal_bytes")
        body = {"parameters": {"label": "x"}}
        launch = f"applications/{application}/launch"
        answer = await eventually(lambda: api.post(launch, body), lambda found: found.status_code != 200)
        refused(answer, 400, "QuotaExceeded")
        accepted(await api.post(f"instances/{instance}/destroy", {}))


async def fill(api: Api, column: str) -> None:
    """Let an organization seem to have stored 1 MiB."""
    statement = (
        f"INSERT INTO organization_bytes (organization_id, {column}, measured_at) VALUES (%s, 1048576, now())"
        f" ON CONFLICT (organization_id) DO UPDATE SET {column} = 1048576, measured_at = now()"
    )
    async with api.database.transaction() as connection:
        await connection.execute(statement.encode(), (api.organization,))


async def test_two_servers_know_who_sends_requests_to_the_other(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as here, running_api(url, engine=False) as there, asyncio.timeout(20):
        outsider, organization, _ = await there.outsider()
        while organization not in here.parts.turns.elsewhere:
            accepted(await here.get(f"organizations/{here.organization}/applications"))
            accepted(await outsider.get(f"organizations/{organization}/applications"))
        launched = await here.post(f"applications/{await here.application()}/launch", {})
        assert launched.status_code == 200
