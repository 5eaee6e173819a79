"""kill -9 at each step of each kind of work that is done later: another process goes on, once each (promise 15).

`make test-faults ARGS='tests/durability/test_later_kills.py -k "bulk and noted"'` repeats some of them. Each case
begins one piece of work, lets a process do it that dies at the step, and compares what comes of it with what is right.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pytest

from launchbay.app.features import FEATURES
from tests.support.applications import BAD_SIZE, picky
from tests.support.changes import FINDING
from tests.support.databases import Databases
from tests.support.git_server import Follower, GitServer, account, needs_git
from tests.support.later_kills import (
    KINDS,
    PLACES,
    REFUSAL,
    STEPS,
    STEPS_OF_A_REFUSAL,
    STEPS_WITHOUT_ACT,
    Bay,
    acts,
    kill_at,
    running_bay,
)
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.promotion import NEW, OLD, way
from tests.support.service import accepted, fresh_name

pytestmark = pytest.mark.timeout(180)
MANIFEST = """
launch: {steps: []}
look: {steps: []}
stop: {steps: []}
start: {steps: []}
destroy: {steps: []}
"""
HOUR_MS = 3_600_000


class Begun(NamedTuple):
    """Work that is due. `outcome` is what came of it so far, without jobs under way."""

    outcome: Callable[[], Awaitable[Any]]
    done: Any
    refused: Any = None  # what is right if its acts are refused
    after_death: str = ""  # the statement that ends the lease of the process that died


@pytest.fixture(scope="module")
async def bay(databases: Databases) -> AsyncIterator[Bay]:
    """A service that does later work only when a test says so."""
    url = databases.create()
    async with running_bay(url, outgoing_allow="127.0.0.1", server_programs="git") as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with GitServer(tmp_path_factory.mktemp("repositories")) as server:
        yield server


async def _running(bay: Bay, count: int = 1) -> tuple[str, list[str]]:
    """Return an application with running instances."""
    application = await bay.api.application(MANIFEST)
    instances = [await bay.api.launch(application, destroyInterval=-1) for _ in range(count)]
    for instance in instances:
        await bay.api.until(instance, "Running")
    return application, instances


async def _jobs(bay: Bay, instance: str) -> Counter[str]:
    """Wait for the jobs of an instance, and count those that succeeded by name."""
    document = await bay.api.settled(instance)
    return Counter(job["name"] for job in document["workflowHistory"] if job["status"] == "Succeeded")


async def _bulk(bay: Bay) -> Begun:
    """Run a workflow on two instances."""
    api = bay.api
    _, instances = await _running(bay, 2)
    body = {"act": "run", "workflow": "look", "ids": instances, "maxParallel": 1}
    run = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]

    async def outcome() -> Any:
        jobs = [await _jobs(bay, instance) for instance in instances]
        rows = accepted(await api.get(f"bulk/{run}/instances"))
        statuses = [row["status"] for row in rows]
        return accepted(await api.get(f"bulk/{run}"))["status"], statuses, [each["look"] for each in jobs]

    return Begun(outcome, ("Finished", ["Succeeded"] * 2, [1, 1]), ("Finished", ["Refused"] * 2, [0, 0]))


async def _rollout(bay: Bay) -> Begun:
    """Bring two instances to the newest version."""
    api = bay.api
    application, instances = await _running(bay, 2)
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "\n"))
    body = {"applicationId": application, "version": 3, "ids": instances, "waves": [1], "stopAfterFailures": 1}
    rollout = accepted(await api.post(f"organizations/{api.organization}/rollouts", body))["id"]

    async def outcome() -> Any:
        jobs = [await _jobs(bay, instance) for instance in instances]
        rows = accepted(await api.get(f"rollouts/{rollout}/instances"))
        statuses = sorted(row["status"] for row in rows)
        versions = [(await api.document(instance))["version"] for instance in instances]
        found = accepted(await api.get(f"rollouts/{rollout}"))["status"]
        return found, statuses, sorted(each["reconfigure"] for each in jobs), sorted(versions)

    done = ("Finished", ["Succeeded"] * 2, [1, 1], [3, 3])
    return Begun(outcome, done, ("Stopped", ["Failed", "Waiting"], [0, 0], [2, 2]))


async def _taken_back(bay: Bay) -> Begun:
    """Bring two instances back to the version before a rollout."""
    api = bay.api
    application, instances = await _running(bay, 2)
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "\n"))
    body = {"applicationId": application, "version": 3, "ids": instances}
    rollout = accepted(await api.post(f"organizations/{api.organization}/rollouts", body))["id"]

    async def status() -> Any:
        for instance in instances:
            await api.settled(instance)
        return accepted(await api.get(f"rollouts/{rollout}"))["status"]

    async def is_finished() -> bool:
        return bool(await status() == "Finished")

    await bay.until("rollouts", is_finished)
    accepted(await api.post(f"rollouts/{rollout}/take-back"))

    async def outcome() -> Any:
        jobs = [await _jobs(bay, instance) for instance in instances]
        statuses = [row["status"] for row in accepted(await api.get(f"rollouts/{rollout}/instances"))]
        versions = [(await api.document(instance))["version"] for instance in instances]
        return await status(), statuses, [each["reconfigure"] for each in jobs], versions

    done = ("Returned", ["Returned"] * 2, [2, 2], [2, 2])
    return Begun(outcome, done, ("Returned", ["Lost"] * 2, [1, 1], [3, 3]))


async def _recurring(bay: Bay, **doing: Any) -> tuple[str, Callable[[], Awaitable[Any]]]:
    """Return a recurring schedule that is due, and what reads the outcomes of its firings."""
    api = bay.api
    body = {"name": fresh_name("schedule"), "cron": "0 0 0 1 1 *", **doing}
    made = accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))["id"]
    await bay.execute(
        "UPDATE recurring_schedules SET due_at = now() - interval '1 s', fires_at = now() - interval '1 s'"
        " WHERE id = %s",
        made,
    )

    async def firings() -> Any:
        found = accepted(await api.get(f"recurring-schedules/{made}"))
        return [each["outcome"] for each in found["firings"]]

    return made, firings


async def _recurring_run(bay: Bay) -> Begun:
    """Run a workflow when it is time."""
    _, [instance] = await _running(bay)
    _, firings = await _recurring(bay, instanceId=instance, workflow="look")

    async def outcome() -> Any:
        return await firings(), (await _jobs(bay, instance))["look"]

    return Begun(outcome, (["Started"], 1), (["Refused"], 0))


async def _recurring_launch(bay: Bay) -> Begun:
    """Launch an application when it is time."""
    application = await bay.api.application(MANIFEST)
    _, firings = await _recurring(bay, applicationId=application, launch={"destroyInterval": -1})

    async def outcome() -> Any:
        rows = await bay.execute("SELECT count(*) FROM instances WHERE application_id = %s", application)
        return await firings(), rows[0][0]

    return Begun(outcome, (["Started"], 1), (["Refused"], 0))


async def _recurring_bulk(bay: Bay) -> Begun:
    """Begin a bulk run when it is time."""
    _, [instance] = await _running(bay)
    bulk = {"act": "run", "workflow": "look"}
    _, firings = await _recurring(bay, bulk={**bulk, "ids": [instance]})

    async def outcome() -> Any:
        rows = await bay.execute("SELECT count(*) FROM bulk_instances WHERE instance_id = %s", instance)
        return await firings(), rows[0][0]

    return Begun(outcome, (["Started"], 1), (["Refused"], 0))


async def _change_set(bay: Bay) -> Begun:
    """Note the ends of the jobs of a change set, and say that it has ended."""
    api = bay.api
    hook = {"url": "https://hooks.example.com/launchbay", "events": ["changeSet"]}
    listener = accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))["id"]
    application, instances = await _running(bay, 2)
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "\n"))
    body = {"act": "version", "version": 3, "ids": instances}
    change_set = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    for instance in instances:
        await api.settled(instance)

    async def outcome() -> Any:
        found = accepted(await api.get(f"change-sets/{change_set}"))
        [[told]] = await bay.execute(
            "SELECT count(*) FROM webhook_deliveries WHERE webhook_id = %s"
            " AND body::json -> 'changeSet' ->> 'id' = %s AND body::json -> 'changeSet' ->> 'status' = 'Succeeded'",
            listener,
            change_set,
        )
        return found["status"], [each["status"] for each in found["plan"]], told

    return Begun(outcome, ("Succeeded", ["Succeeded"] * 2, 1))


async def _replan(bay: Bay) -> Begun:
    """Make the change set that follows one of which a step wasn't as approved."""
    api = bay.api
    instance = await api.launch(await api.application(picky()), destroyInterval=-1)
    await api.until(instance, "Running")
    configuration = {"parameters": {"input.size": BAD_SIZE}}
    body = {"act": "reconfigure", "ids": [instance], "configuration": configuration}
    change_set = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    job = (await api.settled(instance))["workflowHistory"][0]["id"]
    await bay.execute("SELECT launchbay_refuse_job(%s, %s, 1, 'web#grow/act', 'It differs.', true)", job, change_set)

    async def outcome() -> Any:
        made = await bay.execute(
            "SELECT change_sets.id FROM change_sets JOIN change_set_instances ON change_set_id = change_sets.id"
            " WHERE instance_id = %s AND comment = 'Plan again'",
            instance,
        )
        [[is_due, follow_up, problem]] = await bay.execute(
            "SELECT due_at IS NOT NULL, follow_up_id, problem FROM refused_jobs WHERE job_id = %s", job
        )
        told = await bay.execute(
            "SELECT 1 FROM log_lines WHERE job_id = %s AND position('planned again' in text) > 0", job
        )
        return len(made), [each for [each] in made] == [follow_up], REFUSAL in (problem or ""), is_due, len(told)

    return Begun(outcome, (1, True, False, False, 1), (0, False, True, False, 1))


