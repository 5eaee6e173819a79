"""What steps were sent, and what launches and reconfigurations took and returned, is kept with the job and shown."""

import base64
import json
from typing import Any

from launchbay import limits
from launchbay.runtime.step import OF_A_POLICY
from tests.support.applications import Ledger
from tests.support.network import answer
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused

SECRET = "pass-of-the-night-9"
MASK = "********"
SENT = """
application:
  interfaces:
    input: {name: bind(web#input.name), size: bind(web#input.size), password: bind(web#input.password)}
    result: {name: bind(web#result.name)}
    actions: {call: bind(web#actions.call), loop: bind(web#actions.loop), bad: bind(web#actions.bad),
      late: bind(web#actions.late)}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {name: configuration(string), size: configuration(int), password: configuration(string)}
        result: {name: publish-signal(string)}
        actions:
          call: "receive-command(string password, object more)"
          loop: "receive-command(object hosts)"
          bad: "receive-command(object a, object b)"
          late: receive-command()
      configuration:
        input.name: bay
        input.size: 2
        input.password: none-yet
        configuration.workflows:
          launch: {steps: [], return: {name: {value: "{$.name}-{$.size}"}}}
          call:
            parameters: [{password: {}}, {more: {default: null}}]
            steps:
              - ask:
                  action: restcall
                  parameters:
                    retryCount: 1
                    command: "URL"
                    method: post
                    headers: {X-Note: "as {$.password}", Authorization: "Basic BASE64"}
                    body: {size: "{$.size}", nested: [{pin: "{$.password}"}], more: "{$.more}"}
          loop:
            parameters: [{hosts: {}}]
            steps: [{ping: {action: wait, each: "{$.hosts}", parameters: {delay: "{$.each.value}"}}}]
          bad:
            parameters: [{a: {}}, {b: {}}]
            steps: [{broken: {action: serialize, parameters: {format: JSON, input: "{$.a}-{$.b}"}}}]
          late: {steps: [{rest: {action: wait, parameters: {delay: 0}}}]}
"""


def manifest(url: str) -> str:
    encoded = base64.b64encode(f"ops:{SECRET}".encode()).decode()
    return SENT.replace("URL", url).replace("BASE64", encoded)


async def stored(api: Api, job: str) -> str:
    """Return all that the database has of a job and its steps, as one text."""
    async with api.database.connection() as connection:
        rows = await connection.execute(
            "SELECT concat(steps.inputs, steps.outputs, steps.error_message, shown_parameters, shown_return_values)"
            " FROM jobs LEFT JOIN steps ON steps.job_id = jobs.id WHERE jobs.id = %s",
            [job],
        )
        return "".join([row[0] async for row in rows])


async def newest_job(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"jobs/{accepted(await api.get(f'instances/{instance}/jobs'))[0]['id']}"))


async def test_a_failed_step_shows_what_it_was_sent_without_secrets(api: Api, ledger: Ledger) -> None:
    ledger.server.routes["/ask"] = answer(503)
    instance = await api.running(manifest(ledger.server.url("/ask")))
    job = await api.ran(instance, "actions.call", password=SECRET, more={"\u00e4": [1.5, None, True]})
    [step] = job["steps"]
    assert (step["status"], step["attempt"], "503" in step["errorMessage"]) == ("Failed", 2, True)
    assert step["inputs"] == {
        "command": ledger.server.url("/ask"),
        "method": "post",
        "headers": {"X-Note": f"as {MASK}", "Authorization": MASK},
        "body": {"size": 2, "nested": [{"pin": MASK}], "more": {"\u00e4": [1.5, None, True]}},
    }
    assert (step["inputsCut"], step["inputsOmitted"]) == (False, False)
    kept = await stored(api, job["id"])
    assert "as ********" in kept
    assert [
        form
        for form in (SECRET, SECRET.encode().hex(), base64.b64encode(SECRET.encode()).decode()[4:-4])
        if form in kept
    ] == []


async def test_a_step_whose_inputs_cannot_be_evaluated_says_which_one(api: Api) -> None:
    instance = await api.running(manifest("http://127.0.0.1:9/"))
    job = await api.ran(instance, "actions.bad", a=[1, 2], b=[1, 2, 3])
    [step] = job["steps"]
    assert step["errorMessage"].startswith("input: Lists in one string have different lengths (2, 3): {$.a}, {$.b}.")
    assert step["inputs"] is None


