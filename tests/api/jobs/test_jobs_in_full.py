"""A job in full: its number, what began it, its steps with their attempts, and the jobs that it ran elsewhere."""

import re
from datetime import datetime
from typing import Any

import pytest

from launchbay.ids import new_id
from tests.support.applications import Ledger
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import answer
from tests.support.service import Api, accepted, running_api

NESTED = """
application:
  interfaces: {manage: {grow: bind(front#manage.grow)}}
  components:
    front:
      type: workflow.Instance
      interfaces:
        manage: {grow: receive-command(int size => int size)}
        back: {tune: "send-command(=> int done)"}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          .measure: {steps: [{look: {action: wait, phase: looking, parameters: {delay: "0"}}}]}
          grow:
            steps:
              - measure: {action: .measure}
              - tune: {action: back.tune, precedingPhases: [measure]}
            return: {size: {value: "{$.size}"}}
    back:
      type: workflow.Instance
      interfaces: {front: {tune: "receive-command(=> int done)"}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          tune:
            steps: [{turn: {action: wait, parameters: {delay: "0"}}}]
            return: {done: {value: "1"}}
  bindings: [[front#back, back#front]]
"""
FLAKY = """
launch: {steps: []}
call:
  steps:
    - ask: {action: restcall, parameters: {retryCount: 2, command: "%s", method: get}}
    - then: {action: wait, precedingPhases: [ask], parameters: {delay: "0"}}
"""
ASKING = """
launch: {steps: []}
ask: {steps: [{go: {action: approval, parameters: {text: Really?, timeout: 1 h}}}]}
"""
CHILD = "launch: {steps: [{rest: {action: wait, parameters: {delay: '0'}}}]}"
PARENT = """
application:
  components:
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
launch: {steps: []}
"""


async def test_the_jobs_of_an_instance_are_numbered_from_1(api: Api) -> None:
    instance = await api.running(NESTED)
    assert (await api.ran(instance, "manage.grow", size="3"))["number"] == 2
    assert (await api.ran(instance, "destroy"))["number"] == 3
    assert [job["number"] for job in accepted(await api.get(f"instances/{instance}/jobs"))] == [3, 2, 1]


async def began_in_list(api: Api, job: str) -> Any:
    """Return what began a job, as the list of the organization says it."""
    [found] = accepted(await api.get(f"organizations/{api.organization}/jobs", idPart=job))
    return found["beganBy"]


async def test_a_job_says_who_began_it_how_long_it_took_and_what_it_returned(api: Api) -> None:
    instance = await api.running(NESTED)
    job = await api.ran(instance, "manage.grow", size="3")
    assert (job["workflow"], job["component"], job["parameters"], job["results"]) == (
        *("manage.grow", "front"),
        *({"size": 3}, {"size": 3}),
    )
    assert job["beganBy"] == {
        "kind": "person",
        "id": job["ownerId"],
        "name": "Administrator",
        "owner": "Administrator",
    }
    assert await began_in_list(api, job["id"]) == job["beganBy"]
    assert job["queuedAt"] <= job["startedAt"] <= job["finishedAt"]
    assert job["durationMs"] == job["finishedAt"] - job["startedAt"]
    assert (job["percent"], job["attempt"], job["parent"], job["children"]) == (100, 1, None, [])


async def test_a_scheduled_run_and_an_expiry_say_so(api: Api) -> None:
    instance = await api.running(NESTED)
    schedule = accepted(
        await api.post(f"instances/{instance}/manage.grow/schedule", {"interval": 1, "parameters": {"size": "1"}})
    )["id"]
    jobs = await eventually(lambda: api.read(f"instances/{instance}/jobs"), lambda jobs: len(jobs) >= 2)
    job = accepted(await api.get(f"jobs/{jobs[0]['id']}"))
    shown = {"kind": "schedule", "id": schedule, "name": job["workflow"], "owner": "Administrator"}
    assert job["beganBy"] == shown
    assert await began_in_list(api, job["id"]) == shown
    expired = await api.launch(await api.application(NESTED), destroyInterval="1")
    await api.until(expired, "Destroyed")
    jobs = accepted(await api.get(f"instances/{expired}/jobs"))
    began = accepted(await api.get(f"jobs/{jobs[0]['id']}"))["beganBy"]
    assert (began["kind"], began["name"]) == ("expiry", "end of its lifetime")


