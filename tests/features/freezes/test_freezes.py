"""Stop the line: nothing changes in a frozen environment, and no launch on its way is missed."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

import httpx
import psycopg
import pytest

from tests.support.applications import picky
from tests.support.databases import until_locked
from tests.support.eventually import eventually
from tests.support.pages import browser, get
from tests.support.service import EMAIL, PASSWORD, Api, Caller, accepted, fresh_name, own_service, refused

api = own_service  # whose administrator administers the server

MANIFEST = "greet:\n  steps: []\nlaunch:\n  steps: []\ndestroy:\n  steps: []\n"
REASON = "Incident 4711: hands off."


async def frozen(api: Api, environment: str) -> None:
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": REASON}))


async def lifted(api: Api, environment: str) -> None:
    accepted(await api.delete(f"environments/{environment}/freeze"))


async def held(api: Api) -> tuple[str, str, str]:
    """Return an environment, an application, and a running instance."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    return environment, application, instance


async def test_nothing_changes_in_a_frozen_environment_from_any_side(api: Api) -> None:
    environment, application, instance = await held(api)
    at = f"instances/{instance}"
    doors: dict[str, Callable[[Caller], Awaitable[httpx.Response]]] = {
        "launch": lambda by: by.post(f"applications/{application}/launch", {"environmentId": environment}),
        "run": lambda by: by.post(f"{at}/greet", {}),
        "schedule": lambda by: by.post(f"{at}/greet/schedule", {"interval": 60_000}),
        "reconfigure": lambda by: by.put(f"{at}/configuration", {"parameters": {}}),
        "destroy": lambda by: by.post(f"{at}/destroy", {}),
        "delete by force": lambda by: by.delete(f"{at}?force=1"),
        "markers": lambda by: by.put(f"environments/{environment}/markers", {"markers": []}),
    }
    tokens = f"organizations/{api.organization}/accessTokens"
    token = accepted(await api.post(tokens, {"name": fresh_name("bot"), "days": 1}))["token"]
    await frozen(api, environment)
    for caller in (api, api.caller(f"Bearer {token}")):
        for door, open_it in doors.items():
            answer = await open_it(caller)
            assert answer.status_code == 403, (door, answer.text)
            assert (answer.json()["code"], REASON in answer.json()["errors"][0]) == ("EnvironmentFrozen", True), door
    shown = accepted(await api.get(f"environments/{environment}/freeze"))
    assert (shown["reason"], shown["byEmail"] is not None, shown["at"] > 0) == (REASON, True, True)
    # Elsewhere everything continues, and here too once the freeze is lifted.
    await api.settled(await api.launch(application))
    await lifted(api, environment)
    assert accepted(await api.get(f"environments/{environment}/freeze"))["reason"] is None
    accepted(await api.post(f"{at}/greet", {}))


async def test_a_freeze_is_named_before_a_policy_since_no_change_set_leads_around_it(api: Api) -> None:
    environment, application, instance = await held(api)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    await frozen(api, environment)
    launch = {"environmentId": environment}

    for answer in (
        await api.post(f"applications/{application}/launch", launch),
        await api.put(f"instances/{instance}/configuration", {}),
        await api.delete(f"instances/{instance}?force=1"),
        await api.put(f"instances/{instance}/destroyAt", {"destroyAt": (int(time.time()) + 600) * 1_000}),
    ):
        assert REASON in refused(answer, 403, "EnvironmentFrozen")
    preview = accepted(await api.post(f"applications/{application}/launch/preview", launch))
    assert REASON in preview["warnings"][0]


async def test_a_job_that_runs_continues_and_can_be_cancelled(api: Api) -> None:
    environment = await api.offer()
    waits = "launch:\n  steps: []\nrest:\n  steps:\n  - nap: {action: wait, parameters: {delay: 1 h}}\n"
    instance = await api.launch(await api.application(waits + "destroy:\n  steps: []\n"), environmentId=environment)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/rest", {}))
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    await frozen(api, environment)
    assert (await api.document(instance))["workflowHistory"][0]["status"] == "Executing"
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)


