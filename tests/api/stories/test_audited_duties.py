"""Who reads the audit log finds what the engine has done by itself, and for whom (promise 14)."""

from typing import Any

import pytest

from tests.support.applications import environment, launched, names, triggered, until
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import WORKFLOWS
from tests.support.network import answer, loopback_server
from tests.support.service import Api, accepted, running_api
from tests.support.services import POOLED, service


async def by(api: Api, actor: str, instance: str) -> list[Any]:
    """Return the entries of an actor about an instance, and check what they have in common."""
    found: list[Any] = accepted(await api.get(f"organizations/{api.organization}/audit", actor=actor, object=instance))
    for entry in found:
        assert entry["actor"]["id"] == "engine"
        assert entry["actor"]["method"] == "engine"
        assert entry["address"] == ""
        assert entry["operation"] == "run_workflow"
    return found


@pytest.mark.slow
async def test_an_expiry_is_in_the_log(api: Api) -> None:
    instance = await api.launch(await api.application(None), destroyInterval=1_000)
    document = await api.until(instance, "Destroyed")
    [entry] = await by(api, "engine/expiry", instance)
    assert entry["object"].endswith(f"/instances/{instance}/workflows/destroy")
    assert entry["after"]["job"] == document["workflowHistory"][0]["id"]
    assert await by(api, "engine", instance) == [entry]


async def test_a_schedule_is_in_the_log_as_it_is_set_and_as_it_fires(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    schedule = accepted(await api.post(f"instances/{instance}/echo/schedule", {"interval": "20"}))["id"]
    document = await until(api, instance, lambda seen: "echo" in names(seen))
    entries = accepted(await api.get(f"organizations/{api.organization}/audit", object=instance))
    assert [entry["operation"] for entry in entries[-2:]] == ["schedule_workflow", "run_workflow"]
    [entry] = await by(api, "engine/schedules", instance)
    assert entry == entries[-1]
    assert (entry["after"]["schedule"], entry["after"]["job"]) == (schedule, document["workflowHistory"][0]["id"])
    assert entry["after"]["owner"] == entries[-2]["actor"]["id"]


async def test_a_trigger_that_follows_in_the_end_of_a_job_is_in_the_log(api: Api) -> None:
    instance = await api.running(triggered())
    document = await api.run(instance, "actions.say", word="second", tone="low")
    assert names(document)[0] == "hear"
    [entry] = await by(api, "engine/triggers", instance)
    assert entry["object"].endswith("/workflows/hear")
    assert entry["after"]["job"] == document["workflowHistory"][0]["id"]


async def test_a_command_of_a_workflow_is_in_the_log_if_it_changes_a_service(api: Api) -> None:
    where = await environment(api)
    pool = await service(api, "builtin:static_resource_pool", {"configuration.resources": ["only"]}, where=where)
    user = await launched(api, POOLED, where)
    await api.run(user["id"], "actions.list")
    log = f"organizations/{api.organization}/audit"
    [entry] = accepted(await api.get(log, actor="engine/workflows", object=pool))
    assert (entry["operation"], entry["after"]["command"]) == ("run_service_command", "acquire")
    assert entry["after"]["instance"] == user["id"]
    assert entry["after"]["job"] == user["workflowHistory"][-1]["id"]
    assert user["id"] not in str(entry["after"]["arguments"]), "what is given may be a secret"
    await api.run(user["id"], "actions.give")
    entries = accepted(await api.get(log, actor="engine/workflows", object=pool))
    assert [entry["after"]["command"] for entry in entries] == ["acquire", "release"]


@pytest.mark.slow
async def test_a_webhook_that_is_switched_off_is_in_the_log(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.WEBHOOK_DISABLED_AFTER_S", 0.3)
    monkeypatch.setattr("launchbay.limits.WEBHOOK_RETRY_FIRST_S", 0.05)
    url = databases.create()
    async with loopback_server() as receiver, running_api(url, outgoing_allow="127.0.0.1") as api:
        receiver.routes["/hook"] = answer(503)
        path, body = f"organizations/{api.organization}/webhooks", {"url": receiver.url("/hook"), "events": ["status"]}
        hook = accepted(await api.post(path, body))["id"]
        await api.running(None)
        row = (await eventually(lambda: api.read(path), lambda found: not found[0]["enabled"]))[0]
        log = f"organizations/{api.organization}/audit"
        [entry] = accepted(await api.get(log, actor="engine/webhooks", object=f"/webhooks/{hook}"))
    databases.drop(url)
    assert (entry["operation"], entry["before"]) == ("update_webhook", {"enabled": True})
    assert entry["after"] == {"enabled": False, "reason": row["disabledReason"]}
