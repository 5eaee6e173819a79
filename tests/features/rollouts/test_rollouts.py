"""Rollouts: waves, pauses, checks of health, a bound of failures, and the way back."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.features.rollouts.usecases import sizes_of
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, refused, running_api

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
# Version 2 is good. What `TRIGGERED` runs and what `CHECKED` finds is what later versions change.
SHOP = """
application:
  configuration: {input.release: 1}
  interfaces:
    input: {release: bind(worker#input.release)}
    actions: {check: bind(worker#actions.check), backUp: bind(worker#actions.backUp)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {release: configuration(int)}
        actions: {check: receive-command(), backUp: receive-command()}
      configuration:
        configuration.triggers: {input.release: update}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {steps: []}
          update: {steps: [{update: {action: wait, parameters: {delay: "TRIGGERED"}}}]}
          check: {steps: [{look: {action: wait, parameters: {delay: "CHECKED"}}}]}
          backUp: {steps: [{copy: {action: wait, parameters: {delay: "600"}}}]}
          destroy: {steps: []}
"""


def shop(release: int, *, triggered: str = "0", checked: str = "0") -> str:
    text = SHOP.replace("{input.release: 1}", f"{{input.release: {release}}}")
    return text.replace("TRIGGERED", triggered).replace("CHECKED", checked)


@pytest.fixture(scope="module")
async def own(databases: Databases) -> AsyncIterator[Api]:
    """A service of this file alone."""
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


async def shops(api: Api, count: int, **version: str) -> tuple[str, list[str]]:
    """Return an application with settled instances of version 2, and another version 3."""
    application = await api.application(shop(1))
    made = [await api.launch(application, destroyInterval=-1) for _ in range(count)]
    for instance in made:
        await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", shop(2, **version)))
    return application, sorted(made)


async def begin(api: Api, application: str, **body: Any) -> Any:
    body = {"applicationId": application, "version": 3, **body}
    return accepted(await api.post(f"organizations/{api.organization}/rollouts", body))


async def until(api: Api, rollout: str, *statuses: str, timeout_s: float = 30.0) -> Any:
    return await eventually(
        lambda: api.read(f"rollouts/{rollout}"), lambda document: document["status"] in statuses, within_s=timeout_s
    )


SECRET = "quay-side-pass-phrase"
GUARDED = """
application:
  interfaces: {input: {password: bind(web#input.password), release: bind(web#input.release)}}
  configuration: {input.release: RELEASE}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {password: configuration(string), release: configuration(int)}}
      configuration:
        input.password: none
        configuration.triggers: {input.release: update}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {steps: []}
          update: {steps: [{wait: {action: wait, parameters: {delay: "{$.password}"}}}]}
          destroy: {steps: []}
"""


async def guarded(api: Api) -> tuple[str, str]:
    """Return an application whose next version fails with a secret in its message, and an instance of the first."""
    application = await api.application(GUARDED.replace("RELEASE", "1"))
    instance = await api.launch(application, parameters={"input.password": SECRET}, destroyInterval=-1)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", GUARDED.replace("RELEASE", "2")))
    return application, instance


async def test_outcomes_show_no_secret_of_the_instance(own: Api) -> None:
    application, instance = await guarded(own)
    rollout = await begin(own, application, ids=[instance], onFailure="stop")
    await until(own, rollout["id"], "Stopped", "Finished")
    (outcome,) = accepted(await own.get(f"rollouts/{rollout['id']}/instances"))
    assert outcome["status"] == "Failed"
    for message in (outcome["message"], accepted(await own.get(f"rollouts/{rollout['id']}"))["message"]):
        assert SECRET not in message
        assert "********" in message


async def test_change_sets_show_no_secret_of_the_instance(own: Api) -> None:
    _, instance = await guarded(own)
    body = {"act": "version", "ids": [instance], "version": 3}
    made = accepted(await own.post(f"organizations/{own.organization}/change-sets", body))
    accepted(await own.post(f"change-sets/{made['id']}/apply"))
    found = await eventually(lambda: own.read(f"change-sets/{made['id']}"), lambda found: found["status"] != "Applying")
    assert found["status"] == "Failed"
    (planned,) = found["plan"]
    assert SECRET not in planned["message"]
    assert "********" in planned["message"]


@asynccontextmanager
async def without_turns(api: Api, rollout: str, status: str) -> AsyncIterator[str]:
    """Wait until the only instance has this status, and keep it while the block runs; give its ID."""
    path = f"rollouts/{rollout}/instances"
    rows = await eventually(lambda: api.read(path, status=status))
    async with api.database.transaction() as connection:
        await connection.execute("SELECT FROM rollouts WHERE id = %s FOR UPDATE", (rollout,))
        assert accepted(await api.get(path, status=status)), "it was given a turn before it was locked"
        yield rows[0]["instanceId"]


async def back_up(api: Api, instance: str) -> str:
    """Begin a long job on the instance once nothing else runs on it; return the job."""
    await api.settled(instance)
    begun = await api.post(f"instances/{instance}/actions.backUp", {})
    accepted(begun)
    return str(begun.headers["launchbay-job"])


@pytest.mark.slow
async def test_a_job_that_begins_after_the_check_is_no_failure(own: Api) -> None:
    application, _ = await shops(own, 1, checked="1")
    begun = await begin(own, application, healthWorkflow="actions.check", onFailure="takeBack")
    async with without_turns(own, begun["id"], "Checking") as instance:
        await back_up(own, instance)
    assert (await until(own, begun["id"], "Finished", "Returned"))["status"] == "Finished"
    assert (await own.document(instance))["status"] == "Executing"


@pytest.mark.slow
@pytest.mark.parametrize("check", ["actions.check", None])
async def test_a_verdict_waits_for_the_end_of_a_job_that_begins_before_it(
    own: Api, monkeypatch: pytest.MonkeyPatch, check: str | None
) -> None:
    monkeypatch.setattr(limits, "BULK_BUSY_PAUSE_S", 0.1)
    application, _ = await shops(own, 1, triggered="1")
    begun = await begin(own, application, healthWorkflow=check, onFailure="takeBack")
    async with without_turns(own, begun["id"], "Running") as instance:
        job = await back_up(own, instance)
    path = f"rollouts/{begun['id']}"
    if check is not None:
        await eventually(lambda: own.read(f"{path}/instances", status="Unchecked"))
    assert accepted(await own.get(path))["status"] == "Running"
    accepted(await own.delete(f"instances/{instance}/jobs/{job}"))
    assert (await until(own, begun["id"], "Finished", "Returned"))["status"] == "Finished"


@pytest.mark.slow
async def test_a_verdict_waits_for_jobs_of_others_no_longer_than_for_a_busy_instance(
    own: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BULK_BUSY_S", 0)
    application, _ = await shops(own, 1, triggered="1")
    begun = await begin(own, application)
    async with without_turns(own, begun["id"], "Running") as instance:
        await back_up(own, instance)
    assert (await until(own, begun["id"], "Finished", "Stopped"))["status"] == "Finished"
    assert (await own.document(instance))["status"] == "Executing"


async def versions(api: Api, made: list[str]) -> list[int]:
    return [(await api.document(instance))["version"] for instance in made]


def test_waves_are_sizes_or_percentages_and_the_others_are_the_last() -> None:
    assert sizes_of([1, "10%", "30"], 100) == [1, 10, 30, 59]
    assert sizes_of([], 7) == [7]
    assert sizes_of(["1%"], 3) == [1, 2]
    assert sizes_of([5, 5, 5], 7) == [5, 2]
    assert sizes_of([1, "10%"], 0) == []
    for wave in (0, "0%", "x%", "0", "101%"):
        with pytest.raises(BadRequest):
            sizes_of([wave], 3)


@pytest.mark.slow
async def test_a_version_reaches_all_instances_wave_after_wave(own: Api) -> None:
    application, made = await shops(own, 4)
    begun = await begin(own, application, waves=[1, "50%"], comment="OPS-17")
    assert (begun["status"], begun["waves"], begun["comment"]) == ("Running", [1, 2, 1], "OPS-17")
    document = await until(own, begun["id"], "Finished")
    assert (document["wave"], document["counts"]["succeeded"]) == (3, 4)
    assert await versions(own, made) == [3] * 4
    rows = accepted(await own.get(f"rollouts/{begun['id']}/instances"))
    assert [(row["instanceId"], row["wave"]) for row in rows] == list(zip(made, [1, 2, 2, 3], strict=True))
    ends = [row["finishedAt"] for row in rows]
    assert ends[0] <= rows[1]["startedAt"]
    newest = accepted(await own.get(f"instances/{made[0]}/generations"))[0]
    assert newest["cause"] == {"kind": "rollout", "id": begun["id"]}
    refused(await own.post(f"rollouts/{begun['id']}/continue"), 409, "RolloutEnded")


@pytest.mark.slow
async def test_a_bad_version_is_stopped_in_its_first_wave_and_taken_back(own: Api) -> None:
    application, made = await shops(own, 3, triggered="-1")
    begun = await begin(own, application, waves=[1], onFailure="takeBack")
    document = await until(own, begun["id"], "Returned")
    assert (document["wave"], document["counts"]["returned"], document["counts"]["skipped"]) == (1, 1, 2)
    assert document["finishedAt"] is not None
    (failed,) = accepted(await own.get(f"rollouts/{begun['id']}/instances", status="Returned"))
    assert "negative" in failed["message"]
    assert document["message"] == f"{failed['instanceName']} failed: {failed['message']}"
    listed = accepted(await own.get(f"organizations/{own.organization}/rollouts"))
    assert document["message"] in [each["message"] for each in listed]
    assert await versions(own, made) == [2] * 3
    assert [(await own.document(instance))["status"] for instance in made] == ["Running"] * 3


@pytest.mark.slow
async def test_an_unhealthy_version_stops_and_continues_or_goes_back(own: Api) -> None:
    application, made = await shops(own, 3, checked="-1")
    begun = await begin(own, application, waves=[1, 1], healthWorkflow="actions.check")
    path = f"rollouts/{begun['id']}"
    stopped = await until(own, begun["id"], "Stopped")
    assert (stopped["counts"]["failed"], stopped["counts"]["waiting"]) == (1, 2)
    [failed] = accepted(await own.get(f"{path}/instances", status="Failed"))
    assert "negative" in failed["message"]
    assert await versions(own, made) == [3, 2, 2]
    accepted(await own.post(f"{path}/continue"))
    stopped = await until(own, begun["id"], "Stopped")
    assert stopped["counts"]["failed"] == 2
    accepted(await own.post(f"{path}/take-back"))
    taken = await until(own, begun["id"], "Returned")
    assert (taken["counts"]["returned"], taken["counts"]["skipped"]) == (2, 1)
    assert await versions(own, made) == [2] * 3


async def test_a_rollout_behind_a_busy_instance_says_so(own: Api) -> None:
    application, [instance] = await shops(own, 1)
    accepted(await own.post(f"instances/{instance}/actions.backUp", {}))
    begun = await begin(own, application, waves=[1])
    said = "Waiting for 1 busy instance, which gets its turn when other work allows it."
    await eventually(lambda: own.read(f"rollouts/{begun['id']}"), lambda found: found["waitingFor"] in {said, None})
    assert accepted(await own.get(f"rollouts/{begun['id']}"))["waitingFor"] == said
    [row] = accepted(await own.get(f"rollouts/{begun['id']}/instances"))
    assert re.fullmatch(r"The instance '.+' runs job 2, 'actions\.backUp' \(ID \w+\)\.", row["message"])
    [job] = [each for each in (await own.document(instance))["workflowHistory"] if each["status"] == "Executing"]
    accepted(await own.delete(f"instances/{instance}/jobs/{job['id']}"))
    assert (await until(own, begun["id"], "Finished"))["waitingFor"] is None


@pytest.mark.slow
async def test_without_a_pause_it_waits_for_somebody_after_each_wave(own: Api) -> None:
    application, made = await shops(own, 2)
    begun = await begin(own, application, waves=[1], pause=None)
    waits = (await until(own, begun["id"], "Waiting"))["waitingFor"]
    assert re.fullmatch(rf"Waiting since {TIME} for somebody who continues it with wave 2 of 2\.", waits)
    assert await versions(own, made) == [3, 2]
    accepted(await own.post(f"rollouts/{begun['id']}/continue"))
    assert (await until(own, begun["id"], "Finished"))["waitingFor"] is None
    accepted(await own.post(f"rollouts/{begun['id']}/take-back"))
    assert (await until(own, begun["id"], "Returned"))["counts"]["returned"] == 2
    assert await versions(own, made) == [2, 2]


async def test_a_rollout_says_when_its_pause_ends_and_that_it_is_stopped(own: Api) -> None:
    application, _ = await shops(own, 2)
    begun = await begin(own, application, waves=[1], pause=3_600_000)
    path = f"rollouts/{begun['id']}"
    found = await eventually(lambda: own.read(path), lambda found: found["waveDoneAt"] is not None)
    paused = re.fullmatch(rf"Pausing since ({TIME}); wave 2 of 2 begins at ({TIME})\.", found["waitingFor"])
    assert paused is not None, found["waitingFor"]
    since, begins = map(datetime.fromisoformat, paused.groups())
    assert begins - since == timedelta(hours=1)
    accepted(await own.post(f"{path}/stop"))
    stopped = "Stopped in wave 1 of 2, until somebody continues it or takes it back."
    assert accepted(await own.get(path))["waitingFor"] == stopped


async def test_a_wrong_status_of_instances_names_the_right_ones(own: Api) -> None:
    application, _ = await shops(own, 1)
    begun = await begin(own, application)
    told = refused(await own.get(f"rollouts/{begun['id']}/instances", status="Done"), 400, "BadRequest")
    assert "'Done'; expected Checking, Failed" in told
    assert accepted(await own.get(f"rollouts/{begun['id']}/instances", status="Lost")) == []


async def test_a_health_check_that_needs_an_argument_is_refused_before_it_runs(own: Api) -> None:
    application, _ = await shops(own, 1)
    demanding = shop(3).replace("check: receive-command()", "check: receive-command(int depth)")
    accepted(await own.put_yaml(f"applications/{application}/manifest", demanding))
    path = f"organizations/{own.organization}/rollouts"
    body = {"applicationId": application, "version": 4, "healthWorkflow": "actions.check"}
    told = refused(await own.post(path, body), 400, "MissingParameter")
    assert "healthWorkflow: workflow actions.check requires the parameter 'depth' (int)" in told
    # A default is a value, as one that a run has returned.
    relaxed = demanding.replace("check: {steps:", "check: {parameters: [{depth: {default: 1}}], steps:")
    accepted(await own.put_yaml(f"applications/{application}/manifest", relaxed))
    accepted(await own.post(path, {**body, "version": 5}))


async def test_a_stopped_rollout_begins_nothing(own: Api) -> None:
    application, made = await shops(own, 3, triggered="600")
    begun = await begin(own, application, maxParallel=1)
    path = f"rollouts/{begun['id']}"
    await eventually(lambda: own.read(path), lambda found: found["counts"]["running"] >= 1)
    accepted(await own.post(f"{path}/stop"))
    [row] = accepted(await own.get(f"{path}/instances", status="Running"))
    accepted(await own.delete(f"instances/{row['instanceId']}/jobs/{row['jobId']}"))
    document = await eventually(lambda: own.read(path), lambda document: document["counts"]["failed"] >= 1)
    assert (document["status"], document["counts"]["waiting"]) == ("Stopped", 2)
    assert await versions(own, made) == [3, 2, 2]


async def test_those_that_begin_at_the_same_time_count_each_other(own: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    application, _ = await shops(own, 1)
    path = f"organizations/{own.organization}/rollouts"
    under_way = sum(each["status"] in {"Running", "Waiting", "Returning"} for each in accepted(await own.get(path)))
    monkeypatch.setattr(limits, "ROLLOUTS_OPEN", under_way + 1)
    body = {"applicationId": application, "version": 3, "waves": [1], "healthWorkflow": "actions.check"}
    answers = await asyncio.gather(*(own.post(path, body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429, 429]


async def test_what_makes_no_sense_is_refused(own: Api) -> None:
    application, made = await shops(own, 1)
    path = f"organizations/{own.organization}/rollouts"
    body = {"applicationId": application, "version": 3}
    refused(await own.post(path, {**body, "version": 9}), 400, "InvalidManifestVersion")
    refused(await own.post(path, {**body, "version": 2}), 400, "NothingChosen")
    refused(await own.post(path, {**body, "waves": ["many"]}), 400, "InvalidWaves")
    refused(await own.post(path, {**body, "healthWorkflow": "ping"}), 400, "UnknownWorkflow")
    reader = await own.member("Read: [/*]")
    refused(await reader.post(path, body), 400, "NothingChosen")
    begun = await begin(own, application, pause=None)
    refused(await reader.post(f"rollouts/{begun['id']}/stop"), 403)
    assert len(made) == 1
