"""Recurring schedules over HTTP: the real engine fires them (docs/howto/recurring-schedules.md)."""

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from launchbay.clock import from_ms, iso_time
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, refused

APP = """
application:
  interfaces: {manage: {grow: bind(web#manage.grow), rest: bind(web#manage.rest)}}
  components:
    web:
      type: workflow.Instance
      interfaces: {manage: {grow: receive-command(int size => int size), rest: receive-command()}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          grow: {steps: [], return: {size: {value: "{$.size}"}}}
          rest: {steps: [{wait: {action: wait, parameters: {delay: 1 h}}}]}
          destroy: {steps: []}
"""
EVERY_10_S = "0/10 * * * * ?"


async def made(api: Api, **body: Any) -> Any:
    body = {"name": "Regular", "cron": EVERY_10_S, **body}
    return accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))


async def set_due(api: Api, schedule: str) -> None:
    statement = "UPDATE recurring_schedules SET due_at = date_trunc('second', now()), fires_at = now() WHERE id = %s"
    async with api.database.transaction() as connection:
        await connection.execute(statement, [schedule])


async def fired(api: Api, schedule: str, outcome: str = "Started") -> Any:
    """Have it fire now, and return it after that."""
    await set_due(api, schedule)
    return await eventually(
        lambda: api.read(f"recurring-schedules/{schedule}"),
        lambda found: found["firings"] and found["firings"][0]["outcome"] == outcome,
    )


async def test_a_workflow_runs_at_its_times_as_who_made_the_schedule(api: Api) -> None:
    instance = await api.running(APP)
    schedule = await made(api, instanceId=instance, workflow="manage.grow", parameters={"size": "3"})
    assert (schedule["kind"], schedule["status"], schedule["fired"]) == ("run", "Active", 0)
    found = await fired(api, schedule["id"])
    (firing,) = found["firings"]
    job = accepted(await api.get(f"jobs/{firing['jobId']}?wait=30"))
    assert (job["workflow"], job["results"], job["instanceId"]) == ("manage.grow", {"size": 3}, instance)
    shown = {"kind": "schedule", "id": schedule["id"], "name": "Regular", "owner": "Administrator"}
    assert job["beganBy"] == shown
    found = accepted(await api.get(f"recurring-schedules/{schedule['id']}"))
    assert (found["fired"], found["firings"][0]["jobStatus"]) == (1, "Succeeded")
    assert found["nextAt"][0] > firing["dueAt"]


async def test_a_launch_and_a_bulk_run_repeat_too(api: Api) -> None:
    application = await api.application(APP)
    launch = await made(api, applicationId=application, launch={"labels": {"team": "night"}, "destroyInterval": 60_000})
    firing = (await fired(api, launch["id"]))["firings"][0]
    instance = accepted(await api.get(f"instances/{firing['instanceId']}"))
    assert (instance["applicationId"], instance["labels"]) == (application, {"team": "night"})
    accepted(await api.get(f"jobs/{firing['jobId']}?wait=30"))
    act = {"act": "run", "workflow": "manage.grow", "parameters": {"size": 2}, "select": {"labels": "team=night"}}
    bulk = await made(api, bulk=act)
    assert (bulk["kind"], bulk["act"]) == ("bulk", "run")
    run = accepted(await api.get(f"bulk/{(await fired(api, bulk['id']))['firings'][0]['bulkId']}"))
    assert sum(run["counts"].values()) == 1


@pytest.mark.parametrize("when_busy", ["skip", "queue"])
async def test_a_busy_instance_is_skipped_or_waited_for(api: Api, when_busy: str) -> None:
    instance = await api.running(APP)
    schedule = await made(api, instanceId=instance, workflow="manage.grow", parameters={"size": 1}, whenBusy=when_busy)
    resting = (await api.post(f"instances/{instance}/manage.rest", {})).headers["launchbay-job"]
    if when_busy == "skip":
        (firing,) = (await fired(api, schedule["id"], "Skipped"))["firings"]
        assert "runs job" in firing["message"]
        return
    await set_due(api, schedule["id"])
    await eventually(
        lambda: api.read(f"recurring-schedules/{schedule['id']}"), lambda found: found["waitingSince"] is not None
    )
    accepted(await api.delete(f"instances/{instance}/jobs/{resting}"))
    assert (await fired(api, schedule["id"]))["fired"] == 1


