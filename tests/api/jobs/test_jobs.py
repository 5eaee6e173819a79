"""Jobs in detail, and cancelled."""

import asyncio
from collections import Counter
from textwrap import dedent

import pytest

from tests.support.applications import TWO_COMPONENTS, Ledger, failed_launch, family, job_of, until_step
from tests.support.eventually import eventually
from tests.support.manifests import WORKFLOWS
from tests.support.network import answer
from tests.support.service import UNKNOWN, Api, accepted, refused

# `early` has no record. What follows it failed and was ignored: a step, a call, an item of a loop.
LENIENT = """
launch:
  parameters: [{lenient: {default: true}}]
  steps:
    - early: {action: serialize, parameters: {input: 1, format: JSON}}
    - hopeless:
        action: restcall
        precedingPhases: [early]
        parameters: {command: "LEDGER/hopeless", retryCount: 1, ignoreFail: "{$.lenient}"}
    - pair: {action: .pair, precedingPhases: [early], parameters: {ignoreFail: "{$.lenient}"}, output: {pair: name}}
    - items:
        action: restcall
        each: [a, b]
        precedingPhases: [hopeless, pair]
        parameters: {command: "LEDGER/item/{$.each.value}", ignoreFail: "{$.lenient}"}
    - last: {action: restcall, precedingPhases: [items], parameters: {command: "LEDGER/last"}, output: {made: content}}
  return: {made: {value: "{$.made}"}, pair: {value: "{$.pair}"}}
.pair:
  steps:
    - one: {action: restcall, parameters: {command: "LEDGER/one"}}
    - two: {action: restcall, precedingPhases: [one], parameters: {command: "LEDGER/two"}}
  return: {name: {value: both}}
"""
TYPED_COMMAND = """
application:
  interfaces:
    actions: {add: bind(w#actions.add)}
  components:
    w:
      type: workflow.Instance
      interfaces:
        actions: {add: "receive-command(int count, string password => int sum, string api-password)"}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          add:
            steps: []
            return: {sum: {value: "5"}, api-password: {value: "{$.password}"}}
"""


