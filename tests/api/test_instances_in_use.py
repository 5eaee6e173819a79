"""Destroying an instance that others use: it needs force, and the users are named (conformance.md, "States")."""

from typing import Any

import pytest

from tests.support.applications import NEEDY, SIZED_CHILD, child_of, environment, launched, offer, offered, parent
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, refused


async def used(api: Api) -> tuple[str, Any]:
    """Offer an instance, and launch another one that uses it; return its id and the user's document."""
    instance, where = await offered(api)
    user = await launched(api, NEEDY, where)
    assert user["status"] == "Running", user["errorMessage"]
    return instance, user


async def preview(api: Api, instance: str, query: str = "") -> Any:
    return accepted(await api.post(f"instances/{instance}/destroy/preview{query}"))


async def test_a_service_in_use_is_not_destroyed_and_its_users_are_named(api: Api) -> None:
    instance, user = await used(api)
    sentences = refused(await api.post(f"instances/{instance}/destroy", {}), 409, "InstanceInUse")
    assert f"'{user['name']}' ({user['id']})" in sentences
    document = await api.document(instance)
    assert (document["status"], len(document["workflowHistory"])) == ("Running", 1)


@pytest.mark.parametrize(
    ("query", "body"), [("?force=1", {}), ("", {"force": True}), ("", {"force": "true"}), ("", {"force": "1"})]
)
async def test_force_destroys_it(api: Api, query: str, body: dict[str, Any]) -> None:
    instance, _ = await used(api)
    for not_forced in ("?force=0", ""):
        refused(await api.post(f"instances/{instance}/destroy{not_forced}", {"force": False}), 409, "InstanceInUse")
    accepted(await api.post(f"instances/{instance}/destroy{query}", body))
    assert (await api.settled(instance))["status"] == "Destroyed"


async def test_it_is_destroyed_once_its_users_are(api: Api) -> None:
    instance, user = await used(api)
    await api.run(user["id"], "destroy")
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"


async def test_it_is_destroyed_once_its_users_are_reconfigured_to_another(api: Api) -> None:
    instance, where = await offered(api)
    user = await launched(api, NEEDY, where)
    other = await api.running(await _manifest_of(api, instance))
    await offer(api, instance)
    await offer(api, other, where)
    refused(await api.post(f"instances/{instance}/destroy", {}), 409, "InstanceInUse")
    accepted(await api.put(f"instances/{user['id']}/configuration", {}))
    await api.settled(user["id"])
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"


async def _manifest_of(api: Api, instance: str) -> str:
    document = await api.document(instance)
    path = f"applications/{document['applicationId']}/manifest"
    return (await api.get(path)).text


async def test_an_offer_that_nobody_uses_needs_no_force(api: Api) -> None:
    instance, _ = await offered(api)
    assert (await preview(api, instance))["errors"] == []
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"


async def test_users_that_the_caller_cannot_read_are_counted_only(api: Api) -> None:
    instance, user = await used(api)
    application = (await api.document(instance))["applicationId"]
    where = (await api.document(instance))["environmentId"]
    paths = f"[/applications/{application}/*, /environments/{where}]"
    member = await api.member(f"Read: {paths}", f"EditInstance: {paths}")
    sentences = refused(await member.post(f"instances/{instance}/destroy", {}), 409, "InstanceInUse")
    assert "1 that you can't read" in sentences
    assert user["name"] not in sentences
    assert user["id"] not in sentences


async def test_a_shared_instance_in_use_needs_force_and_an_own_child_does_not(api: Api) -> None:
    name = fresh_name("child")
    child = await api.application(SIZED_CHILD, name)
    lent = await api.launch(child)
    await api.settled(lent)
    made = accepted(await api.post(f"applications/{child}/revisions", {"name": "shared", "version": 2}))["id"]
    catalog = {"configuration.shared-instances": {made: lent}}
    body = {"name": fresh_name("catalog"), "typeId": "builtin:shared_instances_catalog", "parameters": catalog}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    where = await environment(api)
    accepted(await api.put(f"environments/{where}/services", {"services": [service]}))
    using = await api.application(parent(name))
    sharing = await api.launch(using, environmentId=where, submodules={"child": {"revisionId": made}})
    document = await api.settled(sharing)
    assert (document["status"], child_of(document)) == ("Running", lent), document["errorMessage"]
    sentences = refused(await api.post(f"instances/{lent}/destroy", {}), 409, "InstanceInUse")
    assert sharing in sentences
    own = await api.launch(using)
    await api.settled(own)
    assert (await api.run(own, "destroy"))["status"] == "Destroyed"


