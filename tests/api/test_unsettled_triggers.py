"""Workflows whose triggers start each other: the chain has an end, and people go first (language §5, Triggers)."""

import asyncio
from typing import Any

import httpx
import pytest

from launchbay import limits
from launchbay.manifest.compiler import check
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, refused, running_api

# Each adds a letter to what the other one returned last, so their signals never settle.
ENDLESS = """
application:
  interfaces:
    result: {word: bind(left#out.word)}
    actions: {start: bind(left#actions.start)}
    input: {note: bind(left#input.note)}
  bindings: [[left, right]]
  components:
    left:
      type: workflow.Instance
      interfaces:
        input: {note: configuration(string)}
        out: {word: publish-signal(string)}
        in: {answer: consume-signal(string)}
        actions: {start: receive-command()}
      configuration:
        input.note: none
        configuration.triggers: {in.answer: follow}
        configuration.workflows:
          launch: {steps: [], return: {word: {value: ""}}}
          start: {steps: [], return: {word: {value: "x"}}}
          follow: &follow
            steps:
              - look: {action: getSignals, output: {seen: result}}
              - rest: {action: wait, precedingPhases: [look], parameters: {delay: PAUSE}}
            return: {word: {value: "{$.seen.in.answer}y"}}
    right:
      type: workflow.Instance
      interfaces:
        in: {word: consume-signal(string)}
        out: {answer: publish-signal(string)}
      configuration:
        configuration.triggers: {in.word: follow}
        configuration.workflows:
          launch: {steps: [], return: {answer: {value: ""}}}
          follow:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {answer: {value: "{$.seen.in.word}"}}
"""


def test_a_cycle_of_triggers_is_seen_before_it_runs() -> None:
    [warning] = [each for each in check(ENDLESS.encode(), known_actions={}) if each.code == "TriggerCycle"]
    assert warning.message.startswith("left: These workflows start each other: ")
    assert "'left › follow' → 'right › follow' → 'left › follow'" in warning.message
    assert ENDLESS.splitlines()[warning.line - 1].strip() == "configuration.triggers: {in.answer: follow}"
    # A constant changes nothing the second time.
    settled = ENDLESS.replace('"{$.seen.in.word}"', '"always"')
    assert "TriggerCycle" not in {each.code for each in check(settled.encode(), known_actions={})}


async def triggered(api: Api, instance: str) -> None:
    """Wait until the running job is one that a trigger has started."""
    await eventually(
        lambda: api.document(instance), lambda document: document.get("workflow", {}).get("name") == "follow"
    )


async def test_a_chain_of_triggers_ends_with_an_error_that_names_the_cycle(api: Api) -> None:
    instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", "0")))
    document = await api.settled(instance, timeout_s=60)
    # The launch itself changes signals; the chain that it starts has the same end.
    assert document["status"] == "Running"
    told = document["errorMessage"]
    assert told.startswith(f"The triggers don't settle: after {limits.TRIGGER_ROUNDS} rounds, ")
    assert "left › follow" in told
    assert "right › follow" in told
    names = [job["name"] for job in document["workflowHistory"]]
    assert names.count("follow") <= 2 * limits.TRIGGER_ROUNDS
    assert document["workflowHistory"][0]["status"] == "Failed"
    # A later change starts a chain of its own, which has the same end.
    accepted(await api.post(f"instances/{instance}/actions.start", {}))
    document = await api.settled(instance, timeout_s=60)
    assert document["workflowHistory"][0]["name"] == "follow"


async def test_signals_that_settle_may_change_any_number_of_times(api: Api) -> None:
    text = ENDLESS.replace('"{$.seen.in.answer}y"', '"same"').replace("PAUSE", "0")
    instance = await api.running(text)
    assert (await api.settled(instance))["errorMessage"] is None
    for _ in range(3):
        document = await api.run(instance, "actions.start")
        assert document["errorMessage"] is None


# What a person sends, and the workflow that it starts.
REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "destroy": ("POST", {}, "destroy"),
    "configuration": ("PUT", {"parameters": {"input.note": "new"}}, "reconfigure"),
    "configuration/rollback": ("POST", {"generation": 1}, "reconfigure"),
    "actions.start": ("POST", {}, "actions.start"),
    "actions.start/schedule": ("POST", {"interval": "0", "parameters": {}}, "actions.start"),
}
NEEDS = {"configuration/rollback": pytest.mark.features("generations")}