async def test_jobs_are_listed_newest_first_in_the_form_of_the_history(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    for _ in range(2):
        await api.run(instance, "echo")
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    assert [job["name"] for job in jobs] == ["echo", "echo", "launch"]
    history = (await api.document(instance))["workflowHistory"]
    assert jobs == [{**job, "cancelled": False} for job in history]


async def test_a_job_shows_what_its_command_was_given_and_returned(api: Api) -> None:
    instance = await api.running(TYPED_COMMAND)
    await api.run(instance, "actions.add", count="4", password="secret-word-1")
    job = await job_of(api, instance)
    assert (job["name"], job["status"]) == ("actions.add", "Succeeded")
    assert job["parameters"] == {"count": 4, "password": "********"}
    assert job["results"] == {"sum": 5, "api-password": "********"}
    launch = accepted(await api.get(f"instances/{instance}/jobs"))[-1]
    assert accepted(await api.get(f"instances/{instance}/jobs/{launch['id']}"))["results"] == {}


async def test_pages_of_jobs_lead_through_all_of_them(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    for number in range(4):
        await api.run(instance, "echo", text=str(number))
    whole = accepted(await api.get(f"instances/{instance}/jobs"))
    seen, path = [], f"instances/{instance}/jobs?limit=2"
    while path:
        page = await api.get(path)
        seen += accepted(page)
        path = page.links.get("next", {}).get("url", "").removeprefix("/api/1/")
    assert seen == whole
    assert len(seen) == 5


async def test_a_job_shows_every_step_with_those_inside_of_it(api: Api, application: str) -> None:
    instance = await api.launch(application, parameters={"size": "3"})
    await api.settled(instance)
    job = await job_of(api, instance)
    assert (job["name"], job["status"], job["errorMessage"], job["resumes"]) == ("launch", "Succeeded", None, None)
    assert job["createdAt"] <= job["startedAt"] <= job["finishedAt"]
    assert [step["name"] for step in job["steps"]] == ["first", "both", "one", "two", "last"]
    assert {(step["status"], step["percentComplete"]) for step in job["steps"]} == {("Succeeded", 100)}
    assert len({step["path"] for step in job["steps"]}) == 5
    last = job["steps"][-1]
    assert last["outputs"]["content"] == "thing-7"
    assert (last["attempt"], last["outputsOmitted"], last["errorMessage"]) == (1, False, None)
    assert last["startedAt"] <= last["finishedAt"]


async def test_steps_that_never_ran_are_shown_as_requested(api: Api, ledger: Ledger, application: str) -> None:
    instance, _ = await failed_launch(api, ledger, application)
    steps = {step["name"]: step for step in (await job_of(api, instance))["steps"]}
    assert {name: step["status"] for name, step in steps.items()} == {
        "first": "Succeeded",
        "both": "Failed",
        "one": "Succeeded",
        "two": "Failed",
        "last": "Requested",
    }
    assert "500" in steps["two"]["errorMessage"]
    assert steps["last"]["attempt"] == 0


async def test_secrets_in_outputs_errors_and_parameters_are_covered(api: Api, ledger: Ledger, application: str) -> None:
    ledger.server.routes["/first"] = answer(
        body=b'{"user": "jo", "apiToken": "abc123", "said": "hush-hush!"}',
        headers=[("Content-Type", "application/json")],
    )
    instance = await api.launch(application, parameters={"password": "hush-hush!"})
    await api.settled(instance)
    first = (await job_of(api, instance))["steps"][0]
    assert first["outputs"]["content"] == {"user": "jo", "apiToken": "********", "said": "********"}
    ledger.fail("/add")
    ledger.server.routes["/add"] = answer(500, b"denied for hush-hush!")
    await api.run(instance, "grow", note="token=abc")
    job = await job_of(api, instance)
    assert "hush" not in str(job)
    assert "denied for ********" in job["errorMessage"]
    assert job["parameters"] == {"note": "token=********"}


async def test_outputs_that_are_too_many_are_left_out_and_said_to_be(
    api: Api, ledger: Ledger, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.limits.JOB_OUTPUTS_SHOWN_BYTES", 600)
    ledger.server.routes["/one"] = answer(body=b"x" * 500)
    instance = await api.launch(application)
    await api.settled(instance)
    steps = {step["name"]: step for step in (await job_of(api, instance))["steps"]}
    assert steps["first"]["outputs"]["content"] == "hello"
    assert (steps["one"]["outputs"], steps["one"]["outputsOmitted"]) == (None, True)


async def test_jobs_of_another_instance_are_not_found(api: Api, application: str) -> None:
    instance, other = await api.running(None), await api.running(None)
    job = (await job_of(api, other))["id"]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resume")):
        for unknown in (job, UNKNOWN, "not-an-id"):
            sentence = refused(await api.send(method, f"instances/{instance}/jobs/{unknown}{path}"), 404, "NotFound")
            assert unknown[:20] in sentence
        refused(await api.send(method, f"instances/{UNKNOWN}/jobs/{job}{path}"), 404, "NotFound")


async def test_who_may_not_read_the_instance_sees_no_job(api: Api) -> None:
    instance = await api.running(None)
    job = (await job_of(api, instance))["id"]
    stranger, outsider = await api.member(), (await api.outsider())[0]
    for caller in (stranger, outsider):
        refused(await caller.get(f"instances/{instance}/jobs"), 403)
        refused(await caller.get(f"instances/{instance}/jobs/{job}"), 403)
        refused(await caller.delete(f"instances/{instance}/jobs/{job}"), 403)
        refused(await caller.post(f"instances/{instance}/jobs/{job}/resume", {}), 403)
        refused(await caller.get(f"instances/{instance}/jobs/{UNKNOWN}"), 404)


async def test_a_cancelled_job_ends_as_failed_and_says_by_whom(api: Api, ledger: Ledger, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    job = await until_step(api, instance, "rest", "Executing")
    assert accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}")) == {}
    document = await api.settled(instance)
    assert document["status"] == "Running", (
        "a workflow that does not propagate its status leaves the instance as it was"
    )
    job = await job_of(api, instance)
    assert (job["status"], job["errorMessage"]) == ("Failed", "Cancelled by admin@launchbay.local.")
    assert [step["status"] for step in job["steps"]] == ["Succeeded", "Failed", "Requested"]
    assert ledger.counts()["/before"] == 1
    assert ledger.counts()["/after"] == 0
    await api.run(instance, "grow")
    assert (await job_of(api, instance))["status"] == "Succeeded"


async def test_cancelling_twice_is_fine_and_cancelling_what_has_ended_is_409(api: Api, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    job = await until_step(api, instance, "rest", "Executing")
    answers = await asyncio.gather(*(api.delete(f"instances/{instance}/jobs/{job['id']}") for _ in range(5)))
    assert 200 in {answer.status_code for answer in answers} <= {200, 409}
    await api.settled(instance)
    assert "Failed" in refused(await api.delete(f"instances/{instance}/jobs/{job['id']}"), 409, "JobEnded")


async def test_a_cancelled_launch_keeps_what_its_components_have_made(api: Api, ledger: Ledger) -> None:
    instance = await api.launch(await api.application(TWO_COMPONENTS.replace("LEDGER", ledger.server.url(""))))
    job = await until_step(api, instance, "rest", "Executing")
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    assert (await api.settled(instance))["status"] == "Failed"
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    assert ledger.counts() == {"/last": 1, "/gone/thing-7": 1}


async def test_who_may_run_a_workflow_may_cancel_it_and_nothing_else(api: Api, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    workflows = f"/applications/{application}/instances/{instance}/workflows"
    holder = await api.member("Read: [/*]", f"RunInstanceWorkflow: [{workflows}/hold]")
    grower = await api.member("Read: [/*]", f"RunInstanceWorkflow: [{workflows}/grow]")
    accepted(await holder.post(f"instances/{instance}/hold", {}))
    job = await until_step(api, instance, "rest", "Executing")
    refused(await grower.delete(f"instances/{instance}/jobs/{job['id']}"), 403, "NotAllowed")
    accepted(await holder.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)


async def test_a_forced_deletion_cannot_be_cancelled(api: Api, ledger: Ledger, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    ledger.server.routes["/gone/thing-7"] = lambda *_: asyncio.sleep(1)
    accepted(await api.delete(f"instances/{instance}?force=1"))
    job = await until_step(api, instance, "gone", "Executing")
    refused(await api.delete(f"instances/{instance}/jobs/{job['id']}"), 409, "InstanceBeingDeleted")
    await api.gone(instance)


async def test_a_resumed_job_does_again_only_what_was_not_done(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application)
    resumed = accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}))["id"]
    assert resumed != failed
    document = await api.settled(instance)
    assert document["status"] == "Running"
    assert document["errorMessage"] is None
    assert document["returnValues"] == {"made": "thing-7"}
    assert ledger.counts() == {"/first?size=1": 1, "/one": 1, "/two": 2, "/last?size=1": 1}
    job = await job_of(api, instance)
    assert (job["id"], job["resumes"], job["status"]) == (resumed, failed, "Succeeded")
    assert {step["status"] for step in job["steps"]} == {"Succeeded"}


async def test_a_job_can_be_resumed_until_it_succeeds(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application)
    ledger.fail("/last")
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}))
    assert (await api.settled(instance))["status"] == "Failed"
    ledger.mend("/last")
    again = (await job_of(api, instance))["id"]
    accepted(await api.post(f"instances/{instance}/jobs/{again}/resume"))
    assert (await api.settled(instance))["status"] == "Running"
    assert ledger.counts() == {"/first?size=1": 1, "/one": 1, "/two": 2, "/last?size=1": 2}


