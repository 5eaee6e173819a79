"""Change sets: kept as shown, approved, applied exactly so or refused as stale, and compared with the result."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from launchbay import limits
from launchbay.store import instances
from launchbay.store.database import Connection
from tests.support.applications import BAD_SIZE, picky
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import EMAIL, Api, Caller, accepted, fresh_name, own_service, person, refused, running_api
from tests.support.services import made_vault, told

api = own_service  # whose administrator administers the server

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
SECRET = "hunter2-and-more"


async def made(api: Api, caller: Caller | None = None, **body: Any) -> Any:
    return accepted(await (caller or api).post(f"organizations/{api.organization}/change-sets", body))


async def ended(api: Api, change_set: str, timeout_s: float = 20.0) -> Any:
    return await eventually(
        lambda: api.read(f"change-sets/{change_set}"),
        lambda document: document["finishedAt"] is not None,
        within_s=timeout_s,
    )


async def pickies(api: Api, count: int) -> tuple[str, list[str]]:
    """Return an application whose newest version is 3, and settled instances of version 2."""
    application = await api.application(picky())
    instances = [await api.launch(application, parameters={"input.size": 0}) for _ in range(count)]
    for instance in instances:
        await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    return application, instances


async def lab(api: Api, approvals: int, role: str | None = None) -> str:
    """Return a new environment whose change sets need approval."""
    made = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("lab")})
    environment = str(accepted(made)["id"])
    policy = {"approvals": approvals, "roleId": role, "plansBeforeApproval": False}
    accepted(await api.put(f"environments/{environment}/changePolicy", policy))
    assert accepted(await api.get(f"environments/{environment}/changePolicy")) == policy
    return environment


@pytest.mark.slow
async def test_a_new_version_for_many_is_shown_and_applied_as_shown(api: Api) -> None:
    _, instances = await pickies(api, 2)
    shown = await made(
        api, act="version", ids=instances, version=3, parameters={"input.size": 1}, comment="OPS-17", onFailure="keep"
    )
    assert (shown["status"], shown["comment"], shown["needed"], shown["instances"]) == ("Ready", "OPS-17", 0, 2)
    for plan in shown["plan"]:
        assert (plan["fromVersion"], plan["toVersion"], plan["status"]) == (2, 3, "Planned")
        [worker] = plan["components"]
        assert (worker["path"], worker["change"], worker["type"]) == ("worker", "changes", "workflow.Instance")
        assert worker["parameters"] == [{"name": "input.size", "from": 0, "to": 1, "reset": False}]
        assert [each["name"] for each in plan["workflows"]] == ["worker#resize"]
        assert [each["permission"] for each in plan["permissions"]] == ["EditInstance"]
    assert (await api.document(instances[0]))["version"] == 2
    applied = accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    assert applied["status"] == "Applying"
    document = await ended(api, shown["id"])
    assert document["status"] == "Succeeded"
    for plan in document["plan"]:
        assert (plan["status"], plan["differences"]) == ("Succeeded", [])
        instance = await api.document(plan["instanceId"])
        assert (instance["version"], instance["returnValues"]["result.shown"]) == (3, "second at 1")
        assert instance["workflowHistory"][0]["id"] == plan["jobId"]
        newest = accepted(await api.get(f"instances/{plan['instanceId']}/generations"))[0]
        assert newest["cause"] == {"kind": "change-set", "id": shown["id"]}
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "ChangeSetEnded")
    assert shown["id"] in [
        each["id"] for each in accepted(await api.get(f"organizations/{api.organization}/change-sets"))
    ]


async def test_usual_durations_are_those_of_earlier_runs(api: Api) -> None:
    _, instances = await pickies(api, 1)
    accepted(await api.put(f"instances/{instances[0]}/configuration", {"parameters": {"input.size": 1}}))
    await api.settled(instances[0])
    shown = await made(api, act="version", ids=instances, version=3, parameters={"input.size": 0})
    [workflow] = shown["plan"][0]["workflows"]
    assert workflow["usualMs"] >= 1000


async def test_a_stale_change_set_is_refused_and_names_what_changed(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    path = f"change-sets/{shown['id']}"
    assert accepted(await api.get(path))["stale"] == []
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 1}}))
    await api.settled(instance)
    found = accepted(await api.get(path))
    assert any("present parameter input.size changed" in sentence for sentence in found["stale"])
    assert found["waitingFor"].startswith(f"It can't be applied. {found['stale'][0]} (1 more) ")
    assert "Make another one from the present state; it expires at" in found["waitingFor"]
    unseen = accepted(await api.get(f"{path}?compare=false"))
    assert unseen["stale"] is None
    assert unseen["waitingFor"].startswith("Waiting since")
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert "present parameter input.size changed" in told
    assert (await api.document(instance))["version"] == 2


async def test_who_may_read_a_change_set_and_not_apply_it_does_not_hear_that_nothing_changed(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    name = fresh_name("reader")
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": "- Read: [/*]\n"}))
    reader = await person(api, name)

    assert accepted(await reader.get(f"change-sets/{shown['id']}"))["stale"] is None


async def test_a_change_set_of_a_destroyed_instance_is_stale(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    destroy = await made(api, act="destroy", ids=[instance])
    accepted(await api.post(f"change-sets/{destroy['id']}/apply"))
    await ended(api, destroy["id"])

    found = accepted(await api.get(f"change-sets/{shown['id']}"))

    assert "The instance is destroyed; it cannot be reconfigured." in found["waitingFor"]


async def test_an_instance_that_something_else_has_for_a_moment_is_no_reason_to_refuse(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    look = instances.lock_at_once
    looked = asyncio.Event()

    async def look_once(connection: Connection, *, instance_id: str) -> str | None:
        found = await look(connection, instance_id=instance_id)
        looked.set()
        return found

    monkeypatch.setattr(instances, "lock_at_once", look_once)
    async with api.database.transaction() as connection:
        assert await look(connection, instance_id=instance) is not None
        applying = asyncio.create_task(api.post(f"change-sets/{shown['id']}/apply"))
        await looked.wait()
        assert not applying.done()

    accepted(await applying)
    await api.settled(instance)


async def test_a_change_of_the_environment_makes_it_stale(api: Api) -> None:
    environment = await lab(api, 0)
    application = await api.application(picky())
    shown = await made(api, act="launch", applicationId=application, launch={"environmentId": environment})
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {execrun.ignoreFail: true}\n"))
    told = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert "policies of the environment changed" in told


async def new_service(api: Api, name: str = "", credential: str = "hunter2") -> str:
    body = {
        "name": name or fresh_name("account"),
        "typeId": "builtin:cloud_account",
        "parameters": {
            "configuration.provider": "aws-ec2",
            "configuration.identity": "AKIA",
            "configuration.credential": credential,
        },
    }
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


@pytest.mark.parametrize("act", ["launch", "version", "destroy"])
async def test_what_the_environment_offers_is_a_fact_of_a_change_set(api: Api, act: str) -> None:
    environment, application = await lab(api, 0), await api.application(picky())
    account, other = await new_service(api, "the account"), await new_service(api, "the account")
    offers, parameters = f"environments/{environment}/services", {"input.size": 0}
    accepted(await api.put(offers, {"services": [account]}))
    body: dict[str, Any] = {"applicationId": application, "launch": {"environmentId": environment}}
    if act != "launch":
        instance = await api.launch(application, environmentId=environment, parameters=parameters)
        await api.settled(instance)
        accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
        body = {"ids": [instance], **({"version": 3} if act == "version" else {})}
    shown = await made(api, act=act, **body)
    apply = f"change-sets/{shown['id']}/apply"

    accepted(await api.put(offers, {"services": [other]}))
    sentences = refused(await api.post(apply), 409, "StaleChangeSet")
    assert f"The service the account ({account}) of the environment is gone." in sentences
    assert f"The service the account ({other}) of the environment is new." in sentences

    accepted(await api.put(offers, {"services": [account]}))
    changed = {"parameters": {"configuration.credential": "of somebody else"}}
    accepted(await api.put(f"services/{account}", changed))
    sentences = refused(await api.post(apply), 409, "StaleChangeSet")
    assert f"Since then, the service the account ({account}) of the environment changed." in sentences
    assert "somebody" not in sentences

    accepted(await api.put(f"services/{account}", {"parameters": {"configuration.credential": "hunter2"}}))
    accepted(await api.post(apply))  # as it was approved


async def test_a_secret_of_a_vault_counts_with_its_value_and_a_property_by_its_name(api: Api) -> None:
    environment, application = await lab(api, 0), await api.application(picky())
    vault = await made_vault(api, offered_by=environment)
    await told(api, vault, "set-secret", name="key", value="the first value")
    account = await new_service(api)
    reference = {"fromVault": "key", "vault": vault}
    accepted(await api.put(f"services/{account}", {"parameters": {"configuration.credential": reference}}))
    accepted(await api.put(f"environments/{environment}/services", {"services": [account]}))
    body: dict[str, Any] = {"act": "launch", "applicationId": application, "launch": {"environmentId": environment}}
    shown = await made(api, **body)
    await told(api, vault, "set-secret", name="key", value="another value")
    entries = [{"name": "place", "type": "string", "value": "here"}]
    accepted(await api.put(f"environments/{environment}/properties", {"properties": entries}))
    sentences = refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "StaleChangeSet")
    assert f"({account}) of the environment changed." in sentences
    assert "The property place of the environment is new." in sentences
    accepted(await api.post(f"change-sets/{(await made(api, **body))['id']}/apply"))


async def test_a_launch_keeps_the_version_that_was_shown(api: Api) -> None:
    application = await api.application(picky())
    body = {"parameters": {"input.size": 0}, "instanceName": fresh_name("shop")}
    shown = await made(api, act="launch", applicationId=application, launch=body)
    [plan] = shown["plan"]
    assert (plan["instanceId"], plan["instanceName"], plan["toVersion"]) == (None, body["instanceName"], 2)
    assert [each["permission"] for each in plan["permissions"]] == ["CreateInstance"]
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    [plan] = (await ended(api, shown["id"]))["plan"]
    instance = await api.document(plan["instanceId"])
    assert (instance["version"], instance["status"], plan["differences"]) == (2, "Running", [])


async def test_a_destroy_is_shown_and_applied(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="destroy", ids=[instance])
    [plan] = shown["plan"]
    assert [(each["path"], each["change"]) for each in plan["components"]] == [("worker", "stops")]
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    assert (await ended(api, shown["id"]))["status"] == "Succeeded"
    assert (await api.document(instance))["status"] == "Destroyed"


async def test_a_manifest_that_a_new_version_of_the_program_refuses_holds_up_no_end(
    databases: Databases, tmp_path: Path
) -> None:
    url = databases.create()
    async with running_api(url, data_dir=tmp_path) as api:
        application, instances = await pickies(api, 1)
        shown = await made(api, act="version", ids=instances, version=3)
        accepted(await api.post(f"change-sets/{shown['id']}/apply"))
        assert (await ended(api, shown["id"]))["plan"][0]["differences"] == []
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        # As if the process had died before it noted the end, and the next program were another one.
        await connection.execute("UPDATE change_set_instances SET status = 'Running', differences = NULL")
        await connection.execute("UPDATE change_sets SET status = 'Applying', finished_at = NULL")
        await connection.execute(
            "UPDATE manifests SET content = 'launch: 5' WHERE application_id = %s AND version = 3", (application,)
        )
    async with running_api(url, data_dir=tmp_path) as api:
        document = await ended(api, shown["id"])
    assert document["status"] == "Succeeded"
    assert "refuses the manifest" in document["plan"][0]["differences"][0]
    databases.drop(url)


async def test_with_its_policy_a_change_set_whose_job_fails_goes_back(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(
        api, act="version", ids=[instance], version=3, parameters={"input.size": BAD_SIZE}, onFailure="rollback"
    )
    accepted(await api.post(f"change-sets/{shown['id']}/apply"))
    document = await ended(api, shown["id"])
    [plan] = document["plan"]
    assert (document["status"], plan["status"]) == ("Failed", "Failed")
    assert "negative" in plan["message"]
    assert "The job failed." in plan["differences"]
    found = await eventually(lambda: api.settled(instance), lambda found: found["version"] == 2)
    assert (found["status"], found["parameters"]) == ("Running", {"input.size": 0})


async def test_what_has_a_plan_does_not_go_back_by_itself(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    body = {"act": "version", "ids": [instance], "version": 3, "onFailure": "rollback", "plan": True}

    told = refused(await api.post(f"organizations/{api.organization}/change-sets", body), 400, "InvalidAct")

    assert "Leave onFailure out, or plan." in told


async def test_others_than_its_author_approve(api: Api) -> None:
    environment = await lab(api, 2)
    application = await api.application(picky())
    shown = await made(api, act="launch", applicationId=application, launch={"environmentId": environment})
    path = f"change-sets/{shown['id']}"
    assert (shown["status"], shown["needed"]) == ("Pending", 2)
    refused(await api.post(f"{path}/apply"), 409, "ChangeSetPending")
    refused(await api.post(f"{path}/approve"), 403, "ApprovalByRequester")
    reader = await api.member("Read: [/*]")
    refused(await reader.post(f"{path}/approve"), 403)
    waits = accepted(await api.get(path))["waitingFor"]
    assert re.fullmatch(rf"Waiting since {TIME} for 2 approvals by others than {EMAIL}; it expires at {TIME}\.", waits)
    for place in range(2):
        approver = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
        document = accepted(await approver.post(f"{path}/approve", {"comment": f"number {place}"}))
        assert document["status"] == ("Ready" if place else "Pending")
        if not place:
            first = document["answers"][0]["email"]
            assert f" for 1 approval by others than {EMAIL}; {first} approved; it expires at " in document["waitingFor"]
    assert re.match(rf"Waiting since {TIME} for somebody who applies it; it expires at ", document["waitingFor"])
    assert [each["comment"] for each in document["answers"]] == ["number 0", "number 1"]
    refused(await approver.post(f"{path}/reject"), 409, "ChangeSetDecided")
    accepted(await api.post(f"{path}/apply"))
    applied = await ended(api, shown["id"])
    assert (applied["status"], applied["waitingFor"]) == ("Succeeded", None)


async def test_one_rejection_ends_it_and_it_can_be_deleted(api: Api) -> None:
    environment = await lab(api, 1)
    application = await api.application(picky())
    shown = await made(api, act="launch", applicationId=application, launch={"environmentId": environment})
    path = f"change-sets/{shown['id']}"
    approver = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    assert accepted(await approver.post(f"{path}/reject", {"comment": "no"}))["status"] == "Rejected"
    refused(await api.post(f"{path}/apply"), 409, "ChangeSetEnded")
    refused(await approver.delete(path), 403)
    accepted(await api.delete(path))
    refused(await api.get(path), 404)


async def test_only_people_with_the_role_of_the_policy_approve(api: Api) -> None:
    body = {"name": fresh_name("release"), "permissions": "- Read: [/*]\n- ApproveInstanceWorkflow: [/*]\n"}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))["id"]
    environment = await lab(api, 1, role)
    application = await api.application(picky())
    shown = await made(api, act="launch", applicationId=application, launch={"environmentId": environment})
    approver = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    refused(await approver.post(f"change-sets/{shown['id']}/approve"), 403, "NotAllowed")
    assert shown["roleIds"] == [role]


async def test_what_would_be_refused_is_refused_at_once_with_every_reason(api: Api) -> None:
    _, instances = await pickies(api, 2)
    path = f"organizations/{api.organization}/change-sets"
    body = {"act": "version", "ids": instances, "version": 3, "parameters": {"input.colour": "red"}}
    told = refused(await api.post(path, body), 400, "InvalidChangeSet")
    assert told.count("Unknown parameter 'input.colour'") == 2
    refused(await api.post(path, {"act": "version", "ids": instances}), 400, "InvalidAct")
    refused(await api.post(path, {"act": "destroy", "ids": instances, "version": 3}), 400, "InvalidAct")
    refused(await api.post(path, {"act": "launch", "ids": instances, "applicationId": "x"}), 400, "InvalidAct")
    launched = {"act": "destroy", "ids": instances, "applicationId": "x"}
    assert refused(await api.post(path, launched), 400, "InvalidAct") == "The act destroy has no applicationId."


async def test_an_expired_change_set_is_not_applied(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3, expiresIn=1)
    await eventually(lambda: time.time() * 1000 > shown["expiresAt"] + 1)
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "ChangeSetEnded")
    assert accepted(await api.get(f"change-sets/{shown['id']}"))["status"] == "Expired"


async def test_it_is_all_or_none(api: Api) -> None:
    _, instances = await pickies(api, 2)
    shown = await made(api, act="version", ids=instances, version=3)
    accepted(await api.put(f"instances/{instances[1]}/configuration", {"parameters": {"input.size": 5}}))
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "InstanceBusy")
    assert (await api.document(instances[0]))["version"] == 2


async def test_a_repeated_request_applies_it_once(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    path, key = f"change-sets/{shown['id']}/apply", fresh_name("key")
    first, again = [await api.send("POST", path, b"", **{"Idempotency-Key": key}) for _ in range(2)]
    assert accepted(first)["plan"][0]["jobId"] == accepted(again)["plan"][0]["jobId"]


async def test_parameters_are_sealed_and_secrets_are_not_shown(api: Api) -> None:
    application = await api.application(picky())
    body = {"parameters": {"input.size": 0}, "labels": {"team": "web"}, "instanceName": SECRET}
    shown = await made(api, act="launch", applicationId=application, launch=body)
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT act FROM change_sets WHERE id = %s", [shown["id"]])
        [[act]] = await cursor.fetchall()
    assert act
    assert SECRET.encode() not in bytes(act)


async def test_those_that_are_made_at_the_same_time_count_each_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    _, [instance] = await pickies(api, 1)
    path = f"organizations/{api.organization}/change-sets"
    # One that is being applied may end between this look and the requests.
    rows = await eventually(lambda: api.read(path), lambda found: "Applying" not in [each["status"] for each in found])
    statuses = [each["status"] for each in rows]
    kept = sum(status in {"Pending", "Ready"} for status in statuses)
    monkeypatch.setattr(limits, "CHANGE_SETS_OPEN", kept + 1)
    body = {"act": "version", "ids": [instance], "version": 3}
    answers = await asyncio.gather(*(api.post(path, body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429, 429]


async def test_who_may_not_read_an_instance_sees_nothing_of_its_plan(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="version", ids=[instance], version=3)
    stranger = await api.member("ViewAudit: [/*]")
    assert "instance" not in refused(await stranger.get(f"change-sets/{shown['id']}"), 403, "NotAllowed")
    assert accepted(await stranger.get(f"organizations/{api.organization}/change-sets")) == []
    _, [other] = await pickies(api, 1)
    both = await made(api, act="version", ids=[instance, other], version=3)
    application = (await api.document(other))["applicationId"]
    reader = await api.member(f"Read: [/applications/{application}/*]")
    seen = accepted(await reader.get(f"change-sets/{both['id']}"))
    assert (seen["instances"], [each["instanceId"] for each in seen["plan"]]) == (2, [other])
    assert [each["id"] for each in accepted(await reader.get(f"organizations/{api.organization}/change-sets"))] == [
        both["id"]
    ]
    refused(await stranger.post(f"change-sets/{shown['id']}/apply"), 403)


async def test_one_person_confirms_what_has_to_be_confirmed(api: Api) -> None:
    _, [instance] = await pickies(api, 1)
    shown = await made(api, act="destroy", ids=[instance], confirm=True)
    assert (shown["status"], shown["needed"], shown["confirm"]) == ("Pending", 1, True)
    refused(await api.post(f"change-sets/{shown['id']}/apply"), 409, "ChangeSetPending")
    editor = await api.member("Read: [/*]", "EditInstance: [/*]")
    refused(await editor.post(f"change-sets/{shown['id']}/approve"), 403, "NotAllowed")
    token = accepted(
        await api.post(f"organizations/{api.organization}/accessTokens", {"name": fresh_name("bot"), "days": 1})
    )
    bot = api.caller(f"Bearer {token['token']}")
    refused(await bot.post(f"change-sets/{shown['id']}/approve"), 403, "NotAllowed")
    refused(await bot.post(f"change-sets/{shown['id']}/reject"), 403, "NotAllowed")
    assert accepted(await api.post(f"change-sets/{shown['id']}/reject"))["status"] == "Rejected"
    assert (await api.document(instance))["status"] == "Running"


async def test_an_approval_in_person_replaces_that_of_a_token_and_outlasts_it(api: Api) -> None:
    environment = await lab(api, 2)
    application = await api.application(picky())
    shown = await made(api, act="launch", applicationId=application, launch={"environmentId": environment})
    path = f"change-sets/{shown['id']}"
    in_person = await person(api, "Administrator")
    tokens = f"organizations/{api.organization}/accessTokens"
    token = accepted(await in_person.post(tokens, {"name": "bot", "days": 1}))
    by_token = api.caller(f"Bearer {token['token']}")

    async def approvals_kept(*answers: tuple[Caller, str]) -> list[str]:
        for caller, comment in answers:
            accepted(await caller.post(f"{path}/approve", {"comment": comment}))
        return [each["comment"] for each in accepted(await api.get(path))["answers"]]

    assert await approvals_kept((by_token, "by a program")) == ["by a program"]
    assert await approvals_kept((in_person, "in person")) == ["in person"]
    assert await approvals_kept((by_token, "by a program again"), (in_person, "once more")) == ["in person"]
    accepted(await in_person.delete(f"{tokens}/{token['id']}"))
    second = await person(api, "Administrator")
    assert accepted(await second.post(f"{path}/approve"))["status"] == "Ready"


async def test_a_policy_that_asks_more_people_leaves_nothing_to_confirm(api: Api) -> None:
    environment = await lab(api, 2)
    application = await api.application(picky())
    launch = {"environmentId": environment}
    shown = await made(api, act="launch", applicationId=application, launch=launch, confirm=True)
    assert (shown["needed"], shown["confirm"]) == (2, False)
    refused(await api.post(f"change-sets/{shown['id']}/approve"), 403, "ApprovalByRequester")