def _window(begin: datetime, end: datetime) -> dict[str, Any]:
    return {"windows": [{"sleepAt": f"{begin:%H:%M}", "wakeAt": f"{end:%H:%M}"}]}


async def _asleep(bay: Bay) -> tuple[str, Begun]:
    api = bay.api
    application, [instance] = await _running(bay)
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    accepted(await api.put(f"applications/{application}/sleep", _window(now - 2 * minute, now + 90 * minute)))
    # A new rule stops nothing; a begin that was missed does.
    await bay.execute("UPDATE instance_sleeps SET due_at = now() - interval '1 s' WHERE instance_id = %s", instance)

    async def outcome() -> Any:
        jobs = await _jobs(bay, instance)
        found = accepted(await api.get(f"instances/{instance}/sleep"))
        return jobs["stop"], jobs["start"], found["isAsleep"], found["message"]

    return application, Begun(outcome, (1, 0, True, None), (0, 0, False, REFUSAL))


async def _sleep(bay: Bay) -> Begun:
    """Stop an instance when a window begins."""
    _, begun = await _asleep(bay)
    return begun


async def _wake(bay: Bay) -> Begun:
    """Start an instance when a window is over."""
    application, begun = await _asleep(bay)

    async def is_asleep() -> bool:
        return bool(await begun.outcome() == begun.done)

    await bay.until("sleep windows", is_asleep)
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    over = _window(now - 20 * minute, now - 2 * minute)
    accepted(await bay.api.put(f"applications/{application}/sleep", over))
    return Begun(begun.outcome, (1, 1, False, None), (1, 0, True, REFUSAL))