async def test_a_cancelled_job_can_be_resumed(api: Api, ledger: Ledger, application: str) -> None:
    ledger.server.routes["/two"] = lambda *_: asyncio.sleep(30)
    instance = await api.launch(application)
    job = await until_step(api, instance, "two", "Executing")
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)
    ledger.mend("/two")
    accepted(await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {}))
    assert (await api.settled(instance))["status"] == "Running"
    assert ledger.counts() == {"/first?size=1": 1, "/one": 1, "/two": 2, "/last?size=1": 1}


async def test_what_the_last_attempt_of_a_retried_call_has_done_stays_done(
    api: Api, ledger: Ledger, application: str
) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    ledger.fail("/two")
    await api.run(instance, "retried")
    assert (await job_of(api, instance))["status"] == "Failed"
    before = ledger.counts()
    ledger.mend("/two")
    accepted(await api.post(f"instances/{instance}/jobs/{(await job_of(api, instance))['id']}/resume", {}))
    await api.settled(instance)
    assert (await job_of(api, instance))["status"] == "Succeeded"
    assert ledger.counts() - before == {"/two": 1}


async def test_a_step_whose_failure_is_ignored_is_finished_for_a_resumption(api: Api, ledger: Ledger) -> None:
    """It stays so with parameters that would no longer ignore it, and steps without a record may come before it."""
    for path in ("/hopeless", "/two", "/item/b", "/last"):
        ledger.fail(path)
    instance = await api.launch(await api.application(LENIENT.replace("LEDGER", ledger.server.url(""))))
    assert (await api.settled(instance))["status"] == "Failed"
    before, failed = ledger.counts(), (await job_of(api, instance))["id"]
    assert before["/hopeless"] == 2, "it is retried once"
    for path in ("/hopeless", "/two", "/item/b", "/last"):
        ledger.mend(path)
    again = {"parameters": {"lenient": False}}
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", again))
    document = await api.settled(instance)
    assert (document["status"], document["returnValues"]) == ("Running", {"made": "thing-7", "pair": None})
    assert ledger.counts() - before == {"/last": 1}
    steps = {step["path"]: step for step in (await job_of(api, instance))["steps"]}
    hopeless = steps["workflow#launch/hopeless"]
    assert (hopeless["status"], hopeless["ignored"], "500" in hopeless["errorMessage"]) == ("Failed", True, True)
    assert {path.rpartition("#launch/")[2] for path, step in steps.items() if step["ignored"]} == {
        "hopeless",
        "pair",
        "items~[1]/items",
    }
    lines = accepted(await api.get(f"instances/{instance}/log"))
    note = next(line["text"] for line in lines if line["text"].startswith("Continues"))
    assert note == (
        f"Continues where the job {failed} failed. "
        "Steps that are done and not repeated: 4, 2 of them failed and ignored."
    )


