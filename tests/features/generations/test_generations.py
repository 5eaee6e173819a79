"""Generations of instances, the way back to one, and the policy that takes it by itself."""

import asyncio
from typing import Any

import psycopg
import pytest

from tests.support.applications import BAD_SIZE, SIZED_CHILD, child_of, parent, picky
from tests.support.databases import row_of
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, refused


async def kept(api: Api, instance: str) -> list[Any]:
    listed: list[Any] = accepted(await api.get(f"instances/{instance}/generations"))
    return listed


async def configured(api: Api, instance: str, **body: Any) -> Any:
    accepted(await api.put(f"instances/{instance}/configuration", body))
    return await api.settled(instance)


async def test_each_configuration_that_takes_effect_is_a_generation(api: Api) -> None:
    instance = await api.running(picky())
    await configured(api, instance, parameters={"input.size": 0})
    failed = await configured(api, instance, parameters={"input.size": BAD_SIZE})
    assert failed["status"] == "Failed"
    listed = await kept(api, instance)
    assert [each["number"] for each in listed] == [2, 1]
    history = {job["id"]: job for job in (await api.document(instance))["workflowHistory"]}
    assert [history[each["jobId"]]["name"] for each in listed] == ["reconfigure", "launch"]
    shown = accepted(await api.get(f"instances/{instance}/generations/2"))
    assert (shown["parameters"], shown["version"], shown["cause"]) == ({"input.size": 0}, 2, None)
    assert shown["environment"]["policies"] == {}
    page = await api.get(f"instances/{instance}/generations", limit=1)
    following = await api.get(page.links["next"]["url"].removeprefix("/api/1/"))
    assert [each["number"] for each in accepted(following)] == [1]
    refused(await api.get(f"instances/{instance}/generations/7"), 404)
    refused(await api.get(f"instances/{instance}/generations/last"), 400)


async def test_the_same_configuration_again_is_no_other_generation(api: Api) -> None:
    instance = await api.running(picky(), parameters={"input.size": 2})
    await configured(api, instance, parameters={"input.size": 2})
    assert [each["number"] for each in await kept(api, instance)] == [1]


@pytest.mark.slow
async def test_a_rollback_leads_back_to_the_last_good_configuration(api: Api) -> None:
    instance = await api.running(picky())
    await configured(api, instance, parameters={"input.size": 0})
    await configured(api, instance, parameters={"input.size": BAD_SIZE})
    told = accepted(await api.post(f"instances/{instance}/configuration/rollback", {"preview": True}))
    assert (told["generation"], told["jobId"]) == (2, None)
    assert [each["change"] for each in told["preview"]["components"]] == ["changes"]
    assert (await api.document(instance))["status"] == "Failed"
    begun = accepted(await api.post(f"instances/{instance}/configuration/rollback", {}))
    after = await api.settled(instance)
    assert (after["status"], after["parameters"], begun["generation"]) == ("Running", {"input.size": 0}, 2)
    assert after["workflowHistory"][0]["id"] == begun["jobId"]
    # It is at its newest generation, so the next way back is one further.
    accepted(await api.post(f"instances/{instance}/configuration/rollback", {}))
    assert (await api.settled(instance))["parameters"] == {"input.size": 1}
    newest = (await kept(api, instance))[0]
    assert (newest["number"], newest["cause"]) == (3, {"kind": "rollback", "id": "1"})


@pytest.mark.slow
async def test_a_rollback_brings_the_version_back_too(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application, parameters={"input.size": 0})
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    await configured(api, instance, manifestVersion=3, parameters={"input.size": 1})
    document = await api.document(instance)
    assert (document["version"], document["returnValues"]["result.shown"]) == (3, "second at 1")
    accepted(await api.post(f"instances/{instance}/configuration/rollback", {"generation": 1}))
    document = await api.settled(instance)
    assert (document["version"], document["returnValues"]["result.shown"]) == (2, "first at 0")


async def test_a_rollback_brings_submodules_back_as_they_were(api: Api) -> None:
    name = fresh_name("child")
    application = await api.application(SIZED_CHILD, name)
    instance = await api.launch(await api.application(parent(name)), parameters={"input.size": 2})
    child = child_of(await api.settled(instance))
    accepted(await api.put_yaml(f"applications/{application}/manifest", SIZED_CHILD.replace("grown to", "grew to")))
    await configured(api, instance, parameters={"input.size": 4}, submodules={"child": {"manifestVersion": 3}})
    changed = await api.document(child)
    assert (changed["version"], changed["parameters"]) == (3, {"input.size": 4})
    accepted(await api.post(f"instances/{instance}/configuration/rollback", {"generation": 1}))
    document = await api.settled(instance)
    assert (document["status"], child_of(document)) == ("Running", child), document["errorMessage"]
    back = await api.document(child)
    assert (back["version"], back["parameters"]) == (2, {"input.size": 2})
    [inside] = accepted(await api.get(f"instances/{instance}/generations/1"))["submodules"]
    assert (inside["component"], inside["instanceId"], inside["link"]) == ("child", child, "own")


