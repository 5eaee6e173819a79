"""Failed jobs, resumed from their failed steps."""

import asyncio
from collections import Counter
from textwrap import dedent

from tests.api.jobs.ledgers import (
    Ledger,
    failed_launch,
    family,
    job_of,
    until_step,
)
from tests.api.running import Api, accepted, refused


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


async def test_a_resumed_launch_may_get_other_parameters(api: Api, ledger: Ledger, application: str) -> None:
    instance, failed = await failed_launch(api, ledger, application, parameters={"size": "2"})
    accepted(await api.post(f"instances/{instance}/jobs/{failed}/resume", {"parameters": {"size": "5"}}))
    document = await api.settled(instance)
    assert document["parameters"] == {"size": "5"}
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
    assert (document["status"], document["parameters"]) == ("Failed", {})
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
    async with asyncio.timeout(20):
        while ledger.counts() != {"/elder/one": 1, "/elder/two": 1, "/younger/one": 1, "/younger/two": 1}:
            await asyncio.sleep(0.01)
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