async def test_a_loop_shows_its_items_and_each_of_them_its_inputs(api: Api) -> None:
    instance = await api.running(manifest("http://127.0.0.1:9/"))
    job = await api.ran(instance, "actions.loop", hosts={"a": 0, "b": 0.001})
    assert [(step["path"].rpartition("#")[2], step["inputs"]) for step in job["steps"]] == [
        ("loop/ping", {"each": {"a": 0, "b": 0.001}}),
        ("loop/ping~[0]/ping", {"delay": 0}),
        ("loop/ping~[1]/ping", {"delay": 0.001}),
    ]


async def test_what_a_policy_sets_is_named_but_not_shown(api: Api, ledger: Ledger) -> None:
    """Who may read an instance may not always read its environment."""
    environment = accepted(await api.post(f"environments/{api.environment}/clone", {"name": fresh_name()}))["id"]
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {wait.delay: 0.001}"))
    instance = await api.running(manifest(ledger.server.url("/ask")), environmentId=environment)
    [step] = (await api.ran(instance, "actions.late"))["steps"]
    assert step["inputs"] == {"delay": OF_A_POLICY}


async def test_long_inputs_are_cut_at_a_bound_and_say_so(api: Api, ledger: Ledger) -> None:
    ledger.server.routes["/ask"] = answer(503)
    instance = await api.running(manifest(ledger.server.url("/ask")))
    job = await api.ran(instance, "actions.call", password=SECRET, more={"text": "\u00e4" * 50_000})
    [step] = job["steps"]
    assert step["inputsCut"]
    assert step["inputs"]["method"] == "post"
    assert step["inputs"]["body"]["more"]["text"].endswith("\u00e4\u2026")
    async with api.database.connection() as connection:
        row = await (await connection.execute("SELECT inputs FROM steps WHERE job_id = %s", [job["id"]])).fetchone()
    assert row is not None
    assert limits.STEP_INPUTS_BYTES * 3 // 4 < len(row[0].encode()) <= limits.STEP_INPUTS_BYTES


async def test_a_resumed_job_keeps_what_its_finished_steps_were_sent(api: Api, ledger: Ledger) -> None:
    ledger.server.routes["/ask"] = answer(503)
    first = "- before: {action: wait, parameters: {delay: 0}}"
    text = manifest(ledger.server.url("/ask")).replace(
        "- ask:\n", f"{first}\n              - ask:\n                  precedingPhases: [before]\n"
    )
    instance = await api.running(text)
    failed = await api.ran(instance, "actions.call", password=SECRET)
    assert failed["status"] == "Failed"
    ledger.server.routes["/ask"] = answer(200)
    resumed = accepted(await api.post(f"instances/{instance}/jobs/{failed['id']}/resume"))["id"]
    job = accepted(await api.get(f"jobs/{resumed}?wait=30"))
    assert (job["status"], job["steps"][0]["inputs"]) == ("Succeeded", {"delay": 0})
    assert job["steps"][1]["inputs"]["headers"]["X-Note"] == f"as {MASK}"


async def test_a_launch_and_a_reconfiguration_show_what_they_took_and_returned(api: Api) -> None:
    instance = await api.running(
        manifest("http://127.0.0.1:9/"), parameters={"input.name": "quay", "input.password": SECRET}
    )
    launch = await newest_job(api, instance)
    taken = {"input.name": "quay", "input.size": 2, "input.password": MASK}
    assert (launch["parameters"], launch["parametersRecorded"]) == (taken, True)
    assert launch["results"] == {"result.name": "quay-2"}
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 3}}))
    await api.settled(instance)
    changed = await newest_job(api, instance)
    assert changed["name"] == "reconfigure"
    assert changed["parameters"]["input.size"] == 3
    assert accepted(await api.get(f"jobs/{launch['id']}"))["parameters"] == taken
    assert SECRET not in await stored(api, launch["id"])


async def test_a_launch_under_way_shows_its_parameters(api: Api) -> None:
    text = manifest("http://127.0.0.1:9/").replace(
        "launch: {steps: []", "launch: {steps: [{rest: {action: wait, parameters: {delay: 60}}}]"
    )
    instance = await api.launch(await api.application(text), parameters={"input.name": "quay"})
    job = await newest_job(api, instance)
    assert (job["status"], job["parameters"]["input.name"], job["results"]) == ("Executing", "quay", {})
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)