async def _idle(bay: Bay) -> Begun:
    """Destroy an instance on which nothing has run for long."""
    application, [instance] = await _running(bay)
    accepted(await bay.api.put(f"applications/{application}/lifetime", {"idleMs": HOUR_MS}))
    await bay.execute(
        "WITH moved AS (UPDATE fleet SET job_ended_at = job_ended_at - interval '2 h' WHERE instance_id = %s)"
        " UPDATE idle_ends SET since = since - interval '2 h', due_at = due_at - interval '2 h' WHERE instance_id = %s",
        instance,
        instance,
    )

    async def outcome() -> Any:
        jobs = await _jobs(bay, instance)
        due = await bay.execute("SELECT 1 FROM idle_ends WHERE instance_id = %s AND due_at < now()", instance)
        return (await bay.api.document(instance))["status"], jobs["destroy"], len(due)

    return Begun(outcome, ("Destroyed", 1, 0), ("Running", 0, 0))


async def _rollback(bay: Bay) -> Begun:
    """Take back a configuration that failed."""
    api = bay.api
    application = await api.application(picky())
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
    await api.settled(instance)

    async def outcome() -> Any:
        found = await api.settled(instance)
        told = await bay.execute(
            "SELECT 1 FROM log_lines WHERE instance_id = %s AND position(%s in text) > 0", instance, REFUSAL
        )
        due = await bay.execute("SELECT 1 FROM rollbacks_due WHERE instance_id = %s", instance)
        names = [job["name"] for job in found["workflowHistory"]]
        return found["status"], names.count("reconfigure"), len(told), len(due)

    return Begun(outcome, ("Running", 2, 0, 0), ("Failed", 1, 1, 0))