async def test_a_bulk_run_waits_until_the_freeze_is_lifted(api: Api) -> None:
    environment, _, instance = await held(api)
    await frozen(api, environment)
    body = {"act": "run", "workflow": "greet", "ids": [instance]}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]
    await eventually(lambda: api.get(f"bulk/{bulk}/instances"), lambda found: REASON in found.text)
    shown = accepted(await api.get(f"bulk/{bulk}"))
    assert (shown["status"], shown["counts"]["waiting"]) == ("Running", 1)
    assert shown["waitingFor"].startswith(
        f"Waiting for the end of a freeze of 1 instance. {EMAIL} froze the environment "
    )
    assert REASON in shown["waitingFor"]
    assert " busy " not in shown["waitingFor"]
    await lifted(api, environment)
    await eventually(lambda: api.read(f"bulk/{bulk}"), lambda found: found["status"] == "Finished", within_s=40)
    assert len((await api.document(instance))["workflowHistory"]) == 2


async def test_a_freeze_waits_for_a_change_that_has_looked_and_the_next_one_sees_it(api: Api) -> None:
    environment, _, instance = await held(api)
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        # As a change does, between its look and its commit.
        await other.execute("SELECT frozen FROM environments WHERE id = %s FOR SHARE", [environment])
        freezing = asyncio.create_task(frozen(api, environment))
        await until_locked(api.database.url)
        assert not freezing.done()
        await other.commit()
        await freezing
    refused(await api.post(f"instances/{instance}/greet", {}), 403, "EnvironmentFrozen")


async def test_a_freeze_is_answered_after_the_launches_that_were_on_their_way(api: Api) -> None:
    environment, application, _ = await held(api)
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        # As a launch does, from before its look until its commit.
        await other.execute("SELECT pg_advisory_xact_lock_shared(4011229)")
        freezing = asyncio.create_task(frozen(api, environment))
        await eventually(
            lambda: api.read(f"environments/{environment}/freeze"), lambda found: found["reason"] is not None
        )
        body = {"environmentId": environment}
        refused(await api.post(f"applications/{application}/launch", body), 403, "EnvironmentFrozen")
        assert not freezing.done()
        await other.commit()
        await freezing


async def test_launches_and_a_freeze_at_the_same_time_are_in_one_order(api: Api) -> None:
    environment, application, _ = await held(api)
    accepted_after: list[httpx.Response] = []
    is_answered = asyncio.Event()

    async def launch() -> None:
        began_after = is_answered.is_set()
        answer = await api.post(f"applications/{application}/launch", {"environmentId": environment})
        assert answer.status_code in {200, 403}, answer.text
        if began_after and answer.status_code == 200:
            accepted_after.append(answer)

    async def freeze() -> None:
        await frozen(api, environment)
        is_answered.set()

    await asyncio.gather(*(launch() for _ in range(8)), freeze(), *(launch() for _ in range(8)))
    listed = accepted(await api.get(f"environments/{environment}/instances"))
    await asyncio.gather(*(launch() for _ in range(4)))
    assert accepted_after == []
    assert len(accepted(await api.get(f"environments/{environment}/instances"))) == len(listed)


async def test_a_freeze_under_a_condition_is_refused_since_launches_would_wait_for_its_lock(api: Api) -> None:
    path = f"environments/{await api.offer()}/freeze"
    tag = (await api.get(path)).headers["etag"]
    answer = await api.client.put(path, json={"reason": REASON}, headers={"If-Match": tag})
    refused(answer, 400, "ConditionNotSupported")
    assert accepted(await api.get(path))["reason"] is None


async def test_a_refusal_says_since_when_and_what_lifts_the_freeze(api: Api) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "database down"}))
    answer = await api.post(f"applications/{application}/launch", {"environmentId": environment})
    said = refused(answer, 403, "EnvironmentFrozen")
    since = r" froze the environment '.*' at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: database down\. Wait until"
    assert re.search(since, said), said
    assert "can do that: launchbay environment lift-freeze " in said


async def test_what_is_frozen_can_be_neither_deleted_nor_renamed(api: Api) -> None:
    environment, application = fresh_name("lab"), fresh_name("shop")
    home = f"organizations/{api.organization}"
    paths = {
        environment: f"environments/{accepted(await api.post(f'{home}/environments', {'name': environment}))['id']}",
        application: f"applications/{accepted(await api.post(f'{home}/applications', {'name': application}))['id']}",
    }
    for name, path in paths.items():
        accepted(await api.put(f"{path}/freeze", {"reason": REASON}))
        assert REASON in refused(await api.delete(path), 403)
        rename = path if path.startswith("app") else f"{path}/name"
        said = refused(await api.put(rename, {"name": f"{name} again"}), 403)
        assert f" {name!r} at " in said
        accepted(await api.delete(f"{path}/freeze"))
        accepted(await api.put(rename, {"name": f"{name} again"}))
        accepted(await api.delete(path))