async def test_steps_say_where_they_belong_and_are_listed_by_level(api: Api) -> None:
    instance = await api.running(NESTED)
    job = await api.ran(instance, "manage.grow", size="3")
    steps = {step["path"]: step for step in job["steps"]}
    assert {
        path: (step["component"], step["phase"], step["action"], step["children"]) for path, step in steps.items()
    } == {
        "front#grow/measure": ("front", "measure", ".measure", 1),
        "front#grow/measure/look": ("front", "looking", "wait", 0),
        "front#grow/tune": ("front", "tune", "back.tune", 1),
        "front#grow/tune>back#front.tune/turn": ("back", "turn", "wait", 0),
    }
    where = f"instances/{instance}/jobs/{job['id']}/steps"
    first = await api.get(where, limit=1)
    assert [step["path"] for step in accepted(first)] == ["front#grow/measure"]
    following = first.headers["link"].partition(">")[0].removeprefix("</api/1/")
    second = await api.get(following)
    assert [step["path"] for step in accepted(second)] == ["front#grow/tune"]
    assert "link" not in second.headers
    inside = accepted(await api.get(where, parent="front#grow/tune"))
    assert inside == [steps["front#grow/tune>back#front.tune/turn"]]


async def test_each_failed_attempt_has_its_error_and_later_steps_have_not_run(api: Api, ledger: Ledger) -> None:
    ledger.server.routes["/ask"] = answer(503)
    instance = await api.running(FLAKY % ledger.server.url("/ask"))
    job = await api.ran(instance, "call")
    ask, then = job["steps"]
    assert [attempt["number"] for attempt in ask["attempts"]] == [1, 2, 3]
    assert all("503" in attempt["errorMessage"] for attempt in ask["attempts"])
    times = [time for each in ask["attempts"] for time in (each["startedAt"], each["finishedAt"])]
    assert times == sorted(times)
    assert (then["status"], then["notRun"], then["attempts"]) == ("Requested", True, [])
    assert not ask["notRun"]
    assert job["percent"] < 100


async def test_jobs_on_other_instances_are_linked_both_ways(api: Api) -> None:
    instance = await api.running(PARENT % await api.application(CHILD))
    launch = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    job = accepted(await api.get(f"jobs/{launch}"))
    (link,) = job["children"]
    assert (link["number"], link["workflow"], link["status"]) == (1, "launch", "Succeeded")
    child = accepted(await api.get(f"jobs/{link['id']}"))
    assert (child["instanceId"], child["parent"]["id"]) == (link["instanceId"], launch)
    assert (child["beganBy"]["kind"], child["beganBy"]["id"]) == ("job", launch)
    assert await began_in_list(api, link["id"]) == {**child["beganBy"], "name": "launch"}
    assert (link["cancelled"], child["parent"]["cancelled"]) == (False, False)


async def test_links_of_cancelled_jobs_say_so(api: Api) -> None:
    resting = "launch: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}"
    instance = await api.launch(await api.application(PARENT % await api.application(resting)))
    launch = (await waits(api, accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"], "job"))["id"]
    accepted(await api.delete(f"instances/{instance}/jobs/{launch}"))
    await api.settled(instance)
    (link,) = accepted(await api.get(f"jobs/{launch}"))["children"]
    child = accepted(await api.get(f"jobs/{link['id']}"))
    assert (link["status"], link["cancelled"]) == ("Failed", child["cancelled"])
    assert child["parent"]["cancelled"]


async def waits(api: Api, job: str, kind: str) -> Any:
    """Wait until the job waits for this, and return the job."""
    return await eventually(
        lambda: api.read(f"jobs/{job}"), lambda found: kind in [wait["kind"] for wait in found["waitingFor"]]
    )


async def test_a_job_says_which_approval_it_waits_for_and_until_when(api: Api) -> None:
    instance = await api.running(ASKING)
    started = await api.post(f"instances/{instance}/ask", {})
    job = await waits(api, started.headers["launchbay-job"], "approval")
    (wait,) = job["waitingFor"]
    assert wait["text"] == "Waiting for approval by any user who may approve: Really?"
    assert wait["endsWhen"].startswith(
        "The approval of any user who may approve, or its expiry. The instance expires before that, at "
    )
    assert 3_590_000 < wait["until"] - wait["since"] <= 3_600_000
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
    assert accepted(await api.get(f"jobs/{job['id']}?wait=30"))["waitingFor"] == []


async def test_a_job_says_when_its_next_attempt_begins(api: Api, ledger: Ledger) -> None:
    ledger.server.routes["/ask"] = answer(503)
    instance = await api.running((FLAKY % ledger.server.url("/ask")).replace("retryCount: 2", "retryCount: 9"))
    started = await api.post(f"instances/{instance}/call", {})
    job = await waits(api, started.headers["launchbay-job"], "retry")
    (wait,) = job["waitingFor"]
    found = re.fullmatch(
        r"Step 'ask' of 'workflow' failed in attempt (\d) of 10; the next attempt begins at (\S+Z): (.+)", wait["text"]
    )
    assert found is not None, wait["text"]
    assert (1 <= int(found[1]) <= 9, "503" in found[3]) == (True, True)
    assert datetime.fromisoformat(found[2]).timestamp() == wait["until"] // 1000
    assert (wait["until"] > wait["since"], wait["endsWhen"]) == (True, "The pause is over.")
    await eventually(
        lambda: api.document(instance),
        lambda found: " of 10; the next attempt begins at " in found.get("waitingFor", ""),
    )
    accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))


