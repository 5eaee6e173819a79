"""Checks by schedule: all instances of an application or environment, or one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg.sql import SQL

from launchbay import limits
from launchbay.features.drift import rows as store
from tests.support.changes import FINDING
from tests.support.databases import Databases
from tests.support.drift import checked, drift_of, found_by_hand
from tests.support.service import EMAIL, Api, accepted, refused, running_api

MANIFEST = "launch: {steps: []}\nlook: {steps: []}\n"
NIGHTLY = {"cron": "0 3 * * *", "zone": "Europe/Berlin", "jitter": 60_000}


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


async def pass_time(api: Api, object_id: str) -> None:
    """Make the schedule of an object due, and let it fire."""
    async with api.database.transaction() as connection:
        past = "UPDATE drift_schedules SET fires_at = now() - interval '1 s' WHERE object_id = %s"
        await connection.execute(past, [object_id])
    await api.round_of("schedules of drift")


async def test_the_instances_of_an_application_are_checked_when_it_is_time(api: Api) -> None:
    application = await api.application(MANIFEST)
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.until(instance, "Running")
    path = f"applications/{application}/drift-schedule"
    assert accepted(await api.get(path))["cron"] is None
    accepted(await api.put(path, NIGHTLY))

    await pass_time(api, application)

    for instance in instances:
        assert (await drift_of(api, instance))["status"] == "Checked"
    shown = accepted(await api.get(path))
    assert {name: shown[name] for name in NIGHTLY} == NIGHTLY
    assert shown["nextAt"] > 0
    accepted(await api.put(path, {"cron": None}))
    assert accepted(await api.get(path))["nextAt"] is None


async def test_a_schedule_checks_what_its_owner_may_and_stops_when_they_lose_their_rights(api: Api) -> None:
    application = await api.application(MANIFEST)
    mine, other = [await api.launch(application) for _ in range(2)]
    for instance in (mine, other):
        await api.until(instance, "Running")
    owner = await api.member(
        "Read: [/*]",
        f"EditApplication: [/applications/{application}]",
        f"EditInstance: [/applications/{application}/instances/{mine}]",
    )
    path = f"applications/{application}/drift-schedule"
    accepted(await owner.put(path, NIGHTLY))

    await pass_time(api, application)

    assert (await drift_of(api, mine))["status"] == "Checked"
    assert (await drift_of(api, other))["status"] == "Unchecked"
    shown = accepted(await api.get(path))
    assert shown["ownerEmail"].startswith("member")
    assert "may not check 1 instance: EditInstance is missing" in shown["problem"]
    async with api.database.transaction() as connection:
        lost = "DELETE FROM role_assignments WHERE user_id = (SELECT id FROM users WHERE email = %s)"
        await connection.execute(lost, [shown["ownerEmail"]])
        await connection.execute(
            "UPDATE users SET access_stamp = access_stamp + 1 WHERE email = %s", [shown["ownerEmail"]]
        )

    await pass_time(api, application)

    stopped = accepted(await api.get(path))
    assert (stopped["cron"], stopped["nextAt"]) == (NIGHTLY["cron"], None)
    assert stopped["problem"].startswith("Stopped: ")
    assert len((await drift_of(api, mine))["checks"]) == 1
    accepted(await api.put(path, NIGHTLY))
    await pass_time(api, application)
    assert (await drift_of(api, other))["status"] == "Checked"
    assert accepted(await api.get(path))["problem"] is None


async def test_checks_that_have_no_room_in_the_queue_come_the_next_time(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DRIFT_QUEUE", 2)
    url = databases.create()
    async with running_api(url, engine=False) as api:
        application = await api.application(MANIFEST)
        instances = [await api.launch(application) for _ in range(3)]
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE jobs SET status = 'Succeeded', finished_at = now()")
            await connection.execute("UPDATE instances SET status = 'Running', job_id = NULL")
        path = f"applications/{application}/drift-schedule"
        accepted(await api.put(path, NIGHTLY))

        async def waiting() -> dict[str, int]:
            await pass_time(api, application)
            reports = [accepted(await api.get(f"instances/{each}/drift/report")) for each in instances]
            return {each["instanceId"]: each["ahead"] for each in reports if each["status"] == "Waiting"}

        first = await waiting()
        assert sorted(first.values()) == [0, 1]
        problem = accepted(await api.get(path))["problem"]
        assert problem.startswith("2 checks of the organization wait, as many as may. 1 more comes")
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE drift_reports SET waiting_since = NULL, checked_at = now()")
        assert set(await waiting()) - set(first), "the one that had no room goes first"
        monkeypatch.setattr(limits, "DRIFT_QUEUE", 3)
        assert len(await waiting()) == 3
        assert accepted(await api.get(path))["problem"] is None, "all wait"
    databases.drop(url)


async def test_a_baseline_that_is_asked_for_during_a_check_is_made_by_another_one(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        instance = await api.launch(await api.application(MANIFEST))
        async with api.database.transaction() as connection:
            await connection.execute("UPDATE instances SET status = 'Running', job_id = NULL WHERE id = %s", [instance])
        accepted(await api.post(f"instances/{instance}/drift/check"))
        async with api.database.transaction() as connection:
            taken = await store.take(connection, lease_s=60, busy=[])
        assert taken is not None

        accepted(await api.post(f"instances/{instance}/drift/check", {"baseline": True}))

        async with api.database.transaction() as connection:
            assert await store.hold(connection, instance_id=instance, fence=taken.fence) is None
            again = await store.take(connection, lease_s=60, busy=[])
        assert again is not None
        assert again.learns == "asked"
    databases.drop(url)


async def test_a_first_launch_of_what_a_schedule_checks_is_followed_by_a_baseline(api: Api) -> None:
    application = await api.application(MANIFEST)
    accepted(await api.put(f"applications/{application}/drift-schedule", NIGHTLY))

    instance = await api.launch(application)
    await api.until(instance, "Running")

    found = await drift_of(api, instance)
    assert found["checks"][0]["baseline"]
    other = await api.running(MANIFEST)
    assert (await drift_of(api, other))["status"] == "Unchecked"


DAILY = f"header: {{checks: {{cron: 0 4 * * *, zone: Europe/Berlin}}}}\n{MANIFEST}"


async def of_manifest(api: Api, application: str) -> str:
    """Launch an application, and return its instance when the times of its manifest are read and it has a baseline."""
    instance = await api.launch(application)
    await api.until(instance, "Running")
    await api.round_of("times of checks")
    await drift_of(api, instance)
    return instance


async def is_waiting(api: Api, instance: str) -> bool:
    """Return whether an instance waits for a check, or had one after its baseline."""
    found = accepted(await api.get(f"instances/{instance}/drift/report"))
    return found["status"] == "Waiting" or len(found["checks"]) > 1


async def schedules_of(api: Api, instance: str) -> dict[str, Any]:
    found = accepted(await api.get(f"instances/{instance}/drift/report"))["schedules"]
    return {each["source"]: each for each in found}


async def test_a_manifest_says_when_its_instances_are_checked(api: Api) -> None:
    instance = await of_manifest(api, await api.application(DAILY))

    assert (await drift_of(api, instance))["checks"][0]["baseline"]
    [(source, shown)] = (await schedules_of(api, instance)).items()
    assert (source, shown["cron"], shown["zone"], shown["replaced"]) == (
        "manifest",
        "0 4 * * *",
        "Europe/Berlin",
        False,
    )
    assert shown["ownerEmail"] == EMAIL
    own = accepted(await api.get(f"instances/{instance}/drift/check-schedule"))
    assert (own["cron"], own["fromManifest"]) == ("0 4 * * *", True)

    await pass_time(api, instance)

    assert await is_waiting(api, instance)
    assert (await schedules_of(api, instance))["manifest"]["nextAt"] > 0


@pytest.mark.parametrize("kind", ["environment", "application", "instance"])
async def test_an_environment_application_or_instance_replaces_the_times_of_the_manifest(api: Api, kind: str) -> None:
    environment = await api.offer()
    application = await api.application(DAILY)
    instance = await api.launch(application, environmentId=environment)
    await api.until(instance, "Running")
    await api.round_of("times of checks")
    await drift_of(api, instance)
    object_id = {"environment": environment, "application": application, "instance": instance}[kind]
    path = {"instance": f"instances/{instance}/drift/check-schedule"}.get(kind, f"{kind}s/{object_id}/drift-schedule")

    accepted(await api.put(path, {**NIGHTLY, "paused": True}))

    assert accepted(await api.get(path))["paused"]
    shown = await schedules_of(api, instance)
    assert (shown[kind]["paused"], shown[kind]["nextAt"]) == (True, None)
    if kind != "instance":
        assert shown["manifest"]["replaced"]
        await pass_time(api, instance)
        assert not await is_waiting(api, instance)
    accepted(await api.put(path, {"cron": None}))
    await api.round_of("times of checks")
    assert {name: each["replaced"] for name, each in (await schedules_of(api, instance)).items()} == {"manifest": False}
    await pass_time(api, instance)
    assert await is_waiting(api, instance)


async def test_a_schedule_that_stopped_by_itself_leaves_the_times_to_the_manifest(api: Api) -> None:
    environment = await api.offer()
    instance = await api.launch(await api.application(DAILY), environmentId=environment)
    await api.until(instance, "Running")
    await api.round_of("times of checks")
    await drift_of(api, instance)
    path = f"environments/{environment}/drift-schedule"
    accepted(await api.put(path, NIGHTLY))
    assert (await schedules_of(api, instance))["manifest"]["replaced"]
    async with api.database.transaction() as connection:  # as of a server before schedules had owners
        await connection.execute("UPDATE drift_schedules SET owner_id = NULL WHERE object_id = %s", [environment])
    await pass_time(api, environment)
    assert accepted(await api.get(path))["problem"].startswith("Stopped: ")

    await pass_time(api, instance)

    assert not (await schedules_of(api, instance))["manifest"]["replaced"]
    assert await is_waiting(api, instance)


async def test_an_instance_follows_the_times_of_its_version(api: Api) -> None:
    application = await api.application(DAILY)
    instance = await of_manifest(api, application)
    before = (await schedules_of(api, instance))["manifest"]["nextAt"]

    for text, times in ((DAILY.replace("0 4 *", "0 5 *"), "0 5 * * *"), (MANIFEST, None)):
        version = accepted(await api.put_yaml(f"applications/{application}/manifest", text))["version"]
        accepted(await api.put(f"instances/{instance}/configuration", {"manifestVersion": version}))
        await api.settled(instance)
        await api.round_of("times of checks")
        shown = await schedules_of(api, instance)
        assert [each["cron"] for each in shown.values()] == ([] if times is None else [times])
        assert all(each["nextAt"] != before for each in shown.values())


@pytest.mark.parametrize(
    ("noted", "sources"),
    [("may_have_checks", ["manifest"]), ("NULL", ["manifest"]), ("false", [])],
    ids=["noted with the version", "version of before", "noted as without"],
)
async def test_the_end_of_a_launch_asks_the_version_whether_it_may_have_checks(
    api: Api, noted: str, sources: list[str]
) -> None:
    application, silent = await api.application(DAILY), await api.application(MANIFEST)
    async with api.database.transaction() as connection:
        made = "SELECT DISTINCT may_have_checks FROM manifests WHERE application_id = ANY (%s) ORDER BY 1"
        rows = await (await connection.execute(made, [[application, silent]])).fetchall()
        assert rows == [(False,), (True,)]
        await connection.execute(
            SQL("UPDATE manifests SET may_have_checks = {} WHERE application_id = {}").format(SQL(noted), application)
        )

    instance = await of_manifest(api, application)

    assert list(await schedules_of(api, instance)) == sources


async def test_the_times_of_a_manifest_wait_for_an_owner_who_may(api: Api) -> None:
    application = await api.application(DAILY)
    launcher = await api.member("Read: [/*]", f"CreateInstance: [/applications/{application}, /environments/*]")
    instance = accepted(await launcher.post(f"applications/{application}/launch", {}))["id"]
    await api.until(instance, "Running")
    await api.round_of("times of checks")
    await drift_of(api, instance)

    await pass_time(api, instance)

    shown = (await schedules_of(api, instance))["manifest"]
    assert "EditInstance" in shown["problem"]
    assert shown["nextAt"] > 0, "the next time is another attempt"
    assert not await is_waiting(api, instance)


async def test_an_instance_that_sleeps_is_not_checked(api: Api) -> None:
    instance = await api.running(MANIFEST)
    accepted(await api.put(f"instances/{instance}/drift/check-schedule", NIGHTLY))
    async with api.database.transaction() as connection:
        asleep = "INSERT INTO instance_sleeps (instance_id, organization_id, is_asleep) VALUES (%s, %s, true)"
        await connection.execute(asleep, [instance, api.organization])

    await pass_time(api, instance)

    assert accepted(await api.get(f"instances/{instance}/drift/report"))["status"] == "Unchecked"
    assert "The instance sleeps" in (await checked(api, instance))["problem"]


async def test_an_instance_that_is_destroyed_keeps_no_findings_and_no_schedule(api: Api) -> None:
    instance = await found_by_hand(api, FINDING)
    accepted(await api.put(f"instances/{instance}/drift/check-schedule", NIGHTLY))

    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.until(instance, "Destroyed")

    found = accepted(await api.get(f"instances/{instance}/drift/report"))
    assert (found["status"], found["counts"], found["findings"]) == ("Unchecked", {"new": 0, "ignored": 0}, [])
    assert accepted(await api.get(f"instances/{instance}/drift/check-schedule"))["cron"] is None
    refused(await api.put(f"instances/{instance}/drift/check-schedule", NIGHTLY), 400, "InstanceDestroyed")


async def test_a_baseline_that_failed_is_no_baseline_of_the_next_check(api: Api) -> None:
    instance = await api.running(MANIFEST)
    await set_newest(api, instance, "Failed")
    assert (await checked(api, instance, baseline=True))["status"] == "Failed"
    await set_newest(api, instance, "Succeeded")

    found = await checked(api, instance)

    assert (found["status"], found["baselineAt"]) == ("Checked", None)


async def test_a_check_that_fails_after_a_change_leaves_no_baseline_to_a_later_one(api: Api) -> None:
    instance = await api.running(MANIFEST)
    async with api.database.transaction() as connection:
        changed = (
            "INSERT INTO drift_reports (instance_id, organization_id, learns, ran, waiting_since)"
            " VALUES (%s, %s, 'reconfigure', '{web#launch/infra}', now())"
        )
        await connection.execute("UPDATE jobs SET status = 'Failed' WHERE instance_id = %s", [instance])
        await connection.execute(changed, [instance, api.organization])
    assert "So there is no new baseline" in (await drift_of(api, instance))["problem"]
    await set_newest(api, instance, "Succeeded")

    found = await checked(api, instance)

    assert (found["problem"], found["baselineAt"], found["checks"][0]["baseline"]) == (None, None, False)


async def set_newest(api: Api, instance: str, status: str) -> None:
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET status = %s WHERE instance_id = %s", [status, instance])


async def test_an_instance_on_which_a_job_runs_waits_for_its_check(api: Api) -> None:
    held = "launch: {steps: []}\nrest:\n  steps:\n    - pause: {action: wait, parameters: {delay: 3600}}\n"
    instance = await api.running(held)
    accepted(await api.post(f"instances/{instance}/rest"))
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    accepted(await api.put(f"instances/{instance}/drift/check-schedule", NIGHTLY))

    await pass_time(api, instance)
    await api.round_of("drift")

    assert accepted(await api.get(f"instances/{instance}/drift/report"))["status"] == "Waiting"
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)
    assert (await drift_of(api, instance))["status"] == "Checked", "what failed wasn't a change of the instance"


async def test_a_job_makes_what_a_check_has_planned_meanwhile_worthless(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        instance = await api.launch(await api.application(MANIFEST))
        async with api.database.transaction() as connection:
            ended = "UPDATE jobs SET status = 'Succeeded', finished_at = now() WHERE instance_id = %s"
            await connection.execute(ended, [instance])
            running = "UPDATE instances SET status = 'Running', job_id = NULL WHERE id = %s"
            await connection.execute(running, [instance])
        accepted(await api.post(f"instances/{instance}/drift/check"))
        async with api.database.transaction() as connection:
            taken = await store.take(connection, lease_s=60, busy=[])
        assert taken is not None

        accepted(await api.post(f"instances/{instance}/look"))

        async with api.database.transaction() as connection:
            assert await store.hold(connection, instance_id=instance, fence=taken.fence) is None
            await connection.execute("UPDATE instances SET job_id = NULL WHERE id = %s", [instance])
            ended = "UPDATE jobs SET status = 'Succeeded', finished_at = now() WHERE instance_id = %s"
            await connection.execute(ended, [instance])
            assert await store.hold(connection, instance_id=instance, fence=taken.fence) is None
            again = await store.take(connection, lease_s=60, busy=[])
        assert again is not None
        assert again.instance_id == instance
    databases.drop(url)


async def test_organizations_take_turns_and_who_asks_goes_before_schedules(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        other = accepted(await api.post("organizations", {"name": "Other"}))["id"]
        async with api.database.transaction() as connection:
            rows = [("a1", api.organization, False), ("a2", api.organization, True), ("b1", other, False)]
            await connection.execute("ALTER TABLE drift_reports DROP CONSTRAINT drift_reports_instance_id_fkey")
            for number, (instance, organization, is_asked) in enumerate(rows):
                await connection.execute(
                    "INSERT INTO drift_reports (instance_id, organization_id, is_asked, waiting_since)"
                    " VALUES (%s, %s, %s, now() - %s * interval '1 s')",
                    [instance, organization, is_asked, 10 - number],
                )

            async def taken(*busy: str) -> str:
                row = await store.take(connection, lease_s=60, busy=list(busy))
                return "" if row is None else row.instance_id

            assert [await taken(), await taken(), await taken(api.organization)] == ["a2", "b1", ""]
            assert await taken() == "a1"
    databases.drop(url)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"cron": "often"}, "cron"),
        ({"cron": "* * * * * *"}, "more often than every"),
        ({"cron": "0 3 * * *", "zone": "Atlantis"}, "zone"),
        ({"paused": True}, "paused: it needs `cron`"),
        ({"mail": True}, "mail: it needs `cron`"),
    ],
)
async def test_a_schedule_that_cannot_be_is_refused(api: Api, body: dict[str, Any], problem: str) -> None:
    path = f"environments/{api.environment}/drift-schedule"
    assert problem in refused(await api.put(path, body), 400, "InvalidSchedule")
    assert accepted(await api.get(path))["cron"] is None


async def test_who_may_edit_sets_the_schedule_and_who_may_read_sees_it(api: Api) -> None:
    path = f"environments/{api.environment}/drift-schedule"
    reader = await api.member("Read: [/*]")
    editor = await api.member("Read: [/*]", "EditEnvironment: [/environments/*]")

    refused(await reader.put(path, NIGHTLY), 403)
    accepted(await editor.put(path, NIGHTLY))
    assert accepted(await reader.get(path))["cron"] == NIGHTLY["cron"]
    accepted(await editor.put(path, {"cron": None}))
