"""The rule that ends instances on which nothing runs."""

from typing import Any

import pytest

from launchbay.features.lifetimes.mails import EndingMails
from launchbay.features.lifetimes.usecases import WarningRunner
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.external_services import postbox
from tests.support.owner_mails import app_of
from tests.support.service import Api, accepted, fresh_name, refused, running_api

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MANIFEST = """
launch: {steps: []}
greet: {steps: []}
stop: {steps: []}
start: {steps: []}
"""


async def running(api: Api, rules: dict[str, Any]) -> tuple[str, str]:
    """Return an application with these rules, and its instance that has no other end."""
    application = await api.application(MANIFEST)
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    accepted(await api.put(f"applications/{application}/lifetime", rules))
    return application, instance


async def lifetime(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/lifetime"))


async def let_pass(api: Api, instance: str, hours: float) -> None:
    """Let the last run and the rule be so much older."""
    async with api.database.connection() as connection:
        await connection.execute(
            "WITH moved AS (UPDATE fleet SET job_ended_at = job_ended_at - %(hours)s * interval '1 hour'"
            " WHERE instance_id = %(id)s)"
            " UPDATE idle_ends SET since = since - %(hours)s * interval '1 hour',"
            " due_at = due_at - %(hours)s * interval '1 hour' WHERE instance_id = %(id)s",
            {"hours": hours, "id": instance},
        )


async def warn(api: Api, box: Any) -> None:
    """Give one round of warnings, and send their emails."""
    app = app_of(api)
    await WarningRunner(app, has_mail=True).advance()
    await EndingMails(app, box.server, "").advance()


async def warnings(api: Api, instance: str) -> list[tuple[int, str]]:
    """Return the hours and causes that webhooks are told."""
    async with api.database.connection() as connection:
        answer = await connection.execute(
            "SELECT (body::json -> 'expiry' ->> 'hours')::integer, body::json -> 'expiry' ->> 'cause'"
            " FROM webhook_deliveries WHERE event = 'expiry' AND body::json ->> 'instance' = %s ORDER BY id",
            [instance],
        )
        return await answer.fetchall()


async def test_the_end_of_an_idle_instance_is_shown_and_each_run_moves_it(api: Api) -> None:
    _, instance = await running(api, {"idleMs": 3 * DAY_MS})
    before = await lifetime(api, instance)
    assert (before["destroyAt"], before["rules"]["idleMs"]) == (None, 3 * DAY_MS)
    assert [each["kind"] for each in before["coming"]] == ["warning", "warning", "destroy"]
    assert "if nothing runs until then" in before["coming"][-1]["text"]
    await let_pass(api, instance, 30)
    assert (await lifetime(api, instance))["idleEndsAt"] == pytest.approx(before["idleEndsAt"] - 30 * HOUR_MS, abs=2)
    await api.run(instance, "greet")
    await api.settled(instance)
    assert (await lifetime(api, instance))["idleEndsAt"] >= before["idleEndsAt"]


async def test_the_nearer_of_both_rules_and_of_both_ends_counts(api: Api) -> None:
    application, instance = await running(api, {"idleMs": 9 * DAY_MS})
    [environment] = {each["environmentId"] for each in await fleet(api)}
    accepted(await api.put(f"environments/{environment}/lifetime", {"idleMs": 2 * DAY_MS}))
    found = await lifetime(api, instance)
    assert found["rules"]["idleMs"] == 2 * DAY_MS
    assert found["coming"][-1]["at"] == found["idleEndsAt"]
    accepted(await api.put(f"environments/{environment}/lifetime", {}))
    accepted(await api.put(f"applications/{application}/lifetime", {}))
    assert (await lifetime(api, instance))["idleEndsAt"] is None


async def test_an_extension_moves_the_nearer_end(api: Api) -> None:
    _, instance = await running(api, {"idleMs": 2 * DAY_MS, "extensions": 1})
    before = (await lifetime(api, instance))["idleEndsAt"]
    extended = accepted(await api.post(f"instances/{instance}/lifetime/extend", {"byMs": HOUR_MS}))["destroyAt"]
    assert extended == before + HOUR_MS == (await lifetime(api, instance))["idleEndsAt"]
    refused(await api.post(f"instances/{instance}/lifetime/extend", {"byMs": HOUR_MS}), 400, "LifetimeRule")


async def test_a_rule_of_less_than_an_hour_is_refused(api: Api) -> None:
    application = await api.application(MANIFEST)
    refused(await api.put(f"applications/{application}/lifetime", {"idleMs": 7}), 400, "InvalidLifetime")


async def test_webhooks_and_owners_are_warned_once_and_a_run_takes_it_back(databases: Databases) -> None:
    async with running_api(databases.create()) as api, postbox() as box:
        hook = {"url": "https://hooks.example.com/launchbay", "events": ["expiry"]}
        accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))
        _, instance = await running(api, {"idleMs": 3 * DAY_MS, "mail": True})
        await warn(api, box)
        assert await warnings(api, instance) == []
        await let_pass(api, instance, 49)
        await warn(api, box)
        await warn(api, box)
        assert await warnings(api, instance) == [(24, "idle")]
        (letter,) = box.letters
        assert "Nothing has run on it" in letter.get_content()
        assert await destroy_ats(api) == {instance: True}
        await api.run(instance, "greet")
        await api.settled(instance)
        await warn(api, box)
        assert await destroy_ats(api) == {instance: False}
        assert len(await warnings(api, instance)) == 1