@pytest.mark.slow
async def test_a_job_links_the_job_that_it_waits_for(api: Api) -> None:
    child = await api.application(CHILD.replace("'0'", "2 sec"))
    launched = await api.post(f"applications/{await api.application(PARENT % child)}/launch", {})
    job = await waits(api, launched.headers["launchbay-job"], "job")
    (wait,) = job["waitingFor"]
    assert wait["text"].startswith("Waiting for job 1, 'launch', of the instance ")
    waited = accepted(await api.get(f"jobs/{wait['jobId']}"))
    assert (waited["instanceId"], waited["parent"]["id"]) == (wait["instanceId"], job["id"])
    assert accepted(await api.get(f"jobs/{job['id']}?wait=30"))["status"] == "Succeeded"


async def test_a_queued_job_has_a_position_and_says_whether_there_are_workers(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False) as api:
        application = await api.application(CHILD)
        jobs = [(await api.post(f"applications/{application}/launch", {})).headers["launchbay-job"] for _ in range(3)]
        (wait,) = accepted(await api.get(f"jobs/{jobs[1]}"))["waitingFor"]
        assert (wait["kind"], wait["position"], wait["endsWhen"]) == ("worker", 2, "A worker is started.")
        async with api.database.connection() as connection:
            await connection.execute("INSERT INTO workers (name) VALUES ('elsewhere')")
        (wait,) = accepted(await api.get(f"jobs/{jobs[2]}"))["waitingFor"]
        assert wait["text"] == "The job is number 3 of 3 in the organization's queue for a free job slot."


async def test_the_usual_duration_is_the_median_of_the_last_successes(api: Api) -> None:
    instance = await api.running(NESTED)
    first = await api.ran(instance, "manage.grow", size="1")
    for seconds, name in ((1, "manage.grow"), (5, "manage.grow"), (60, "manage.grow"), (900, "destroy")):
        async with api.database.connection() as connection:
            await connection.execute(
                "INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, started_at, finished_at)"
                " SELECT %s, %s, %s, 'u', 'Succeeded', '{}', now(), now() + %s * interval '1 second'",
                [new_id(), instance, name, seconds],
            )
    job = accepted(await api.get(f"jobs/{first['id']}"))
    assert 2_500 <= job["usualDurationMs"] <= 3_500  # between 1 s and 5 s
    # Servers of earlier versions don't number their jobs; the database does.
    assert [each["number"] for each in accepted(await api.get(f"instances/{instance}/jobs"))] == [6, 5, 4, 3, 2, 1]


async def test_a_step_says_that_it_waits_for_its_time_before_the_job_leaves_its_process(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\nrest: {steps: [{sleep: {action: wait, parameters: {delay: 1 h}}}]}"
    )
    started = await api.post(f"instances/{instance}/rest")
    accepted(started)
    job = started.headers["launchbay-job"]
    text = (await eventually(lambda: api.document(instance), lambda found: found.get("waitingFor") is not None)).get(
        "waitingFor"
    )
    async with api.database.connection() as connection:
        parked = await (await connection.execute("SELECT FROM parked WHERE job_id = %s", [job])).fetchone()
    assert parked is None
    assert text == "Step 'sleep' of 'workflow' waits for its time."
    [wait] = accepted(await api.get(f"jobs/{job}"))["waitingFor"]
    assert (wait["kind"], wait["text"], wait["endsWhen"]) == ("time", text, "The time is over.")
    assert wait["until"] - wait["since"] == pytest.approx(3_600_000, abs=5_000)
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
