"""Jobs in detail, and cancelled."""

import asyncio

import pytest

from tests.api.jobs.ledgers import (
    TWO_COMPONENTS,
    Ledger,
    failed_launch,
    job_of,
    until_step,
)
from tests.api.manifests import WORKFLOWS
from tests.api.running import UNKNOWN, Api, accepted, refused
from tests.outgoing.loopback import answer


async def test_jobs_are_listed_newest_first_in_the_form_of_the_history(api: Api) -> None:
    instance = await api.running(WORKFLOWS, parameters={"label": "x"})
    for _ in range(2):
        await api.run(instance, "echo")
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    assert [job["name"] for job in jobs] == ["echo", "echo", "launch"]
    assert jobs == (await api.document(instance))["workflowHistory"]


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
