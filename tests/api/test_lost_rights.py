"""What people began runs only while they may do it: schedules and queued jobs, over HTTP with the real engine."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from launchbay.engine.runner import ASKED_AGAIN_S
from tests.support.engine import left
from tests.support.eventually import eventually
from tests.support.service import Api, Caller, Person, accepted, fresh_name, join, person, refused

HOUR_MS = 3_600_000
DISABLED = "The account of the person who asked for it is disabled or was deleted."
LEFT = "The person who asked for it left the organization."
SIMPLE = "launch: {steps: []}\nquick: {steps: []}\ndestroy: {steps: []}\n"
# At most one job of the application at a time.
ONE = """
header: {concurrency: 1}
launch: {steps: []}
hold: {steps: [{rest: {action: wait, parameters: {delay: 1 h}}}]}
quick: {steps: []}
destroy: {steps: []}
"""
ASKING = """
launch:
  steps: [{sign-off: {action: approval, parameters: {text: Deploy?, approvals: 2}, output: {by: approvedBy}}}]
  return: {by: {value: "{$.by}"}}
destroy: {steps: []}
"""
APPROVING = ("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
Loss = Callable[[Api, Person, str], Awaitable[httpx.Response]]


async def role(api: Api, *entries: str) -> str:
    name = fresh_name("role")
    text = "".join(f"- {entry}\n" for entry in entries)
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    return name


def of_member(api: Api, who: Person) -> str:
    return f"organizations/{api.organization}/users/{who.id}"


async def revoke(api: Api, who: Person, held: str) -> httpx.Response:
    return await api.delete(f"{of_member(api, who)}/roles", [held])


async def remove(api: Api, who: Person, _: str) -> httpx.Response:
    return await api.delete(of_member(api, who))


async def disable(api: Api, who: Person, _: str) -> httpx.Response:
    return await api.put(of_member(api, who), {"enabled": False})


LOSSES: dict[str, Loss] = {"revoke": revoke, "remove": remove, "disable": disable}


def sentence(loss: str, permission: str) -> str:
    told = {"disable": DISABLED, "remove": DISABLED}  # the account belongs to this organization alone: it is deleted
    return told.get(loss, f"The person who requested it no longer has the permission {permission}.")


async def scheduled(caller: Caller, instance: str, workflow: str = "quick") -> str:
    answer = await caller.post(f"instances/{instance}/{workflow}/schedule", {"interval": HOUR_MS})
    return str(accepted(answer)["id"])


async def outcome(api: Api, instance: str, schedule: str) -> Any:
    """Let a schedule fall due, and return the job that it became once it has ended."""
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET due_at = now() WHERE id = %s", [schedule])
    before = len((await api.document(instance))["workflowHistory"])
    document = await eventually(
        lambda: api.settled(instance), lambda document: len(document["workflowHistory"]) != before
    )
    job = document["workflowHistory"][0]
    return accepted(await api.get(f"jobs/{job['id']}?wait=30"))


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_schedule_of_who_lost_the_right_fails_with_the_reason(api: Api, loss: str) -> None:
    name = await role(api, "Read: [/*]", "ScheduleInstanceWorkflow: [/*]", "EditInstance: [/*]")
    who = await person(api, name)
    instance = await api.running(SIMPLE)
    quick, destroy = await scheduled(who, instance), await scheduled(who, instance, "destroy")
    accepted(await LOSSES[loss](api, who, name))
    for schedule, permission in ((quick, "ScheduleInstanceWorkflow"), (destroy, "EditInstance")):
        job = await outcome(api, instance, schedule)
        assert job["status"] == "Failed"
        assert (
            job["errorMessage"] == f"{sentence(loss, permission)} Somebody with the permission must schedule it again."
        )
        assert job["beganBy"]["id"] == schedule
    document = await api.document(instance)
    assert document["status"] == "Running"
    assert accepted(await api.get(f"instances/{instance}/schedules")) == {"schedules": []}


async def test_a_schedule_runs_for_who_kept_the_right_by_another_role(api: Api) -> None:
    first, second = await role(api, "ScheduleInstanceWorkflow: [/*]"), await role(api, "ScheduleInstanceWorkflow: [/*]")
    who = await person(api, first, second)
    instance = await api.running(SIMPLE)
    schedule = await scheduled(who, instance)
    accepted(await revoke(api, who, first))
    assert (await outcome(api, instance, schedule))["status"] == "Succeeded"


async def test_a_guest_who_left_runs_nothing_more(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    guest = await person(api, organization=organization, by=outsider)
    await join(api, api.organization, guest, await role(api, "ScheduleInstanceWorkflow: [/*]"))
    instance = await api.running(SIMPLE)
    schedule = await scheduled(guest, instance)
    accepted(await api.delete(of_member(api, guest)))
    assert (await outcome(api, instance, schedule))["errorMessage"].startswith(LEFT)


@pytest.mark.parametrize("ends_account", [True, False])
async def test_a_schedule_of_a_service_account_ends_with_the_account(api: Api, ends_account: bool) -> None:
    body = {"name": fresh_name("Robot"), "roles": [await role(api, "ScheduleInstanceWorkflow: [/*]")]}
    within = f"organizations/{api.organization}"
    account = accepted(await api.post(f"{within}/serviceAccounts", body))["id"]
    made = accepted(await api.post(f"{within}/accessTokens", {"name": "ci", "owner": account}))
    instance = await api.running(SIMPLE)
    schedule = await scheduled(api.caller(f"Bearer {made['token']}"), instance)
    if ends_account:
        accepted(await api.delete(f"{within}/serviceAccounts/{account}"))
        assert (await outcome(api, instance, schedule))["errorMessage"].startswith(DISABLED)
    else:  # a schedule made with a token is its owner's
        accepted(await api.delete(f"{within}/accessTokens/{made['id']}"))
        assert (await outcome(api, instance, schedule))["status"] == "Succeeded"


async def test_who_moves_a_schedule_answers_for_it(api: Api) -> None:
    name = await role(api, "ScheduleInstanceWorkflow: [/*]")
    who = await person(api, name)
    instance = await api.running(SIMPLE)
    schedule = await scheduled(who, instance)
    accepted(await revoke(api, who, name))
    accepted(await api.post(f"instances/{instance}/{schedule}/reschedule", {"interval": HOUR_MS}))
    job = await outcome(api, instance, schedule)
    assert (job["status"], job["ownerId"] == who.id) == ("Succeeded", False)


async def test_an_expiry_and_a_schedule_of_the_manifest_need_nobodys_right(api: Api) -> None:
    name = await role(api, "Read: [/*]", "CreateInstance: [/*]", "EditInstance: [/*]")
    who = await person(api, name)
    application = await api.application(SIMPLE)
    instance = accepted(await who.post(f"applications/{application}/launch", {"destroyInterval": HOUR_MS}))["id"]
    await api.settled(instance)
    accepted(await remove(api, who, name))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET due_at = now() WHERE instance_id = %s", [instance])
    await api.until(instance, "Destroyed")


@pytest.mark.features("lifetimes")
async def test_what_a_destroy_taken_back_starts_again_needs_no_other_right(api: Api) -> None:
    who = await person(api, await role(api, "Read: [/*]", "EditInstance: [/*]"))
    application = await api.application("launch: {steps: []}\nstop: {steps: []}\nstart: {steps: []}\n")
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": HOUR_MS}))
    instance = await api.launch(application)
    await api.until(instance, "Running")
    accepted(await who.post(f"instances/{instance}/destroy", {}))
    await api.settled(instance)
    accepted(await who.post(f"instances/{instance}/lifetime/undo-destroy"))
    jobs = (await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) >= 3))[
        "workflowHistory"
    ]
    assert (jobs[0]["name"], jobs[0]["status"]) == ("start", "Succeeded")


async def queued(api: Api, caller: Caller, instance: str, workflow: str = "quick") -> str:
    """Begin a job that waits for its turn, as if for long."""
    answer = await caller.post(f"instances/{instance}/{workflow}", {})
    accepted(answer)
    job: str = answer.headers["Launchbay-Job"]
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE jobs SET created_at = created_at - %s * interval '1 second' WHERE id = %s", [ASKED_AGAIN_S, job]
        )
    return job


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_queued_job_of_who_lost_the_right_never_starts(api: Api, loss: str) -> None:
    name = await role(api, "Read: [/*]", "RunInstanceWorkflow: [/*]", "EditInstance: [/*]")
    who, other = await person(api, name), await person(api, await role(api, "RunInstanceWorkflow: [/*]"))
    application = await api.application(ONE)
    instances = [await api.launch(application) for _ in range(4)]
    for instance in instances:
        await api.settled(instance)
    held = accepted(await api.post(f"instances/{instances[0]}/hold", {}))
    assert held
    mine = await queued(api, who, instances[1])
    destroy = await queued(api, who, instances[2], "destroy")
    others = await queued(api, other, instances[3])
    accepted(await LOSSES[loss](api, who, name))
    [holding] = [
        each for each in (await api.document(instances[0]))["workflowHistory"] if each["status"] == "Executing"
    ]
    accepted(await api.delete(f"instances/{instances[0]}/jobs/{holding['id']}"))
    ended = {job: accepted(await api.get(f"jobs/{job}?wait=30")) for job in (mine, destroy, others)}
    assert ended[others]["status"] == "Succeeded"
    expected = sentence(loss, "RunInstanceWorkflow or ScheduleInstanceWorkflow or EditInstance")
    assert ended[mine]["errorMessage"] == f"Cancelled while it was queued: t{expected[1:]}"
    assert ended[destroy]["status"] == "Failed"
    assert (await api.settled(instances[1]))["status"] == "Running"
    assert (await api.settled(instances[2]))["status"] == "Failed"  # as after a cancelled destroy


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_launch_that_has_waited_for_a_process_fails_if_its_requester_lost_the_right_meanwhile(
    api: Api, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await role(api, "Read: [/*]", "CreateInstance: [/*]")
    who = await person(api, name)
    application = await api.application(SIMPLE)
    async with left(monkeypatch) as begun:
        instance = accepted(await who.post(f"applications/{application}/launch", {}))["id"]
        await begun.wait()
        # It has its start since its acceptance.
        async with api.database.transaction() as connection:
            await connection.execute(
                "UPDATE jobs SET created_at = created_at - %(age)s, started_at = started_at - %(age)s "
                "WHERE instance_id = %(instance)s",
                {"age": timedelta(seconds=ASKED_AGAIN_S), "instance": instance},
            )
        accepted(await LOSSES[loss](api, who, name))
    document = await api.settled(instance)
    assert document["status"] == "Failed"
    expected = sentence(loss, "CreateInstance or RunInstanceWorkflow or ScheduleInstanceWorkflow or EditInstance")
    assert document["errorMessage"] == f"Cancelled while it was queued: t{expected[1:]}"
    log = await api.read(f"instances/{instance}/log")
    assert log[0]["text"] == "Job 1, 'launch', started after waiting 10 s."


@pytest.mark.features("bulk")
async def test_turns_of_a_bulk_run_are_refused_once_the_role_is_gone(api: Api) -> None:
    name = await role(api, "Read: [/*]", "RunInstanceWorkflow: [/*]")
    who = await person(api, name)
    application = await api.application(ONE.replace("concurrency: 1", "concurrency: 9"))
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    body = {"act": "run", "workflow": "hold", "ids": instances, "maxParallel": 1}
    begun = accepted(await who.post(f"organizations/{api.organization}/bulk", body))["id"]
    rows = await eventually(lambda: api.read(f"bulk/{begun}/instances", status="Running"))
    accepted(await revoke(api, who, name))
    accepted(await api.delete(f"instances/{rows[0]['instanceId']}/jobs/{rows[0]['jobId']}"))
    rows = await eventually(lambda: api.read(f"bulk/{begun}/instances", status="Refused"))
    assert "You need the permission RunInstanceWorkflow" in rows[0]["message"]
    assert "held there by" not in rows[0]["message"], "others read it, who may see nobody"


async def proposed(api: Api, approvals: int) -> str:
    """Return the path of a change set that needs so many approvals."""
    name = fresh_name("lab")
    environment = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": approvals, "roleId": None}))
    body = {"act": "launch", "applicationId": await api.application(SIMPLE), "launch": {"environmentId": environment}}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))
    return f"change-sets/{made['id']}"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.features("change_sets")
async def test_an_approval_of_who_lost_the_right_is_withdrawn_before_it_is_applied(api: Api, loss: str) -> None:
    name = await role(api, *APPROVING)
    who, other = await person(api, name), await person(api, await role(api, *APPROVING))
    path = await proposed(api, 1)
    assert accepted(await who.post(f"{path}/approve"))["status"] == "Ready"
    accepted(await LOSSES[loss](api, who, name))
    told = refused(await api.post(f"{path}/apply"), 409, "ChangeSetPending")
    assert told.startswith(f"The change set waits for approval again: {who.email} approved it")
    shown = accepted(await api.get(path))
    assert (shown["status"], shown["answers"]) == ("Pending", [])
    assert accepted(await other.post(f"{path}/approve"))["status"] == "Ready"
    accepted(await api.post(f"{path}/apply"))
    audit = accepted(await api.get(f"organizations/{api.organization}/audit"))
    assert {"by": who.email} in [each["before"] for each in audit if each["operation"] == "withdraw_approval"]


@pytest.mark.features("change_sets")
async def test_who_may_only_apply_anymore_does_not_apply_by_an_own_approval(api: Api) -> None:
    name = await role(api, *APPROVING)
    who = await person(api, name, await role(api, "Read: [/*]", "CreateInstance: [/*]"))
    path = await proposed(api, 1)
    accepted(await who.post(f"{path}/approve"))
    accepted(await revoke(api, who, name))
    refused(await who.post(f"{path}/apply"), 409, "ChangeSetPending")


@pytest.mark.features("change_sets")
async def test_an_approval_by_a_token_ends_with_the_token(api: Api) -> None:
    who = await person(api, await role(api, *APPROVING))
    tokens = f"organizations/{api.organization}/accessTokens"
    made = accepted(await who.post(tokens, {"name": "ci"}))
    kept, revoked = await proposed(api, 1), await proposed(api, 1)
    for path in (kept, revoked):
        accepted(await api.caller(f"Bearer {made['token']}").post(f"{path}/approve"))
    accepted(await api.post(f"{kept}/apply"))
    accepted(await who.delete(f"{tokens}/{made['id']}"))
    refused(await api.post(f"{revoked}/apply"), 409, "ChangeSetPending")
    assert accepted(await who.post(f"{revoked}/approve"))["status"] == "Ready"
    accepted(await api.post(f"{revoked}/apply"))


@pytest.mark.features("change_sets")
async def test_an_approval_of_who_lost_the_right_does_not_count_with_the_next_one(api: Api) -> None:
    name = await role(api, *APPROVING)
    who, others = await person(api, name), [await person(api, await role(api, *APPROVING)) for _ in range(2)]
    path = await proposed(api, 2)
    accepted(await who.post(f"{path}/approve"))
    accepted(await revoke(api, who, name))
    assert accepted(await others[0].post(f"{path}/approve"))["status"] == "Pending"
    shown = accepted(await others[1].post(f"{path}/approve"))
    assert (shown["status"], [each["email"] for each in shown["answers"]]) == ("Ready", [each.email for each in others])


@pytest.mark.parametrize("loss", ["revoke", "token"])
async def test_a_step_is_approved_only_by_those_who_still_may(api: Api, loss: str) -> None:
    name = await role(api, *APPROVING)
    who, others = await person(api, name), [await person(api, await role(api, *APPROVING)) for _ in range(2)]
    instance = await api.launch(await api.application(ASKING))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    path, tokens = f"approvals/{asked[0]['id']}/approve", f"organizations/{api.organization}/accessTokens"
    if loss == "token":
        made = accepted(await who.post(tokens, {"name": "ci"}))
        accepted(await api.caller(f"Bearer {made['token']}").post(path))
        accepted(await who.delete(f"{tokens}/{made['id']}"))
    else:
        accepted(await who.post(path))
        accepted(await LOSSES[loss](api, who, name))
    assert accepted(await others[0].post(path))["status"] == "pending"
    assert accepted(await others[1].post(path))["status"] == "approved"
    by = ", ".join(each.email for each in others)
    assert (await api.settled(instance))["returnValues"] == {"by": by}


async def by_token_then_in_person(api: Api, who: Person, path: str) -> None:
    """Approve with an access token, then without one, and revoke the token."""
    tokens = f"organizations/{api.organization}/accessTokens"
    made = accepted(await who.post(tokens, {"name": "ci"}))
    accepted(await api.caller(f"Bearer {made['token']}").post(path))
    accepted(await who.post(path))
    accepted(await who.delete(f"{tokens}/{made['id']}"))


@pytest.mark.features("change_sets")
async def test_a_change_set_approved_in_person_after_a_token_outlives_the_token(api: Api) -> None:
    who = await person(api, await role(api, *APPROVING))
    path = await proposed(api, 1)
    await by_token_then_in_person(api, who, f"{path}/approve")
    refused(await who.post(f"{path}/approve"), 409, "ChangeSetDecided")
    accepted(await api.post(f"{path}/apply"))


async def test_a_step_approved_in_person_after_a_token_outlives_the_token(api: Api) -> None:
    who, other = [await person(api, await role(api, *APPROVING)) for _ in range(2)]
    instance = await api.launch(await api.application(ASKING))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    path = f"approvals/{asked[0]['id']}/approve"
    await by_token_then_in_person(api, who, path)
    assert accepted(await other.post(path))["status"] == "approved"