async def test_jobs_of_earlier_versions_say_that_nothing_is_recorded(api: Api) -> None:
    instance = await api.running(manifest("http://127.0.0.1:9/"))
    launch, job = await newest_job(api, instance), await api.ran(instance, "actions.late")
    async with api.database.connection() as connection:
        await connection.execute("UPDATE steps SET inputs = NULL WHERE job_id = %s", [job["id"]])
        await connection.execute(
            "UPDATE jobs SET shown_parameters = NULL, shown_return_values = NULL WHERE id = %s", [launch["id"]]
        )
    [step] = accepted(await api.get(f"jobs/{job['id']}"))["steps"]
    assert (step["inputs"], step["inputsCut"], step["inputsOmitted"]) == (None, False, False)
    old = accepted(await api.get(f"jobs/{launch['id']}"))
    assert (old["parameters"], old["parametersRecorded"], old["results"]) == ({}, False, {})


async def test_of_too_many_inputs_those_of_failed_steps_are_shown(api: Api) -> None:
    instance = await api.running(manifest("http://127.0.0.1:9/"))
    job = await api.ran(instance, "actions.loop", hosts=[0, 0, 0])
    text = json.dumps([{"text": "x" * (limits.JOB_INPUTS_SHOWN_BYTES // 2)}, False])
    async with api.database.connection() as connection:
        await connection.execute("UPDATE steps SET inputs = %s WHERE job_id = %s", [text, job["id"]])
        await connection.execute(
            "UPDATE steps SET status = 'Failed', error_message = 'no' WHERE job_id = %s AND path LIKE '%%[2]/ping'",
            [job["id"]],
        )
    steps = accepted(await api.get(f"jobs/{job['id']}"))["steps"]
    assert [step["status"] for step in steps if step["inputs"]] == ["Failed"]
    assert {step["inputsOmitted"] for step in steps if not step["inputs"]} == {True}


async def test_two_jobs_are_compared_by_what_they_took_sent_and_left(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\n"
        "show:\n"
        "  parameters: [what: {}, by: {default: 1}]\n"
        "  steps:\n"
        "    - say: {action: serialize, parameters: {format: JSON, input: '{$.what}'}}\n"
        "    - rest: {action: wait, parameters: {delay: 0}}\n"
        "  return: {said: {value: '{$.what}'}}\n"
    )
    await api.run(instance, "show", what="Elsa")
    await api.run(instance, "show", what="Anna")
    newest, older, launch = accepted(await api.get(f"instances/{instance}/jobs"))
    found = accepted(await api.get(f"jobs/{older['id']}/compare/{newest['id']}"))
    assert (found["one"]["id"], found["other"]["id"]) == (older["id"], newest["id"])
    assert (found["one"]["workflow"], found["other"]["status"]) == ("show", "Succeeded")
    assert found["parameters"] == [{"name": "what", "one": "Elsa", "other": "Anna"}]
    assert [each["name"] for each in found["results"]] == ["said"]
    [step] = [each for each in found["steps"] if each["path"].endswith("/say")]
    assert step["inputs"] == [{"name": "input", "one": "Elsa", "other": "Anna"}]
    assert (step["one"]["status"], step["other"]["status"]) == ("Succeeded", "Succeeded")
    whole = accepted(await api.get(f"jobs/{older['id']}/compare/{newest['id']}", everyStep="true"))
    assert len(whole["steps"]) == whole["stepsInAll"] == 2
    same = accepted(await api.get(f"jobs/{older['id']}/compare/{older['id']}"))
    assert (same["parameters"], same["results"], same["steps"]) == ([], [], [])
    other = accepted(await api.get(f"jobs/{launch['id']}/compare/{newest['id']}"))
    assert {each["one"] for each in other["steps"]} == {None}
    outsider = (await api.outsider())[0]
    refused(await outsider.get(f"jobs/{older['id']}/compare/{newest['id']}"), 403, "NotAllowed")
    refused(await api.get(f"jobs/{older['id']}/compare/{UNKNOWN}"), 404, "NotFound")


async def test_a_comparison_shows_no_secrets(api: Api) -> None:
    instance = await api.running(manifest("http://127.0.0.1:1/"), parameters={"input.password": SECRET})
    for more in ("x", SECRET):
        await api.ran(instance, "actions.bad", a=more, b=SECRET)
    newest, older, *_ = accepted(await api.get(f"instances/{instance}/jobs"))
    answered = await api.get(f"jobs/{older['id']}/compare/{newest['id']}", everyStep="true")
    compared = accepted(answered)
    # That the other value is masked says that it isn't "x"; which secret `b` had is left open.
    assert (compared["parameters"], "parameters.a" in compared["uncertain"]) == ([], True), compared
    assert SECRET not in answered.text