async def test_a_freeze_has_a_reason_and_needs_the_right_to_edit(api: Api) -> None:
    path = f"environments/{await api.offer()}/freeze"
    for reason in ("", " ", "x" * 10_001):
        refused(await api.put(path, {"reason": reason}), 400, "InvalidFreeze")
    reader = await api.member("Read: [/*]")
    refused(await reader.put(path, {"reason": REASON}), 403, "NotAllowed")
    refused(await reader.delete(path), 403, "NotAllowed")
    refused(await api.put(path, {}), 400)
    assert accepted(await reader.get(path))["reason"] is None


async def test_a_change_that_waited_for_the_freeze_says_who_froze(api: Api) -> None:
    environment, _, instance = await held(api)
    await frozen(api, environment)
    by = accepted(await api.get(f"environments/{environment}/freeze"))["byEmail"]
    row = "SELECT frozen FROM environments WHERE id = %s"
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        (freeze,) = await (await other.execute(row, [environment])).fetchone() or ("",)
        await other.commit()
        await lifted(api, environment)
        await other.execute("UPDATE environments SET frozen = %s WHERE id = %s", [freeze, environment])
        running = asyncio.create_task(api.post(f"instances/{instance}/greet", {}))
        await until_locked(api.database.url)
        await other.commit()
    assert f"{by} froze" in refused(await running, 403, "EnvironmentFrozen")


async def test_a_due_workflow_waits_for_its_environment_without_holding_up_others(api: Api) -> None:
    environment, application, instance = await held(api)
    elsewhere = await api.launch(application)
    await api.settled(elsewhere)
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        accepted(await api.post(f"instances/{instance}/greet/schedule", {"interval": 500}))
        # As a directory that is applied does, until its commit.
        await other.execute("SELECT FROM environments WHERE id = %s FOR NO KEY UPDATE", [environment])
        accepted(await api.post(f"instances/{elsewhere}/greet/schedule", {"interval": 500}))
        await ran(api, elsewhere, 2)
        assert len((await api.document(instance))["workflowHistory"]) == 1
    await ran(api, instance, 2)


async def test_a_rule_that_cannot_be_read_refuses_what_is_due_and_holds_up_nothing_else(api: Api) -> None:
    environment, application, instance = await held(api)
    elsewhere = await api.launch(application)
    await api.settled(elsewhere)
    accepted(await api.post(f"instances/{instance}/greet/schedule", {"interval": 1_000}))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE environments SET frozen = '{}' WHERE id = %s", [environment])
    accepted(await api.post(f"instances/{elsewhere}/greet/schedule", {"interval": 1_000}))
    await ran(api, elsewhere, 2)
    await ran(api, instance, 2)
    newest = (await api.document(instance))["workflowHistory"][0]
    assert (newest["status"], "internal error" in newest["errorMessage"].lower()) == ("Failed", True)


async def test_what_keeps_an_instance_is_allowed_in_a_freeze_and_under_a_policy(api: Api) -> None:
    for rule in ("freeze", "policy"):
        environment, _, instance = await held(api)
        at = f"instances/{instance}"
        end_ms = (int(time.time()) + 86_400) * 1_000
        accepted(await api.put(f"{at}/destroyAt", {"destroyAt": end_ms}))
        accepted(await api.post(f"{at}/destroy/schedule", {"interval": 3_600_000}))
        if rule == "freeze":
            await frozen(api, environment)
        else:
            accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
        refused(await api.put(f"{at}/destroyAt", {"destroyAt": end_ms - 60_000}), 403)
        accepted(await api.put(f"{at}/destroyAt", {"destroyAt": end_ms + 60_000}))
        accepted(await api.put(f"{at}/destroyAt", {"destroyAt": -1}))
        refused(await api.put(f"{at}/destroyAt", {"destroyAt": end_ms}), 403)
        accepted(await api.post(f"{at}/destroy/reschedule", {"interval": 0}))


