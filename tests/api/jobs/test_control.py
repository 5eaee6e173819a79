"""Conditions, loops, polling, time limits and what runs after a failure (manifest.md, "Conditions and loops")."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.support.applications import Ledger
from tests.support.network import Received, answer
from tests.support.service import Api, accepted

NAMING = """
launch:
  parameters:
    - hosts: {default: [one, two, three]}
  steps:
    - skipped: {action: .call, when: "length($.hosts) > 3", parameters: {host: none}, output: {extra: answer}}
    - call:
        action: .call
        each: $.hosts
        parallel: 2
        parameters: {host: "{$.each.value}"}
        output: {answers: answer}
    - last: {action: wait, when: $.extra == null, precedingPhases: [call, skipped], parameters: {delay: 0}}
  return: {answers: {value: "{$.answers}"}}
.call:
  steps:
    - ask: {action: restcall, parameters: {command: "%s/{$.host}", method: get}, output: {answer: content}}
  return: {answer: {value: "{$.host}"}}
"""
POLLING = """
launch:
  steps:
    - ask:
        action: restcall
        until: $.state.state == 'ready'
        delay: 50 ms
        parameters: {command: "%s/state", method: get}
        output: {state: content}
  return: {state: {value: "{$.state.state}"}}
"""
LATE = """
launch:
  timeout: 300 ms
  steps: [{rest: {action: wait, parameters: {delay: 1 h}}}]
  onFailure: [{undo: {action: restcall, parameters: {command: "%s/undo", method: post, body: "{$.error.message}"}}}]
  finally: [{close: {action: restcall, parameters: {command: "%s/close", method: post}}}]
"""
SLOW_STEP = "launch: {steps: [{rest: {action: wait, timeout: 200 ms, parameters: {delay: 1 h, retryCount: 3}}}]}"


async def launched(api: Api, manifest: str) -> tuple[str, Any]:
    """Launch an application, and return the instance and its ended job."""
    instance = await api.launch(await api.application(manifest))
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]
    return instance, accepted(await api.get(f"jobs/{job['id']}?wait=30"))


async def returned(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}"))["returnValues"]


async def test_skipped_steps_and_items_of_loops_are_shown(api: Api, ledger: Ledger) -> None:
    instance, job = await launched(api, NAMING % ledger.server.url(""))
    assert (job["status"], await returned(api, instance)) == ("Succeeded", {"answers": ["one", "two", "three"]})
    steps = {step["path"]: step for step in job["steps"]}
    skipped = steps["workflow#launch/skipped"]
    assert (skipped["status"], skipped["skipped"], skipped["attempts"]) == ("Succeeded", True, [])
    assert [step["skipped"] for path, step in steps.items() if path != "workflow#launch/skipped"].count(True) == 0
    assert steps["workflow#launch/call"]["children"] == 3
    item = steps["workflow#launch/call~[1]/call"]
    assert (item["name"], item["action"], item["status"]) == ("call", ".call", "Succeeded")
    assert steps["workflow#launch/call~[1]/call/ask"]["action"] == "restcall"
    assert not [path for path in steps if "each" in path]


async def test_a_resumed_loop_repeats_what_failed_and_nothing_else(api: Api, ledger: Ledger) -> None:
    ledger.fail("/two")
    instance, job = await launched(api, NAMING % ledger.server.url(""))
    assert job["status"] == "Failed"
    assert "1 of 3 failed: item 1: " in job["errorMessage"]
    ledger.mend("/two")
    asked = ledger.counts()["/one"]
    resumed = await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {})
    accepted(resumed)
    job = accepted(await api.get(f"jobs/{resumed.headers['launchbay-job']}?wait=30"))
    assert (job["status"], await returned(api, instance)) == ("Succeeded", {"answers": ["one", "two", "three"]})
    assert ledger.counts()["/one"] == asked


async def test_a_step_polls_until_its_condition_is_true(api: Api, ledger: Ledger) -> None:
    states = iter(["made", "made", "ready"])

    async def state(received: Received, writer: asyncio.StreamWriter) -> None:
        body = msgspec.json.encode({"state": next(states)})
        await answer(body=body, headers=[("Content-Type", "application/json")])(received, writer)

    ledger.server.routes["/state"] = state
    instance, job = await launched(api, POLLING % ledger.server.url(""))
    assert (job["status"], await returned(api, instance)) == ("Succeeded", {"state": "ready"})
    assert job["steps"][0]["attempt"] == 3


async def test_a_late_workflow_fails_after_it_has_cleaned_up(api: Api, ledger: Ledger) -> None:
    ledger.server.routes.update({"/undo": answer(200), "/close": answer(200)})
    _, job = await launched(api, LATE % (ledger.server.url(""), ledger.server.url("")))
    assert job["status"] == "Failed"
    assert job["errorMessage"] == "Workflow 'launch' exceeded its timeout of 0.3 s."
    assert [each.target for each in ledger.server.received if each.target in {"/undo", "/close"}] == ["/undo", "/close"]
    assert {step["name"]: step["status"] for step in job["steps"]} == {
        "rest": "Failed",
        "undo": "Succeeded",
        "close": "Succeeded",
    }


async def test_a_late_step_fails_without_a_retry(api: Api) -> None:
    _, job = await launched(api, SLOW_STEP)
    assert job["status"] == "Failed"
    assert "step 'rest' failed: The step exceeded its timeout of 0.2 s." in job["errorMessage"]
    assert job["steps"][0]["attempt"] == 1


@pytest.mark.parametrize(
    ("step", "code", "message"),
    [
        ("when: 3", "MalformedControl", "'when': expected true, false or an expression"),
        ("when: $.a >", "MalformedExpression", "expected a value"),
        ("when: a > 1", "MalformedExpression", "unknown function 'a'; variables start with $."),
        ("each: 3", "MalformedControl", "'each': expected a list, a map or an expression"),
        ("each: [1], parallel: 0", "MalformedControl", "'parallel': expected a number from 1 to 100"),
        ("timeout: soon", "MalformedControl", "'timeout': 'soon' is not a duration"),
        ("until: true, delay: -1", "MalformedControl", "'delay': -1 is negative"),
    ],
)
async def test_wrong_values_are_findings_with_their_place(api: Api, step: str, code: str, message: str) -> None:
    manifest = f"launch: {{steps: [{{s: {{action: wait, {step}, parameters: {{delay: 0}}}}}}]}}"
    refused = await api.put_yaml(f"applications/{await api.application()}/manifest", manifest)
    assert refused.status_code == 400
    (finding,) = [each for each in refused.json()["findings"] if each["code"] == code]
    assert message in finding["message"]
    assert (finding["line"], finding["column"] > 40) == (1, True)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("when: $.missing", "when: "),
        ("when: $.name + 1 == 2", "+ can't add text and a number"),
        ("each: $.name", "each: expected a list or a map, not text."),
        ("each: 'range(1001)'", "each: 1001 items (limit: 1000)."),
        ("each: [1], parallel: '{$.name}'", "parallel: expected a number from 1 to 100, not text."),
        ("timeout: '{$.name}'", "timeout: 'web' is not a duration"),
    ],
)
async def test_values_that_turn_out_wrong_fail_the_step(api: Api, step: str, problem: str) -> None:
    _, job = await launched(
        api,
        f"launch: {{parameters: [name: {{default: web}}], steps: [{{s: {{action: wait, {step}, "
        "parameters: {delay: 0}}}]}",
    )
    assert job["status"] == "Failed"
    assert problem in job["errorMessage"]