async def test_a_resumed_job_says_that_the_one_before_was_cancelled(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\nrest: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}\n"
    )
    job = (await api.post(f"instances/{instance}/rest", {})).headers["launchbay-job"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)
    resumed = (await api.post(f"instances/{instance}/jobs/{job}/resume", {})).headers["launchbay-job"]
    lines = accepted(await api.get(f"instances/{instance}/log"))
    [note] = [line["text"] for line in lines if line["text"].startswith("Continues")]
    assert note == f"Continues where the job {job} was cancelled. Steps that are done and not repeated: 0."
    accepted(await api.delete(f"instances/{instance}/jobs/{resumed}"))
    await api.settled(instance)


async def test_a_resumed_job_counts_the_steps_that_people_see(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application, "/last")
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}))
    await api.settled(instance)
    lines = accepted(await api.get(f"instances/{instance}/log"))
    [note] = [line["text"] for line in lines if line["text"].startswith("Continues")]
    assert note.endswith("Steps that are done and not repeated: 2."), "`first` and `both`, not the two inside it"


async def test_a_resumed_launch_may_get_other_parameters(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application, parameters={"size": "2"})
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {"parameters": {"size": "5"}}))
    document = await api.settled(instance)
    assert document["parameters"]["size"] == "5"
    assert ledger.counts() == {"/first?size=2": 1, "/one": 1, "/two": 2, "/last?size=5": 1}


async def test_a_resumed_command_may_get_other_arguments(api: Api, ledger: Ledger, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    ledger.fail("/add")
    await api.run(instance, "grow", by="2", note="kept")
    ledger.mend("/add")
    failed = (await job_of(api, instance))["id"]
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {"parameters": {"by": "9"}}))
    await api.settled(instance)
    assert ledger.counts()["/add?by=9"] == 1
    job = await job_of(api, instance)
    assert (job["status"], job["parameters"]) == ("Succeeded", {"by": 9, "note": "kept"})


async def test_parameters_that_do_not_fit_are_400_and_change_nothing(api: Api) -> None:
    manifest = """
    application:
      interfaces:
        input: {port: bind(worker#input.port)}
      components:
        worker:
          type: workflow.Instance
          interfaces:
            input: {port: configuration(int)}
          configuration:
            input.port: 1
            configuration.workflows: {launch: {steps: [{call: {action: restcall, parameters: {command: "no URL"}}}]}}
    """
    instance = await api.launch(await api.application(dedent(manifest)))
    await api.settled(instance)
    job = (await job_of(api, instance))["id"]
    path = f"instances/{instance}/jobs/{job}/resume"
    for parameters in ({"input.port": "many"}, {"input.prot": 1}):
        assert "input.p" in refused(await api.post(path, {"parameters": parameters}), 400, "InvalidParameters")
    refused(await api.post(path, {"parameters": []}), 400, "WrongField")
    document = await api.document(instance)
    assert (document["status"], document["parameters"]) == ("Failed", {"input.port": 1})
    assert len(document["workflowHistory"]) == 1