async def test_the_preview_shows_what_stops_and_names_the_users(api: Api) -> None:
    instance, user = await used(api)
    shown = await preview(api, instance)
    assert (shown["components"], shown["workflows"]) == ([], [])
    [error] = shown["errors"]
    assert user["id"] in error
    forced = await preview(api, instance, "?force=1")
    assert (forced["errors"], forced["warnings"]) == ([], [error])
    assert [(each["path"], each["change"]) for each in forced["components"]] == [("speaker", "stops")]
    accepted(await api.post(f"instances/{instance}/destroy?force=1", {}))
    await api.settled(instance)
    [error] = (await preview(api, instance))["errors"]
    assert "is destroyed" in error
    assert (await api.document(user["id"]))["status"] == "Running"


async def test_the_preview_shows_the_components_of_own_submodules(api: Api) -> None:
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    instance = await api.launch(await api.application(parent(name)))
    await api.settled(instance)
    shown = await preview(api, instance)
    paths = [each["path"] for each in shown["components"]]
    assert "child" in paths
    assert any(path.startswith("child.") for path in paths)
    assert {each["change"] for each in shown["components"]} == {"stops"}
    reader = await api.member("Read: [/*]")
    refused(await reader.post(f"instances/{instance}/destroy/preview"), 403)


async def test_a_scheduled_destruction_is_checked_now_and_when_it_is_due(api: Api) -> None:
    instance, where = await offered(api)
    path = f"instances/{instance}/destroy/schedule"
    accepted(await api.post(path, {"interval": 600_000}))
    user = await launched(api, NEEDY, where)
    refused(await api.post(path, {"interval": 600_000}), 409, "InstanceInUse")
    accepted(await api.post(f"instances/{instance}/destroy/reschedule", {"interval": 1}))
    document = await eventually(lambda: api.settled(instance), lambda document: len(document["workflowHistory"]) >= 2)
    [job, _] = document["workflowHistory"]
    assert (document["status"], job["name"], job["status"]) == ("Running", "destroy", "Failed")
    assert user["id"] in job["errorMessage"]


async def test_a_forced_scheduled_destruction_is_carried_out(api: Api) -> None:
    instance, _ = await used(api)
    accepted(await api.post(f"instances/{instance}/destroy/schedule?force=1", {"interval": 1}))
    assert (await api.until(instance, "Destroyed"))["workflowHistory"][0]["status"] == "Succeeded"


async def test_force_is_only_0_or_1(api: Api) -> None:
    instance = await api.running(None)
    refused(await api.post(f"instances/{instance}/destroy?force=yes", {}), 400)


DESTROYED_BY_TWO = """
launch: {steps: []}
destroy:
  steps:
    - ask: {action: approval, parameters: {text: Away with it?}}
    - end: {action: wait, precedingPhases: [ask], parameters: {delay: 0}}
"""


async def test_a_preview_counts_the_steps_that_a_destroy_runs_at_every_level(api: Api) -> None:
    child = await api.application(DESTROYED_BY_TWO)
    component = f"{{type: reference.Submodule, configuration: {{__locator.application-id: '{child}'}}}}"
    shown = await preview(api, await api.running(f"application: {{components: {{hull: {component}}}}}"))
    [workflow] = shown["workflows"]
    assert workflow.endswith("#destroy")
    assert (shown["steps"], shown["approvals"]) == (2, 1)
    plain = await api.running("launch: {steps: []}")
    assert (await preview(api, plain))["steps"] == 0