async def test_a_paused_schedule_has_no_next_time_until_it_is_resumed(api: Api) -> None:
    schedule = await made(api, applicationId=await api.application(APP), paused=True)
    assert (schedule["status"], schedule["nextAt"]) == ("Paused", [])
    accepted(await api.post(f"recurring-schedules/{schedule['id']}/resume"))
    assert len(accepted(await api.get(f"recurring-schedules/{schedule['id']}"))["nextAt"]) == 5
    accepted(await api.post(f"recurring-schedules/{schedule['id']}/pause"))
    assert accepted(await api.get(f"recurring-schedules/{schedule['id']}"))["status"] == "Paused"


async def test_times_follow_the_clock_of_the_zone(api: Api) -> None:
    body = {"cron": "0 7 * * MON-FRI", "zone": "Europe/Berlin", "preview": True}
    preview = await made(api, applicationId=await api.application(APP), **body)
    assert (preview["id"], preview["status"], preview["warnings"]) == (None, "Preview", [])
    berlin = [datetime.fromtimestamp(each / 1000, ZoneInfo("Europe/Berlin")) for each in preview["nextAt"]]
    assert len(berlin) == 5
    assert {(each.hour, each.minute) for each in berlin} == {(7, 0)}
    assert all(each.weekday() < 5 for each in berlin)


async def test_what_the_author_may_not_expect_is_said_before_and_after_it_is_made(api: Api) -> None:
    application = await api.application(APP)
    either = "Day of month 13 and day of week 5: it fires on days that match either of them."
    body = {"cron": "30 2 13 * 5", "zone": "UTC", "applicationId": application}
    assert (await made(api, **body, preview=True))["warnings"] == [either]
    schedule = await made(api, **body)
    assert schedule["warnings"] == [either]
    assert accepted(await api.get(f"recurring-schedules/{schedule['id']}"))["warnings"] == [either]
    berlin = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "applicationId": application, "preview": True}
    [skipped, twice] = (await made(api, **berlin))["warnings"]
    assert skipped.endswith("the clock of Europe/Berlin skips 02:30: it fires at 03:30.")
    assert twice.endswith("the clock of Europe/Berlin shows 02:30 twice: it fires the first time only.")


@pytest.mark.parametrize(
    "start", [4_000_000_000_000, 3_999_974_400_500], ids=["by day", "half a second after midnight"]
)
async def test_no_next_time_is_before_the_start(api: Api, start: int) -> None:
    schedule = await made(api, applicationId=await api.application(APP), cron="0 0 * * *", startsAt=start)
    found = accepted(await api.get(f"recurring-schedules/{schedule['id']}"))
    assert [each >= start for each in found["nextAt"]] == [True] * 5


async def test_a_schedule_is_changed_listed_and_deleted(api: Api) -> None:
    application = await api.application(APP)
    schedule = await made(api, applicationId=application)
    accepted(
        await api.put(f"recurring-schedules/{schedule['id']}", {"name": "Rare", "cron": "0 0 1 1 *", "jitterMs": 5})
    )
    where = f"organizations/{api.organization}/recurring-schedules"
    (listed,) = accepted(await api.get(where, application=application))
    assert (listed["name"], listed["cron"], listed["jitterMs"]) == ("Rare", "0 0 1 1 *", 5)
    accepted(await api.delete(f"recurring-schedules/{schedule['id']}"))
    assert accepted(await api.get(where, application=application)) == []
    assert (await api.get(f"recurring-schedules/{schedule['id']}")).status_code == 404


