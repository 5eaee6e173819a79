"""The policy of an environment at every door: what needs a change set is refused wherever it is asked for."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx

from tests.support.applications import picky
from tests.support.eventually import eventually
from tests.support.service import Api, Caller, accepted, fresh_name, person, refused

END_MS = (int(time.time()) + 3_600) * 1_000  # from now
RULE = "asks for a change set with 1 approval."


async def ruled(api: Api) -> str:
    """Return a new environment in which changes need an approved change set."""
    environment = await api.offer()
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    return environment


async def held(api: Api) -> tuple[str, str, str]:
    """Return an environment, an application with a newer version, and an instance, made before the policy."""
    environment = await api.offer()
    application = await api.application(picky())
    instance = await api.launch(application, environmentId=environment, parameters={"input.size": 0})
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 0.0}}))
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    return environment, application, instance


async def approved(api: Api, **body: Any) -> str:
    """Return a change set that somebody else has approved."""
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    other = await person(api, "Administrator")
    accepted(await other.post(f"change-sets/{made['id']}/approve"))
    return str(made["id"])


async def test_no_door_goes_around_the_policy(api: Api) -> None:
    environment, application, instance = await held(api)
    at, home = f"instances/{instance}", f"environments/{environment}"
    before = await api.document(instance)
    doors: dict[str, Callable[[Caller], Awaitable[httpx.Response]]] = {
        "launch": lambda by: by.post(f"applications/{application}/launch", {"environmentId": environment}),
        "reconfigure": lambda by: by.put(f"{at}/configuration", {"parameters": {"input.size": 0}}),
        "rollback": lambda by: by.post(f"{at}/configuration/rollback", {"generation": 1}),
        "destroy": lambda by: by.post(f"{at}/destroy", {}),
        "destroy by schedule": lambda by: by.post(f"{at}/destroy/schedule", {"interval": 60000}),
        "delete by force": lambda by: by.delete(f"{at}?force=1"),
        "end of the lifetime": lambda by: by.put(f"{at}/destroyAt", {"destroyAt": END_MS}),
        "markers": lambda by: by.put(f"{home}/markers", {"markers": []}),
        "properties": lambda by: by.put(f"{home}/properties", {"properties": []}),
        "labels": lambda by: by.put(f"{home}/labels", {"team": "web"}),
        "lifetimes": lambda by: by.put(f"{home}/lifetime", {"graceMs": 60_000}),
    }
    tokens = f"organizations/{api.organization}/accessTokens"
    token = accepted(await api.post(tokens, {"name": fresh_name("bot"), "days": 1}))["token"]
    callers: dict[str, Caller] = {"a person": api, "an agent": api.caller(f"Bearer {token}")}
    for who, caller in callers.items():
        for door, open_it in doors.items():
            answer = await open_it(caller)
            assert answer.status_code == 403, (who, door, answer.text)
            said = answer.json()
            assert (said["code"], RULE in said["errors"][0]) == ("ChangeSetRequired", True), (who, door, said)
    after = await api.document(instance)
    assert (after["status"], after["workflowHistory"]) == (before["status"], before["workflowHistory"])
    assert accepted(await api.get(f"{home}/labels")) == {}


async def test_work_that_acts_later_is_refused_too(api: Api) -> None:
    _, application, instance = await held(api)
    home = f"organizations/{api.organization}"
    bulk = accepted(await api.post(f"{home}/bulk", {"act": "destroy", "ids": [instance]}))["id"]
    rollout = accepted(await api.post(f"{home}/rollouts", {"applicationId": application, "version": 3}))["id"]

    async def texts(path: str) -> str:
        return (await api.get(path)).text + (await api.get(f"{path}/instances")).text

    for path in (f"bulk/{bulk}", f"rollouts/{rollout}"):
        await eventually(partial(texts, path), lambda found: RULE in found)
    assert (await api.document(instance))["status"] == "Running"


async def test_what_was_scheduled_before_the_policy_fails_with_its_sentence(api: Api) -> None:
    environment = await api.offer()
    instance = await api.launch(await api.application(), environmentId=environment)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": 400}))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    found = await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= 2)
    found = await api.settled(instance)
    assert found["status"] == "Running"
    assert RULE in accepted(await api.get(f"jobs/{found['workflowHistory'][0]['id']}"))["errorMessage"]


async def test_an_approved_change_set_passes_and_one_from_before_the_policy_does_not(api: Api) -> None:
    environment = await ruled(api)
    application = await api.application()
    body = {"act": "launch", "applicationId": application, "launch": {"environmentId": environment}}
    change_set = await approved(api, **body)
    applied = accepted(await api.post(f"change-sets/{change_set}/apply"))
    assert applied["status"] in {"Applying", "Succeeded"}
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 0}))
    early = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    said = refused(await api.post(f"change-sets/{early}/apply"), 403, "ChangeSetRequired")
    assert "created under another policy" in said
    assert accepted(await api.get(f"change-sets/{early}"))["status"] == "Ready"


async def test_commands_run_and_jobs_are_cancelled_under_a_policy(api: Api) -> None:
    environment = await api.offer()
    application = await api.application("greet:\n  steps: []\nlaunch:\n  steps: []\ndestroy:\n  steps: []\n")
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    accepted(await api.post(f"instances/{instance}/greet", {}))
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 0}))
    accepted(await api.post(f"instances/{instance}/destroy", {}))


async def test_a_directory_is_applied_by_an_approved_change_set_alone(api: Api) -> None:
    name = fresh_name("strict").replace(" ", "-")
    home = f"organizations/{api.organization}"
    made = accepted(await api.post(f"{home}/environments", {"name": name}))["id"]
    accepted(await api.put(f"environments/{made}/changePolicy", {"approvals": 1}))
    content = "markers: [blue]\n"
    body = {"act": "apply", "files": {f"environments/{name}.yaml": content}}
    early = accepted(await api.post(f"{home}/change-sets", body))["id"]
    assert (await api.post(f"change-sets/{early}/apply")).json()["code"] == "ChangeSetPending"
    assert accepted(await api.get(f"environments/{made}/markers"))["markers"] == []
    change_set = await approved(api, **body)
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    await eventually(lambda: api.read(f"change-sets/{change_set}"), lambda found: found["status"] != "Applying")
    assert accepted(await api.get(f"environments/{made}/markers"))["markers"] == [{"name": "blue"}]


async def test_a_destroy_that_failed_can_be_resumed_under_a_policy(api: Api) -> None:
    environment = await api.offer()
    manifest = "launch:\n  steps: []\ndestroy:\n  steps:\n  - nap: {action: wait, parameters: {delay: 1 h}}\n"
    instance = await api.launch(await api.application(manifest), environmentId=environment)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/destroy", {}))
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    accepted(await api.post(f"instances/{instance}/jobs/{job}/resume"))


async def test_what_no_change_set_contains_has_a_true_remedy(api: Api) -> None:
    environment, _, instance = await held(api)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    said = refused(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": END_MS}), 403, "ChangeSetRequired")
    assert "No change set can do this. Whoever may edit the environment can set the policy to 0 approvals" in said
    assert "To destroy the instance, create a change set: launchbay change-set create destroy." in said
    said = refused(await api.put(f"instances/{instance}/environments", {"environments": []}), 403, "ChangeSetRequired")
    assert "set the policy to 0 approvals" in said