async def test_an_offer_asks_the_environment_that_offers(api: Api) -> None:
    environment, _, _ = await held(api)
    instance = await api.launch(await api.application(MANIFEST))
    await api.settled(instance)
    await frozen(api, environment)
    path = f"instances/{instance}/environments"
    refused(await api.put(path, {"environments": [environment]}), 403, "EnvironmentFrozen")
    await lifted(api, environment)
    accepted(await api.put(path, {"environments": [environment]}))
    await frozen(api, environment)
    refused(await api.put(path, {"environments": []}), 403, "EnvironmentFrozen")


async def ran(api: Api, instance: str, jobs: int) -> None:
    await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= jobs)


async def until_said(api: Api, path: str) -> None:
    """Wait until an answer has the reason of the freeze."""
    await eventually(lambda: api.get(path), lambda found: REASON in found.text)


@pytest.mark.parametrize("when_busy", ["skip", "queue"])
@pytest.mark.features("recurring")
async def test_a_recurring_schedule_skips_a_firing_or_waits_for_the_end_of_a_freeze(api: Api, when_busy: str) -> None:
    environment, _, instance = await held(api)
    await frozen(api, environment)
    body = {"name": fresh_name("often"), "cron": "0 0 1 1 *", "instanceId": instance, "workflow": "greet"}
    made = accepted(
        await api.post(f"organizations/{api.organization}/recurring-schedules", {**body, "whenBusy": when_busy})
    )
    async with api.database.transaction() as connection:
        due = "UPDATE recurring_schedules SET due_at = date_trunc('second', now()), fires_at = now() WHERE id = %s"
        await connection.execute(due, [made["id"]])
    path = f"recurring-schedules/{made['id']}"
    if when_busy == "skip":
        await until_said(api, path)
        (firing,) = accepted(await api.get(path))["firings"]
        assert firing["outcome"] == "Skipped"
        assert REASON in firing["message"]
    else:
        found = await eventually(lambda: api.read(path), lambda found: REASON in (found["waitingFor"] or ""))
        assert found["firings"] == []
        assert found["waitingFor"].startswith("Due since ")
        assert f" {EMAIL} froze the environment " in found["waitingFor"]
        assert found["waitingSince"] is not None
    await lifted(api, environment)
    if when_busy == "queue":
        found = (await eventually(lambda: api.read(path), lambda found: found["firings"], within_s=40))["firings"]
        assert found[0]["outcome"] == "Started"
    await api.settled(instance)
    assert len((await api.document(instance))["workflowHistory"]) == (2 if when_busy == "queue" else 1)


async def test_a_workflow_that_a_person_scheduled_fails_with_the_reason(api: Api) -> None:
    environment, _, instance = await held(api)
    accepted(await api.post(f"instances/{instance}/greet/schedule", {"interval": 400}))
    await frozen(api, environment)
    jobs = (await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) >= 2))[
        "workflowHistory"
    ]
    job = accepted(await api.get(f"jobs/{jobs[0]['id']}"))
    assert (job["status"], REASON in job["errorMessage"]) == ("Failed", True)
    assert (await api.document(instance))["status"] == "Running"
    refused(await api.post(f"instances/{instance}/jobs/{job['id']}/resume"), 400, "NotResumable")
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await get(visitor, f"/console/instances/{instance}")
        assert REASON in page.text
        assert "Resume run" not in page.text


@pytest.mark.features("rollouts")
async def test_a_rollout_waits_until_the_freeze_is_lifted(api: Api) -> None:
    environment, application = await api.offer(), await api.application(picky())
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    await frozen(api, environment)
    body = {"applicationId": application, "version": 3, "ids": [instance]}
    rollout = accepted(await api.post(f"organizations/{api.organization}/rollouts", body))["id"]
    await until_said(api, f"rollouts/{rollout}/instances")
    waiting_for = accepted(await api.get(f"rollouts/{rollout}"))["waitingFor"]
    assert waiting_for.startswith("Waiting for the end of a freeze of 1 instance. ")
    assert REASON in waiting_for
    assert (await api.document(instance))["version"] == 2
    await lifted(api, environment)
    await eventually(lambda: api.read(f"rollouts/{rollout}"), lambda found: found["status"] == "Finished", within_s=40)
    assert (await api.document(instance))["version"] == 3