async def test_only_the_newest_job_and_only_a_failed_one_can_be_resumed(
    api: Api, ledger: Ledger, application: str
) -> None:
    instance, failed = await failed_launch(api, ledger, application)
    await api.run(instance, "grow")
    newer = (await job_of(api, instance))["id"]
    refused(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}), 400, "NotNewestJob")
    refused(await api.post(f"instances/{instance}/jobs/{newer}/resume", {}), 400, "JobSucceeded")


async def test_a_job_under_way_cannot_be_resumed(api: Api, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    job = await until_step(api, instance, "rest", "Executing")
    refused(await api.post(f"instances/{instance}/jobs/{job['id']}/resume", {}), 409, "InstanceBusy")
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    await api.settled(instance)


async def test_of_many_resumptions_at_once_exactly_one_is_accepted(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application)
    ledger.server.routes["/two"] = lambda *_: asyncio.sleep(1)
    path = f"instances/{instance}/jobs/{failed}/resume"
    answers = await asyncio.gather(*(api.post(path, {}) for _ in range(8)))
    codes = Counter(answer.status_code for answer in answers)
    assert codes[200] == 1
    assert codes[409] + codes[400] == 7
    await api.settled(instance)


async def test_a_destroyed_instance_has_nothing_to_resume(api: Api, ledger: Ledger, application: str) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    await api.run(instance, "destroy")
    job = (await job_of(api, instance))["id"]
    refused(await api.post(f"instances/{instance}/jobs/{job}/resume", {}), 400, "JobSucceeded")


async def test_a_failed_destroy_can_be_resumed_and_takes_no_parameters(
    api: Api, ledger: Ledger, application: str
) -> None:
    instance = await api.launch(application)
    await api.settled(instance)
    ledger.fail("/gone/thing-7")
    assert (await api.run(instance, "destroy"))["status"] == "Failed"
    ledger.mend("/gone/thing-7")
    path = f"instances/{instance}/jobs/{(await job_of(api, instance))['id']}/resume"
    refused(await api.post(path, {"parameters": {"a": "1"}}), 400, "UnknownParameter")
    accepted(await api.post(path, {}))
    assert (await api.settled(instance))["status"] == "Destroyed"


async def test_a_resumed_launch_goes_on_inside_of_its_submodules(api: Api, ledger: Ledger) -> None:
    instance, failed = await failed_launch(api, ledger, await family(api, ledger), "/younger/two")
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}))
    assert (await api.settled(instance))["status"] == "Running"
    assert ledger.counts() == {"/elder/one": 1, "/elder/two": 1, "/younger/one": 1, "/younger/two": 2}


async def test_a_launch_resumed_again_still_knows_what_the_first_one_has_done(api: Api, ledger: Ledger) -> None:
    instance, failed = await failed_launch(api, ledger, await family(api, ledger), "/younger/two")
    ledger.fail("/younger/two")
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {}))
    assert (await api.settled(instance))["status"] == "Failed"
    ledger.mend("/younger/two")
    accepted(await api.post(f"instances/{instance}/jobs/{(await job_of(api, instance))['id']}/resume", {}))
    assert (await api.settled(instance))["status"] == "Running"
    assert ledger.counts() == {"/elder/one": 1, "/elder/two": 1, "/younger/one": 1, "/younger/two": 3}


async def test_a_cancelled_launch_ends_the_jobs_of_its_submodules_and_keeps_what_they_made(
    api: Api, ledger: Ledger
) -> None:
    ledger.server.routes["/younger/two"] = lambda *_: asyncio.sleep(30)
    instance = await api.launch(await family(api, ledger))
    await eventually(
        lambda: ledger.counts() == {"/elder/one": 1, "/elder/two": 1, "/younger/one": 1, "/younger/two": 1}
    )
    parts = (await api.document(instance))["components"]
    younger = next(part["instanceId"] for part in parts if part["name"] == "younger")
    inner = await job_of(api, younger)
    refused(await api.delete(f"instances/{younger}/jobs/{inner['id']}"), 403, "SubmoduleInstance")
    accepted(await api.delete(f"instances/{instance}/jobs/{(await job_of(api, instance))['id']}"))
    assert (await api.settled(instance))["status"] == "Failed"
    document = await api.document(younger)
    assert (document["status"], document["errorMessage"]) == ("Failed", "Cancelled by admin@launchbay.local.")
    refused(await api.post(f"instances/{younger}/jobs/{inner['id']}/resume", {}), 403, "SubmoduleInstance")
    await api.run(instance, "destroy")
    assert ledger.counts()["/elder/gone/hello"] == 1, "its destroy knows what its launch returned"