async def fleet(api: Api) -> Any:
    return accepted(await api.get(f"organizations/{api.organization}/instances"))


async def destroy_ats(api: Api) -> dict[str, bool]:
    """Return the instances of the organization, and whether the list shows an end."""
    return {each["id"]: each["destroyAt"] is not None for each in await fleet(api)}


async def test_an_idle_instance_is_destroyed_when_its_time_is_over(api: Api) -> None:
    application, instance = await running(api, {"idleMs": HOUR_MS})
    busy = await api.launch(application, destroyInterval=-1)
    await api.until(busy, "Running")
    await let_pass(api, instance, 2)
    await api.round_of("idle instances")
    await api.until(instance, "Destroyed")
    assert accepted(await api.get(f"instances/{busy}"))["status"] == "Running"
    assert (await lifetime(api, instance))["idleEndsAt"] is None


@pytest.mark.features("freezes")
async def test_an_idle_instance_stays_in_a_frozen_environment_until_that_is_lifted(api: Api) -> None:
    path = f"organizations/{api.organization}/environments"
    environment = accepted(await api.post(path, {"name": fresh_name("frozen")}))["id"]
    application = await api.application(MANIFEST)
    instance = await api.launch(application, destroyInterval=-1, environmentId=environment)
    await api.until(instance, "Running")
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Audit"}))
    accepted(await api.put(f"applications/{application}/lifetime", {"idleMs": HOUR_MS}))
    await let_pass(api, instance, 2)
    await api.round_of("idle instances")
    assert (await api.document(instance))["status"] == "Running"
    accepted(await api.delete(f"environments/{environment}/freeze"))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE idle_ends SET due_at = now() WHERE instance_id = %s", [instance])
    await api.round_of("idle instances")
    await api.until(instance, "Destroyed")


@pytest.mark.features("change_sets")
async def test_under_a_change_policy_only_the_rule_of_the_environment_ends_idle_instances(api: Api) -> None:
    path = f"organizations/{api.organization}/environments"
    environment = accepted(await api.post(path, {"name": fresh_name("strict")}))["id"]
    application = await api.application(MANIFEST)
    instance = await api.launch(application, destroyInterval=-1, environmentId=environment)
    await api.until(instance, "Running")
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    accepted(await api.put(f"applications/{application}/lifetime", {"idleMs": HOUR_MS}))
    await let_pass(api, instance, 2)
    await api.round_of("idle instances")
    assert (await api.document(instance))["status"] == "Running"
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 0}))
    accepted(await api.put(f"environments/{environment}/lifetime", {"idleMs": HOUR_MS}))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE idle_ends SET due_at = now() WHERE instance_id = %s", [instance])
    await api.round_of("idle instances")
    await api.until(instance, "Destroyed")


@pytest.mark.features("freezes")
async def test_an_idle_end_in_its_grace_time_fails_in_an_environment_that_was_frozen_since(api: Api) -> None:
    path = f"organizations/{api.organization}/environments"
    environment = accepted(await api.post(path, {"name": fresh_name("frozen")}))["id"]
    application = await api.application("launch: {steps: []}")
    instance = await api.launch(application, destroyInterval=-1, environmentId=environment)
    await api.until(instance, "Running")
    accepted(await api.put(f"applications/{application}/lifetime", {"idleMs": HOUR_MS, "graceMs": HOUR_MS}))
    await let_pass(api, instance, 2)
    await api.round_of("idle instances")
    assert (await lifetime(api, instance))["waitingDestroy"]["isIdle"]
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Audit"}))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET due_at = now() WHERE instance_id = %s", [instance])
    newest = (
        await eventually(lambda: api.settled(instance), lambda found: found["workflowHistory"][0]["name"] == "destroy")
    )["workflowHistory"][0]
    assert (newest["status"], "Audit" in newest["errorMessage"]) == ("Failed", True)


async def test_a_rule_that_cannot_be_read_holds_up_no_other_end(api: Api) -> None:
    damaged, first = await running(api, {"idleMs": HOUR_MS})
    _, second = await running(api, {"idleMs": HOUR_MS})
    await let_pass(api, first, 3)
    await let_pass(api, second, 2)
    async with api.database.connection() as connection:
        await connection.execute(
            'UPDATE lifetime_rules SET rules = \'{"idle_ms": 3600000, "grace_ms": "soon"}\' WHERE application_id = %s',
            [damaged],
        )
    await api.round_of("idle instances")
    await api.until(second, "Destroyed")
    assert (await api.document(first))["status"] == "Running"


async def test_the_grace_time_counts_and_the_destroy_is_taken_back(api: Api) -> None:
    _, instance = await running(api, {"idleMs": HOUR_MS, "graceMs": HOUR_MS})
    await let_pass(api, instance, 2)
    await api.round_of("idle instances")
    waiting = (await lifetime(api, instance))["waitingDestroy"]
    assert (waiting["isIdle"], waiting["isStopped"]) == (True, True)
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    found = await lifetime(api, instance)
    assert found["waitingDestroy"] is None
    assert found["idleEndsAt"] - waiting["requestedAt"] >= HOUR_MS - 1_000