@pytest.mark.parametrize(
    ("conditions", "pause"), [("", "0"), ("", "0.3"), ("key", "0.3"), ("match", "0.3"), ("key and match", "0.3")]
)
@pytest.mark.parametrize("what", [pytest.param(each, marks=NEEDS.get(each, ())) for each in REQUESTS])
async def test_a_person_goes_before_the_next_workflow(api: Api, what: str, conditions: str, pause: str) -> None:
    instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", pause)))
    await triggered(api, instance)
    method, body, workflow = REQUESTS[what]
    headers = {"Idempotency-Key": fresh_name("key")} if "key" in conditions else {}
    path = f"instances/{instance}/{what}"
    if "match" in conditions:
        headers["If-Match"] = "*"
    document = accepted(await api.client.request(method, path, json=body, headers=headers))
    if what == "destroy":
        assert (await api.settled(instance))["status"] == "Destroyed"
    else:
        application = (await api.document(instance))["applicationId"]
        only = f"application={application}&workflow={workflow}&status=Succeeded"
        asked = f"organizations/{api.organization}/jobs?{only}"
        await eventually(lambda: api.read(asked))
    if "key" in conditions and what != "configuration":  # which takes no key
        again = await api.client.request(method, path, json=body, headers=headers)
        assert accepted(again) == document
        assert again.headers["idempotency-replayed"] == "true"
    if what != "destroy":  # the chain would go on for a while
        accepted(await api.post(f"instances/{instance}/destroy", {}))


async def test_a_person_at_another_server_is_accepted_after_a_longer_workflow_at_the_next_attempt(
    databases: Databases,
) -> None:
    url = databases.create()
    async with running_api(url) as api, running_api(url, engine=False) as other:
        instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", "3")))
        await triggered(api, instance)

        async def destroy() -> httpx.Response:
            return await other.post(f"instances/{instance}/destroy", {})

        answer = await destroy()
        while answer.status_code == 409:
            answer = await destroy()
        accepted(answer)
        document = await api.settled(instance)
        assert document["status"] == "Destroyed"
        assert [job["name"] for job in document["workflowHistory"]].count("follow") <= 3
    databases.drop(url)


async def test_a_person_with_a_tag_that_the_workflow_outdates_is_accepted_with_the_next_tag(api: Api) -> None:
    instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", "0.5")))
    await triggered(api, instance)

    async def destroy() -> httpx.Response:
        tag = (await api.get(f"instances/{instance}")).headers["etag"]
        return await api.client.post(f"instances/{instance}/destroy", json={}, headers={"If-Match": tag})

    answer = await destroy()
    while answer.status_code in {409, 412}:
        answer = await destroy()
    accepted(answer)
    document = await api.settled(instance)
    assert document["status"] == "Destroyed"
    assert [job["name"] for job in document["workflowHistory"]].count("follow") <= 4


async def test_a_request_without_permission_or_sense_does_not_hold_triggers_back(api: Api) -> None:
    instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", "0.3")))
    reader = await api.member("Read: [/*]")
    await triggered(api, instance)
    for caller, workflow, status in ((reader, "destroy", 403), (api, "actions.unknown", 400)):
        headers = {"Idempotency-Key": fresh_name("key")}
        refused(await caller.client.post(f"instances/{instance}/{workflow}", json={}, headers=headers), status)
    before = len((await api.document(instance))["workflowHistory"])
    await eventually(
        lambda: api.document(instance),
        lambda found: len(found["workflowHistory"]) >= before + 3,
        within_s=limits.PERSON_FIRST_S / 2,
    )


# One says a number, and the other takes its time to hear it.
HEARD = """
application:
  interfaces:
    result: {heard: bind(ear#out.heard)}
    actions: {say: bind(mouth#actions.say)}
  bindings: [[mouth, ear]]
  components:
    mouth:
      type: workflow.Instance
      interfaces:
        own: {word: publish-signal(int)}
        actions: {say: receive-command(int word)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {word: {value: 0}}}
          say: {steps: [], return: {word: {value: "{$.word}"}}}
    ear:
      type: workflow.Instance
      required: [own]
      interfaces:
        own: {word: consume-signal(int)}
        out: {heard: publish-signal(int)}
      configuration:
        configuration.triggers: {own.word: follow}
        configuration.workflows:
          launch: {steps: [], return: {heard: {value: 0}}}
          follow:
            steps:
              - look: {action: getSignals, output: {seen: result}}
              - rest: {action: wait, precedingPhases: [look], parameters: {delay: 0.5}}
            return: {heard: {value: "{$.seen.own.word}"}}
"""


async def test_triggers_wait_no_longer_than_until_the_person_had_their_turn(api: Api) -> None:
    instance = await api.launch(await api.application(HEARD))
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/actions.say", {"word": 1}))
    async with asyncio.timeout(limits.PERSON_FIRST_S / 2):
        await triggered(api, instance)
        accepted(await api.post(f"instances/{instance}/actions.say", {"word": 2}))
        await eventually(
            lambda: api.document(instance),
            lambda found: found["returnValues"] == {"result.heard": 2},
            within_s=limits.PERSON_FIRST_S / 2,
        )


async def test_no_trigger_follows_a_cancelled_job(api: Api) -> None:
    instance = await api.launch(await api.application(ENDLESS.replace("PAUSE", "30")))
    await triggered(api, instance)
    jobs = [
        job
        for job in (
            await eventually(
                lambda: api.read(f"instances/{instance}/jobs"),
                lambda found: [job for job in found if job["status"] == "Executing"],
            )
        )
        if job["status"] == "Executing"
    ]
    accepted(await api.delete(f"instances/{instance}/jobs/{jobs[0]['id']}"))
    document = await api.settled(instance)
    assert document["workflowHistory"][0]["status"] == "Failed"