async def test_with_the_policy_a_failed_reconfiguration_rolls_back_by_itself(api: Api) -> None:
    application = await api.application(picky())
    policy = f"applications/{application}/failurePolicy"
    assert accepted(await api.get(policy)) == {"onFailure": "keep"}
    accepted(await api.put(policy, {"onFailure": "rollback"}))
    instance = await api.launch(application, parameters={"input.size": 0})
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
    jobs = (await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) >= 3))[
        "workflowHistory"
    ]
    assert [(job["name"], job["status"]) for job in jobs] == [
        ("reconfigure", "Succeeded"), ("reconfigure", "Failed"), ("launch", "Succeeded")
    ]  # fmt: skip
    document = await api.document(instance)
    assert (document["status"], document["parameters"]) == ("Running", {"input.size": 0})
    assert [each["number"] for each in await kept(api, instance)] == [1]
    log = accepted(await api.get(f"organizations/{api.organization}/audit", actor="engine/rollback", object=instance))
    assert [entry["operation"] for entry in log] == ["rollback_instance"]


SLOWLY_PICKY = """
application:
  interfaces: {input: {size: bind(web#input.size)}}
  configuration: {input.size: 0}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int)}}
      configuration:
        configuration.triggers: {input.size: update}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {steps: []}
          update:
            steps:
              - rest: {action: wait, parameters: {delay: 0.5}}
              - stop: {action: wait, parameters: {delay: "{$.size}"}}
          destroy: {steps: []}
"""


@pytest.mark.parametrize("is_revoked", [False, True])
async def test_a_rollback_has_the_rights_of_the_token_that_changed_the_instance(api: Api, is_revoked: bool) -> None:
    application = await api.application(SLOWLY_PICKY)
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    instance = await api.launch(application)
    await api.settled(instance)
    tokens = f"organizations/{api.organization}/accessTokens"
    made = accepted(await api.post(tokens, {"name": "program", "scope": ["Read: [/*]", "EditInstance: [/*]"]}))
    program = api.caller(f"Bearer {made['token']}")
    accepted(await program.put(f"instances/{instance}/configuration", {"parameters": {"input.size": -1}}))
    if is_revoked:
        accepted(await api.delete(f"{tokens}/{made['id']}"))
    if is_revoked:
        said = "The instance isn't rolled back: The access token that began this has expired or was revoked."
        await eventually(lambda: api.get(f"instances/{instance}/log"), lambda found: said in found.text)
        assert len((await api.settled(instance))["workflowHistory"]) == 2
    else:
        document = await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) == 3)
        detail = accepted(await api.get(f"instances/{instance}/jobs/{document['workflowHistory'][0]['id']}"))
        assert (detail["status"], detail["beganBy"]["kind"], detail["beganBy"]["id"]) == (
            *("Succeeded", "token", made["id"]),
        )


@pytest.mark.features("freezes")
async def test_a_rollback_waits_until_the_environment_is_not_frozen_any_more(api: Api) -> None:
    application, environment = await api.application(SLOWLY_PICKY), await api.offer()
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": -1}}))
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Incident 4711"}))
    postponed = "SELECT not_before > now() FROM rollbacks_due WHERE instance_id = %s"
    async with asyncio.timeout(20), api.database.connection() as connection:
        await eventually(lambda: row_of(connection, postponed, instance), lambda found: found == (True,))
    document = await api.document(instance)
    assert (document["status"], len(document["workflowHistory"])) == ("Failed", 2)
    accepted(await api.delete(f"environments/{environment}/freeze"))
    document = await eventually(
        lambda: api.document(instance), lambda document: document["parameters"] == {"input.size": 0}, within_s=40
    )
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_defect_in_a_rollback_is_told_by_the_log_of_the_server_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("text of a defect")

    monkeypatch.setattr("launchbay.features.generations.later.rollback", breaks)
    application = await api.application(picky())
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
    log = (
        await eventually(lambda: api.get(f"instances/{instance}/log"), lambda found: "isn't rolled back" in found.text)
    ).text
    failed = (await api.document(instance))["workflowHistory"][0]["id"]
    assert f"Internal error in Launchbay. Find the rollback of job {failed} in the server's log" in log
    assert "text of a defect" not in log


async def test_due_rollbacks_of_deleted_accounts_hold_up_no_others(api: Api) -> None:
    application = await api.application(picky())
    instance = (await api.settled(await api.launch(application)))["id"]
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    async with await psycopg.AsyncConnection.connect(api.settings.database_url, autocommit=True) as connection:
        await connection.execute(
            "INSERT INTO rollbacks_due (job_id, instance_id, owner_id, not_before)"
            " SELECT 'job ' || n, %s, 'deleted', now() - interval '1 hour' FROM generate_series(1, 50) AS n",
            (instance,),
        )
        accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
        document = await eventually(
            lambda: api.document(instance), lambda document: document["parameters"] == {"input.size": 1}
        )
        assert len(document["workflowHistory"]) == 3
        row = await (await connection.execute("SELECT count(*) FROM rollbacks_due")).fetchone()
        assert row == (0,)


async def test_there_is_no_way_back_from_the_first_configuration_and_none_while_a_job_runs(api: Api) -> None:
    instance = await api.running(picky())
    refused(await api.post(f"instances/{instance}/configuration/rollback", {}), 400, "NoGeneration")
    refused(await api.post(f"instances/{instance}/configuration/rollback", {"generation": 9}), 404)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 5}}))
    refused(await api.post(f"instances/{instance}/configuration/rollback", {"generation": 1}), 409, "InstanceBusy")


async def test_only_who_may_edit_the_instance_rolls_it_back(api: Api) -> None:
    instance = await api.running(picky())
    reader = await api.member("Read: [/applications/*, /environments/*]")
    assert len(accepted(await reader.get(f"instances/{instance}/generations"))) == 1
    refused(await reader.post(f"instances/{instance}/configuration/rollback", {"generation": 1}), 403)