async def _promotion(bay: Bay) -> Begun:
    """Make the change set of an automatic promotion, and apply it."""
    found = await way(bay.api)
    await found.order({"automatic": True})
    await found.release()

    async def outcome() -> Any:
        version = (await bay.api.settled(found.instances[1]))["version"]
        made = await bay.execute("SELECT 1 FROM promotions WHERE application_id = %s", found.application)
        return version, len(made)

    return Begun(outcome, (NEW, 1), (OLD, 0))


async def _followed(bay: Bay, repositories: GitServer, **body: Any) -> Callable[[], Awaitable[Any]]:
    """Make a source in Git, and return what reads what came of it."""
    api, name = bay.api, fresh_name("lab").replace(" ", "-")
    repository = repositories.repository(name)
    commit = repository.commit({f"environments/{name}.yaml": "markers: []\n"})
    source = await Follower(api, repositories, await account(api, "Administrator")).make(name, path="/", **body)

    async def outcome() -> Any:
        syncs = accepted(await api.get(f"git-sources/{source}/syncs"))
        environments = accepted(await api.get(f"organizations/{api.organization}/environments"))
        made = [each for each in environments if each["name"] == name]
        return [(each["status"], each["commit"] == commit) for each in syncs], len(made)

    return outcome


LEASES = "UPDATE git_sources SET lease_until = now() WHERE lease_until IS NOT NULL"


async def _follow(bay: Bay, repositories: GitServer) -> Begun:
    """Apply a commit."""
    return Begun(await _followed(bay, repositories), ([("Applied", True)], 1), after_death=LEASES)


async def _follow_nothing(bay: Bay, repositories: GitServer) -> Begun:
    """Note that there is no such branch."""
    outcome = await _followed(bay, repositories, branch="gone")
    return Begun(outcome, ([("Refused", False)], 0), after_death=LEASES)


async def _drift_schedule(bay: Bay) -> Begun:
    """Let the instances of an application wait for a check when it is time."""
    api = bay.api
    application, instances = await _running(bay, 2)
    nightly = {"cron": "0 3 * * *", "zone": "UTC"}
    accepted(await api.put(f"applications/{application}/drift-schedule", nightly))
    await bay.execute(
        "UPDATE drift_schedules SET due_at = now() - interval '1 s', fires_at = now() - interval '1 s'"
        " WHERE object_id = %s",
        application,
    )

    async def outcome() -> Any:
        waiting = await bay.execute(
            "SELECT 1 FROM drift_reports WHERE instance_id = ANY (%s) AND waiting_since IS NOT NULL", instances
        )
        due = await bay.execute("SELECT 1 FROM drift_schedules WHERE object_id = %s AND fires_at < now()", application)
        return len(waiting), len(due)

    return Begun(outcome, (2, 0), (0, 0))