async def test_a_firing_needs_the_permission_that_its_maker_has_then(api: Api) -> None:
    schedule = await made(api, applicationId=await api.application(APP))
    await api.member("Read")
    async with api.database.transaction() as connection:
        statement = "UPDATE recurring_schedules SET owner_id = (SELECT max(id) FROM users) WHERE id = %s"
        await connection.execute(statement, [schedule["id"]])
    (firing,) = (await fired(api, schedule["id"], "Refused"))["firings"]
    assert "CreateInstance" in firing["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"cron": "every night"}, "Invalid schedule"),
        ({"cron": "0 25 * * *"}, "Invalid schedule '0 25 * * *': Bad hour '25'. Use 0 to 23"),
        ({"cron": "0 5 * * 1-9"}, "Bad day-of-week '1-9'. Use SUN to SAT, or 0 (Sunday) to 6"),
        ({"cron": "0 0 30 2 *"}, "Invalid schedule '0 0 30 2 *': There is no day '30' in February."),
        ({"cron": "0 0 31 4,JUN *"}, "There is no day '31' in April or June."),
        ({"cron": "0 0 32 2 *"}, "Bad day-of-month '32'. Use 1 to 31 or L"),
        ({"cron": "0 5 * *"}, "expected 5 fields, found 4: minute, hour"),
        ({"whenBusy": "wait"}, "whenBusy: invalid value 'wait'; expected queue or skip."),
        ({"zone": "Europe/Nowhere"}, "zone: Unknown time zone"),
        ({"cron": "* * * * * ?"}, "more often than every 10 seconds"),
        ({"endsAt": 1}, "no time in the future"),
        ({"startsAt": 4_000_000_000_000, "endsAt": 3_000_000_000_000}, "endsAt must be after startsAt"),
        ({"applicationId": None}, "Give one of instanceId, applicationId and bulk"),
        ({"workflow": "x"}, "workflow and parameters need instanceId"),
        ({"launch": {"version": 77}}, "77"),
        ({"bulk": {"act": "run", "ids": ["0" * 24]}}, "Give one of"),
        ({"jitterMs": -1}, "jitterMs"),
        ({"name": " "}, "A name must have"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(api: Api, body: dict[str, Any], message: str) -> None:
    body = {"name": "x", "cron": EVERY_10_S, "applicationId": await api.application(APP), **body}
    path = f"organizations/{api.organization}/recurring-schedules"
    answer = await api.post(path, body)
    assert answer.status_code == 400
    assert message in answer.text
    looked = await api.post(path, {**body, "preview": True})
    assert (looked.status_code, looked.json()["errors"]) == (400, answer.json()["errors"])


async def test_a_bulk_schedule_names_instances_that_its_maker_may_read(api: Api) -> None:
    own = await api.running(APP)
    outsider, organization, _ = await api.outsider()
    created = await outsider.post(f"organizations/{organization}/applications", {"name": "app"})
    application = accepted(created)["id"]
    accepted(await outsider.put_yaml(f"applications/{application}/manifest", APP))
    foreign = accepted(await outsider.post(f"applications/{application}/launch", {}))["id"]
    path = f"organizations/{api.organization}/recurring-schedules"
    act = {"act": "run", "workflow": "manage.grow", "parameters": {"size": 2}}
    for unknown in (foreign, "0" * 24):
        bulk = {**act, "ids": [own, unknown]}
        at_once = await api.post(f"organizations/{api.organization}/bulk", bulk)
        for preview in (False, True):
            answer = await api.post(path, {"name": "Foreign", "cron": EVERY_10_S, "bulk": bulk, "preview": preview})
            refused(answer, 400, "UnknownId")
            assert answer.json()["errors"] == at_once.json()["errors"]
    assert "Foreign" not in {each["name"] for each in accepted(await api.get(path))}
    assert (await made(api, bulk={**act, "ids": [own]}))["kind"] == "bulk"


async def test_other_organizations_see_nothing_of_it(api: Api) -> None:
    schedule = await made(api, applicationId=await api.application(APP))
    outsider, _, _ = await api.outsider()
    for answer in (
        await outsider.get(f"recurring-schedules/{schedule['id']}"),
        await outsider.post(f"recurring-schedules/{schedule['id']}/pause"),
        await outsider.delete(f"recurring-schedules/{schedule['id']}"),
        await outsider.get(f"organizations/{api.organization}/recurring-schedules"),
    ):
        assert answer.status_code == 403


async def test_a_refusal_names_nothing_that_the_caller_may_not_read(api: Api) -> None:
    instance = await api.running(APP)
    schedule = (await made(api, instanceId=instance, workflow="manage.rest"))["id"]
    member = await api.member("Read: [/environments/*]")
    for answer in (
        await member.get(f"recurring-schedules/{schedule}"),
        await member.post(f"recurring-schedules/{schedule}/pause", {}),
        await member.delete(f"recurring-schedules/{schedule}"),
    ):
        assert "what the schedule runs" in refused(answer, 403, "NotAllowed")
        assert instance not in answer.text


async def test_a_schedule_without_an_argument_that_its_command_needs_is_refused(api: Api) -> None:
    instance = await api.running(APP)
    path, body = f"organizations/{api.organization}/recurring-schedules", {"name": "Grow", "cron": EVERY_10_S}
    body |= {"instanceId": instance, "workflow": "manage.grow"}
    for preview in (True, False):
        answer = await api.post(path, {**body, "preview": preview})
        assert "requires the parameter 'size' (int)" in refused(answer, 400, "MissingParameter")
    accepted(await api.post(path, {**body, "parameters": {"size": "3"}, "preview": True}))


HOUR_MS = 3_600_000
EARLIER = "Set a later end, or none, and take back a destroy that comes before."


async def test_no_time_after_the_end_of_its_instance_is_promised(api: Api) -> None:
    instance = await api.running(APP)  # for an hour
    end = (await api.document(instance))["destroyAt"]
    said = iso_time(from_ms(end))
    late = {"instanceId": instance, "workflow": "manage.grow", "parameters": {"size": "3"}, "cron": "0 0 1 1 *"}
    never = f"The instance is destroyed at {said}, before this runs. {EARLIER}"
    preview = await made(api, **late, preview=True)
    assert (preview["nextAt"], preview["warnings"], preview["instanceEndsAt"]) == ([], [never], end)
    schedule = await made(api, **late)
    assert (schedule["nextAt"], schedule["warnings"], schedule["instanceEndsAt"]) == ([], [never], end)
    [listed] = accepted(await api.get(f"organizations/{api.organization}/recurring-schedules", instance=instance))
    assert (listed["nextAt"], listed["instanceEndsAt"]) == ([], end)
    often = await made(api, **late | {"cron": "*/17 * * * *"})
    assert 0 < len(often["nextAt"]) < 5
    assert all(each < end for each in often["nextAt"])
    assert often["warnings"] == [f"The instance is destroyed at {said}: this doesn't run from then on."]
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": -1}))
    found = accepted(await api.get(f"recurring-schedules/{schedule['id']}"))
    assert (len(found["nextAt"]), found["warnings"], found["instanceEndsAt"]) == (5, [], None)
    # A destroy that somebody has scheduled is an end too.
    accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": HOUR_MS}))
    found = accepted(await api.get(f"recurring-schedules/{schedule['id']}"))
    assert found["nextAt"] == []
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.until(instance, "Destroyed")
    accepted(await api.post(f"recurring-schedules/{schedule['id']}/pause"))
    for each in (often, schedule):
        found = accepted(await api.get(f"recurring-schedules/{each['id']}"))
        assert (found["nextAt"], found["status"]) == ([], "Ended")
    found = accepted(await api.get(f"recurring-schedules/{often['id']}"))
    assert found["warnings"][0].startswith("The instance was destroyed at ")


async def test_a_schedule_after_the_end_of_its_instance_is_warned_of_and_says_so_in_lists(api: Api) -> None:
    instance = await api.running(APP)
    end = (await api.document(instance))["destroyAt"]
    path = f"instances/{instance}/manage.grow"
    late = await api.post(f"{path}/schedule", {"interval": 2 * HOUR_MS, "parameters": {"size": "3"}})
    warning = f"The instance is destroyed at {iso_time(from_ms(end))}, before this runs. {EARLIER}"
    assert json.loads(late.headers["launchbay-warnings"]) == [warning]
    number = accepted(late)["id"]

    async def end_in_list() -> Any:
        rows = accepted(await api.get(f"organizations/{api.organization}/schedules"))
        [row] = [each for each in rows if each["id"] == number]
        return row["instanceEndsAt"]

    assert await end_in_list() == end
    moved = await api.post(f"instances/{instance}/{number}/reschedule", {"interval": HOUR_MS // 2})
    assert "launchbay-warnings" not in moved.headers
    assert await end_in_list() == end
    moved = await api.post(f"instances/{instance}/{number}/reschedule", {"interval": 3 * HOUR_MS})
    assert json.loads(moved.headers["launchbay-warnings"]) == [warning]


async def test_a_schedule_that_a_policy_would_refuse_warns_when_it_is_made(api: Api) -> None:
    environment = await api.offer()
    application = await api.application(APP)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    path = f"organizations/{api.organization}/recurring-schedules"
    launch = {"applicationId": application, "launch": {"environmentId": environment}}
    destroy = {"instanceId": instance, "workflow": "destroy"}
    command = {"instanceId": instance, "workflow": "manage.grow", "parameters": {"size": 1}}

    async def warned(doing: dict[str, Any], **more: Any) -> str:
        answer = await api.post(path, {"name": "Yearly", "cron": "0 0 1 1 *", **doing, **more})
        accepted(answer)
        return str(answer.headers.get("launchbay-warnings", ""))

    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Incident"}))
    for doing in (launch, destroy, command):
        assert await warned(doing) == ""
    accepted(await api.delete(f"environments/{environment}/freeze"))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    for doing in (launch, destroy):
        for preview in (True, False):
            said = await warned(doing, preview=preview)
            assert "Firings would be refused as of now. The policy of the environment" in said
    assert await warned(command) == ""
