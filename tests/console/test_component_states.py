"""What components do while others of their instance wait: pages, lists and lanes say the same."""

import re

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.manifests import WAITING_COMPONENTS
from tests.support.pages import get, words_of
from tests.support.service import Api, accepted, fresh_name

SHOWN = {"first": "Running", "second": "Running", "ask": "Needs approval", "late": "Not started"}


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


async def waiting(api: Api) -> tuple[str, str]:
    """Launch, and return the instance's name and ID as soon as it asks."""
    name = fresh_name("Ferry").replace(" ", "-")
    instance = await api.launch(await api.application(WAITING_COMPONENTS), instanceName=name)
    await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    return name, instance


async def statuses(api: Api, instance: str) -> dict[str, str]:
    found = accepted(await api.get(f"instances/{instance}/components"))
    return {each["path"]: each["status"] for each in found}


async def test_components_that_are_done_run_while_another_waits(api: Api, visitor: httpx.AsyncClient) -> None:
    name, instance = await waiting(api)
    # statuses without an effect are written a moment later
    await eventually(lambda: statuses(api, instance), lambda found: list(found.values()).count("Running") >= 2)
    assert await statuses(api, instance) == {
        "first": "Running",
        "second": "Running",
        "ask": "NeedsApproval",
        "late": "NotStarted",
    }
    summary = "2 of 4 components running, 1 waiting for approval"
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    assert summary in page
    for path, words in SHOWN.items():
        assert re.search(rf'"{path}, [^"]*{words}"', page), path
    assert summary in (await get(visitor, f"/console/organizations/{api.organization}/instances?q={name}")).answer.text
    [listed] = accepted(await api.get(f"organizations/{api.organization}/instances", name=name))
    counts = listed["components"]
    assert (counts["total"], counts["running"], counts["waiting"], counts["notStarted"]) == (4, 2, 1, 1)
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    lanes = (await get(visitor, f"/console/instances/{instance}/jobs/{job}")).answer.text
    assert "Needs approval" in lanes.partition("Timeline")[2]


async def test_what_a_cancellation_interrupts_has_not_failed(api: Api, visitor: httpx.AsyncClient) -> None:
    _, instance = await waiting(api)
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)
    assert await statuses(api, instance) == {
        "first": "Running",
        "second": "Running",
        "ask": "Interrupted",
        "late": "NotStarted",
    }
    run = (await get(visitor, f"/console/instances/{instance}/jobs/{job}")).answer.text
    assert "Status Interrupted" in words_of(run)
    assert "Status Failed" not in words_of(run)
    assert 'class="g fail"' not in run.partition("Timeline")[2].partition("Search the log")[0]
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    legend = words_of(page.partition('class="legend"')[2].partition("</div>")[0])
    assert "Interrupted" in legend
    assert "Sleeping" not in legend
    last = words_of(page.partition("Last run")[2])
    assert " Interrupted " in last.partition("Latest log lines")[0]
    assert " Failed " not in last.partition("Latest log lines")[0]
    await api.run(instance, "destroy")
    assert set((await statuses(api, instance)).values()) == {"Destroyed"}
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    assert "0 of 4 components running, 4 destroyed" in page


IGNORING = """
application:
  components:
    worker:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - risky: {action: .risky, phase: first, parameters: {ignoreFail: true}}
              - ask: {action: approval, precedingPhases: [first], parameters: {text: "Go on?"}}
          .risky:
            steps: [{call: {action: restcall, parameters: {command: "ftp://nowhere.example"}}}]
"""


async def test_a_failure_that_is_ignored_leaves_its_component_running(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Raft").replace(" ", "-")
    instance = await api.launch(await api.application(IGNORING), instanceName=name)
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    assert await statuses(api, instance) == {"worker": "NeedsApproval"}
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    assert accepted(await api.get(f"jobs/{job}"))["percent"] == 50, "one of two is finished, though it has failed"
    accepted(await api.post(f"approvals/{asked[0]['id']}/approve", {}))
    document = await api.settled(instance)
    assert document["status"] == "Running"
    assert await statuses(api, instance) == {"worker": "Running"}
    path = f"/console/instances/{instance}"
    page = (await get(visitor, path)).answer.text
    assert re.search('"worker, [^"]*Running"', page)
    assert "1 of 1 components running" in page
    assert " Failed, ignored " in words_of(page.partition("Last run")[2])
    [listed] = accepted(await api.get(f"organizations/{api.organization}/instances", name=name))
    assert (listed["health"], listed["components"]["running"]) == ("Healthy", 1)
    job = document["workflowHistory"][0]["id"]
    steps = accepted(await api.get(f"jobs/{job}"))["steps"]
    ended = {step["name"]: (step["status"], step["ignored"]) for step in steps}
    assert ended == {"risky": ("Failed", True), "call": ("Failed", False), "ask": ("Succeeded", False)}
    run = (await get(visitor, f"{path}/jobs/{job}")).answer.text.partition("Timeline")[2]
    assert 'aria-label="Failed"' not in run, "the step inside the ignored one is a warning too, as in the log"
    assert re.search(
        'aria-label="Succeeded"[^<]*<use[^<]*</use></svg><span class="lbl">worker', run.replace("/>", "></use>")
    )
    assert 'aria-label="Failed, ignored"' in run
    compared = accepted(await api.get(f"jobs/{job}/compare/{job}?everyStep=true"))["steps"]
    assert {each["path"]: each["other"]["status"] for each in compared}["worker#launch/risky"] == "Failed"