async def _check_times(bay: Bay) -> Begun:
    """Read when the manifest of an instance wants it checked."""
    text = f"header: {{checks: {{cron: '0 3 * * *'}}}}\n{MANIFEST}"
    instance = await bay.api.running(text)

    async def outcome() -> Any:
        at = "SELECT cron FROM drift_schedules WHERE object_id = %s AND of_manifest"
        unread = await bay.execute("SELECT 1 FROM check_times_to_read WHERE instance_id = %s", instance)
        baseline = await bay.execute("SELECT learns FROM drift_reports WHERE instance_id = %s", instance)
        return [row[0] for row in await bay.execute(at, instance)], len(unread), [row[0] for row in baseline]

    return Begun(outcome, (["0 3 * * *"], 0, ["launch"]))


async def _drift(bay: Bay, *, fails: bool = False) -> Begun:
    """Check an instance."""
    api = bay.api
    _, [instance] = await _running(bay)
    if fails:
        await bay.execute("UPDATE instances SET status = 'Failed' WHERE id = %s", instance)
    accepted(await api.post(f"instances/{instance}/drift/check"))

    async def outcome() -> Any:
        found = accepted(await api.get(f"instances/{instance}/drift/report"))
        return found["status"], len(found["checks"])

    lease = "UPDATE drift_reports SET lease_until = now() WHERE lease_until IS NOT NULL"
    return Begun(outcome, ("Failed" if fails else "Checked", 1), after_death=lease)


async def _put_back(bay: Bay) -> Begun:
    """Make the change set of a rule that puts drift back."""
    api = bay.api
    _, [instance] = await _running(bay)
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", {"addresses": ["*"]}))
    found = msgspec.json.encode([FINDING]).decode()
    await bay.execute(
        "INSERT INTO drift_reports (instance_id, organization_id, checked_at, findings, new_findings)"
        " SELECT id, organization_id, now(), %s, 1 FROM instances WHERE id = %s",
        found,
        instance,
    )

    async def outcome() -> Any:
        made = await bay.execute(
            "SELECT 1 FROM change_set_instances JOIN change_sets ON change_sets.id = change_set_id"
            " WHERE instance_id = %s AND comment LIKE 'Put back by a rule%%'",
            instance,
        )
        said = accepted(await api.get(f"instances/{instance}/drift/report"))["putBack"]
        return len(made), said

    return Begun(outcome, (1, None), (0, REFUSAL))


async def _tell(bay: Bay, receiver: LoopbackServer) -> Begun:
    """Send an event to a webhook. It may arrive twice, with the same ID."""
    api, path = bay.api, f"/{fresh_name('hook').replace(' ', '-')}"
    receiver.routes[path] = answer(204)
    body = {"url": receiver.url(path), "events": ["job"]}
    hook = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    await _running(bay)
    accepted(await api.put(f"webhooks/{hook}", {**body, "events": ["signal"]}))

    async def outcome() -> Any:
        told = accepted(await api.get(f"webhooks/{hook}/deliveries"))
        arrived = {each.headers["launchbay-delivery"] for each in receiver.received if each.target == path}
        return {each["status"] for each in told}, arrived == {each["id"] for each in told}

    lease = "UPDATE webhook_deliveries SET next_at = now() WHERE status = 'pending'"
    return Begun(outcome, ({"delivered"}, True), after_death=lease)


SCENES: dict[str, tuple[Callable[[Bay], Awaitable[Begun]], ...]] = {
    "bulk": (_bulk,),
    "rollouts": (_rollout, _taken_back),
    "recurring schedules": (_recurring_run, _recurring_launch, _recurring_bulk),
    "change sets": (_change_set,),
    "replans": (_replan,),
    "sleep windows": (_sleep, _wake),
    "idle instances": (_idle,),
    "rollbacks": (_rollback,),
    "schedules of drift": (_drift_schedule,),
    "times of checks": (_check_times,),
    "put backs": (_put_back,),
    "promotions": (_promotion,),
}
CASES = [
    pytest.param(task, scene, step, id=f"{task}: {scene.__name__.strip('_').replace('_', ' ')} - {step}")
    for task, scenes in SCENES.items()
    for scene in scenes
    for step in ((*STEPS, *STEPS_OF_A_REFUSAL) if acts(KINDS[task]) else STEPS_WITHOUT_ACT)
]


# Tasks of features that are no work of this sort, or that are tried elsewhere.
NOT_HERE = {
    "drift mails": "tests/features/drift/test_drift_mails.py: what was sent twice has one ID",
    "secret versions": "tests/features/secret_providers/test_changed.py: what it took has its next look in an hour",
    "old deliveries": "one statement",
    "outrun jobs": "one statement for each job",
    "warnings": "tests/features/lifetimes: the statement that warns notes it",
    "warning mails": "tests/features/lifetimes/test_ending_mails.py: what was sent twice has one ID",
    "Git previews": "tests/features/git_sources: as Git sources, with the same lease",
    "Git statuses": "tests/features/git_sources: a status that is set twice is the same status",
    "plans": "as checks of drift, with the same lease; tests/features/plans",
    "secret sessions": "tests/api/test_secret_providers.py: whoever comes next revokes what a killed process has left",
}


def test_each_kind_of_later_work_has_its_row_here() -> None:
    assert SCENES.keys() == KINDS.keys()


@pytest.mark.faults
async def test_each_task_of_a_feature_is_tried_here_or_says_why_not(bay: Bay) -> None:
    tasks = {each.name for each in FEATURES.tasks(bay.deps)}
    assert tasks == SCENES.keys() | PLACES.keys() | NOT_HERE.keys()


async def _verdict(bay: Bay, task: str, begun: Begun, step: str, defect: str | None = None) -> tuple[Any, Any]:
    """Let a process die at a step and another go on. Return what came of it, and what is right."""
    is_refused = step in STEPS_OF_A_REFUSAL
    right = begun.refused if is_refused else begun.done
    await kill_at(bay.api, task, step, defect)
    if begun.after_death:
        await bay.execute(begun.after_death)

    async def is_right() -> bool:
        return bool(await begun.outcome() == right)

    with suppress(TimeoutError):  # the comparison says more
        await bay.until(task, is_right, refuses=is_refused)
    return await begun.outcome(), right


@pytest.mark.faults
@pytest.mark.parametrize(("task", "scene", "step"), CASES)
async def test_a_process_that_dies_amid_later_work_loses_and_repeats_nothing(
    bay: Bay, task: str, scene: Callable[[Bay], Awaitable[Begun]], step: str
) -> None:
    found, right = await _verdict(bay, task, await scene(bay), step)
    assert found == right


@pytest.mark.faults
@needs_git
@pytest.mark.parametrize("step", PLACES["Git sources"])
async def test_a_process_that_dies_amid_a_look_at_a_branch_applies_its_commit_once(
    bay: Bay, repositories: GitServer, step: str
) -> None:
    scene = _follow_nothing if "fail" in step else _follow
    found, right = await _verdict(bay, "Git sources", await scene(bay, repositories), step)
    assert found == right


@pytest.mark.faults
@pytest.mark.parametrize("step", PLACES["drift"])
async def test_a_process_that_dies_amid_a_check_leaves_one_check(bay: Bay, step: str) -> None:
    found, right = await _verdict(bay, "drift", await _drift(bay, fails="fail" in step), step)
    assert found == right


@pytest.mark.faults
@pytest.mark.parametrize("step", PLACES["webhooks"])
async def test_a_process_that_dies_amid_a_delivery_loses_no_event(bay: Bay, step: str) -> None:
    async with loopback_server() as receiver:
        found, right = await _verdict(bay, "webhooks", await _tell(bay, receiver), step)
    assert found == right


@pytest.mark.faults
@pytest.mark.parametrize(
    ("task", "scene", "defect", "step", "wrong"),
    [
        ("recurring schedules", _recurring_launch, "note after the commit", "noted", (["Started"], 2)),
        ("recurring schedules", _recurring_launch, "act alone", "acted", (["Started"], 2)),
        ("bulk", _bulk, "note before the act", "acted", ("Finished", ["Succeeded"] * 2, [0, 1])),
    ],
)
async def test_dying_there_shows_the_defect(
    bay: Bay, task: str, scene: Callable[[Bay], Awaitable[Begun]], defect: str, step: str, wrong: Any
) -> None:
    begun = await scene(bay)
    found, _ = await _verdict(bay, task, begun._replace(done=wrong), step, defect)
    assert found == wrong != begun.done
