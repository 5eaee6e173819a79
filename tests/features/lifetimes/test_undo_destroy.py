"""A destroy within its grace time stops the instance, waits, and can be taken back."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from launchbay.clock import from_ms, iso_time
from tests.support.eventually import eventually
from tests.support.pages import browser, get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, fresh_name, own_service, refused

api = own_service  # whose administrator administers the server

HOUR_MS = 3_600_000
STOPPABLE = """
launch: {steps: []}
stop: {steps: [{halt: {action: wait, parameters: {delay: 0}}}]}
start: {steps: [{begin: {action: wait, parameters: {delay: 0}}}]}
"""
COMPONENTS = """
application:
  interfaces:
    actions: { stop: bind(web#actions.stop), start: bind(web#actions.start) }
  components:
    web:
      type: workflow.Instance
      interfaces: { actions: { stop: receive-command(), start: receive-command() } }
      configuration:
        configuration.workflows:
          actions.stop: { steps: [{ halt: { action: wait, parameters: { delay: 0 } } }] }
          actions.start: { steps: [{ begin: { action: wait, parameters: { delay: 0 } } }] }
"""
PLAIN = "launch: {steps: []}"
PARENT = """
application:
  components:
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
launch: {steps: []}
"""


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console."""
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        yield client


async def instance_with_grace(api: Api, manifest: str, grace_ms: int = HOUR_MS, **body: Any) -> str:
    """Return a running instance whose destroys wait that long. It has no end by itself unless the body gives one."""
    application = await api.application(manifest)
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": grace_ms}))
    instance = await api.launch(application, **{"destroyInterval": -1, **body})
    await api.until(instance, "Running")
    return instance


async def lifetime(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/lifetime"))


async def names_of_jobs(api: Api, instance: str) -> list[str]:
    """Return the names of the instance's jobs, the oldest first."""
    return [job["name"] for job in reversed((await api.settled(instance))["workflowHistory"])]


async def until_jobs(api: Api, instance: str, names: list[str]) -> None:
    """Wait until the instance has had these jobs, and no others."""
    found = await eventually(lambda: names_of_jobs(api, instance), lambda found: len(found) >= len(names))
    assert found == names


@pytest.mark.parametrize(("manifest", "prefix"), [(STOPPABLE, ""), (COMPONENTS, "actions.")])
async def test_a_destroy_stops_the_instance_and_is_taken_back(api: Api, manifest: str, prefix: str) -> None:
    instance = await instance_with_grace(api, manifest)
    answer = await api.post(f"instances/{instance}/destroy?include=destroyAt")
    body = accepted(answer)
    assert answer.headers["launchbay-job"], "the job that stops it"
    waiting = (await lifetime(api, instance))["waitingDestroy"]
    assert (waiting["at"], waiting["isStopped"]) == (body["destroyAt"], True)
    assert waiting["at"] - waiting["requestedAt"] == HOUR_MS
    undone = accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    assert undone["scheduleId"]
    await until_jobs(api, instance, ["launch", f"{prefix}stop", f"{prefix}start"])
    assert (await api.settled(instance))["status"] == "Running"
    assert (await lifetime(api, instance))["waitingDestroy"] is None
    refused(await api.post(f"instances/{instance}/lifetime/undo-destroy"), 409, "NoDestroyWaits")


async def test_it_is_destroyed_once_when_the_grace_time_is_over(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE, grace_ms=300)
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.until(instance, "Destroyed")
    assert await names_of_jobs(api, instance) == ["launch", "stop", "destroy"]
    found = await lifetime(api, instance)
    assert (found["waitingDestroy"], found["coming"]) == (None, [])


async def test_the_grace_time_ends_with_the_life_of_the_instance(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=2 * HOUR_MS, destroyInterval=HOUR_MS)
    end = (await lifetime(api, instance))["destroyAt"]
    promised = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    found = await lifetime(api, instance)
    assert promised == found["waitingDestroy"]["at"] == found["coming"][-1]["at"] == end


async def test_without_stop_and_start_it_waits_as_it_is(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=HOUR_MS // 2)
    answer = await api.post(f"instances/{instance}/destroy?include=destroyAt")
    at = accepted(answer)["destroyAt"]
    assert "launchbay-job" not in answer.headers
    found = await lifetime(api, instance)
    assert [(each["kind"], each["at"]) for each in found["coming"]] == [("destroy", at)]
    assert "waits for its destruction" in refused(await api.post(f"instances/{instance}/destroy"), 409, "DestroyWaits")
    assert accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy")) == {"scheduleId": None}
    assert await names_of_jobs(api, instance) == ["launch"]


async def test_a_forced_destroy_and_one_without_rules_do_not_wait(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE)
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.settled(instance)
    assert "destroyAt" not in accepted(await api.post(f"instances/{instance}/destroy?force=1&include=destroyAt"))
    await api.until(instance, "Destroyed")
    assert (await lifetime(api, instance))["waitingDestroy"] is None
    plain = await api.running(PLAIN)
    assert accepted(await api.post(f"instances/{plain}/destroy")) == {"id": plain}
    await api.until(plain, "Destroyed")


async def test_taking_it_back_needs_the_permission_to_destroy(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN)
    accepted(await api.post(f"instances/{instance}/destroy"))
    reader = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]")
    refused(await reader.post(f"instances/{instance}/lifetime/undo-destroy"), 403)
    assert (await lifetime(api, instance))["waitingDestroy"]


async def listed(api: Api, instance: str) -> Any:
    """Return the instance as the organization's list has it."""
    [row] = accepted(await api.get(f"organizations/{api.organization}/instances", q=instance))
    return row


async def test_every_list_says_that_a_destroy_waits_when_and_how_it_is_taken_back(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE)
    assert (await listed(api, instance))["waitingDestroy"] is None
    at = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    document = await api.settled(instance)
    text = f"The instance is destroyed at {iso_time(from_ms(at))}. Until then, undo-destroy takes this back."
    assert document["waitingFor"] == text
    assert (await lifetime(api, instance))["waitingDestroy"]["text"] == text
    row = await listed(api, instance)
    assert (row["status"], row["destroyAt"]) == ("Running", at)
    assert row["waitingDestroy"] == {"at": at, "text": text}
    soon = accepted(await api.get(f"organizations/{api.organization}/instances", q=instance, expiresBefore=at + 1))
    assert [each["id"] for each in soon] == [instance], "what is destroyed before then, whatever ends it"
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    row = await listed(api, instance)
    assert (row["waitingDestroy"], row["destroyAt"]) == (None, None)
    await until_jobs(api, instance, ["launch", "stop", "start"])
    assert "waitingFor" not in await api.settled(instance)


async def test_an_end_that_is_changed_meanwhile_leaves_the_time_of_the_destroy(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, destroyInterval=3 * HOUR_MS)
    at = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    end = at + 10 * HOUR_MS
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": end}))
    assert (await listed(api, instance))["destroyAt"] == at
    said = (await api.document(instance))["waitingFor"]
    assert said.endswith(f"undo-destroy takes this back; its lifetime still ends at {iso_time(from_ms(end))}.")
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    assert (await listed(api, instance))["destroyAt"] == end


async def test_a_destroy_at_the_end_of_the_life_says_that_an_undo_leaves_that_end(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=2 * HOUR_MS, destroyInterval=HOUR_MS)
    end = (await lifetime(api, instance))["destroyAt"]
    accepted(await api.post(f"instances/{instance}/destroy"))
    terms = "Its lifetime ends then too: to keep it, run undo-destroy and set a later end."
    found = await lifetime(api, instance)
    assert found["coming"][-1] == {"kind": "destroy", "at": end, "text": f"Launchbay destroys the instance. {terms}"}
    assert (await api.document(instance))["waitingFor"].endswith(terms)
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    found = await lifetime(api, instance)
    assert found["coming"][-1] == {"kind": "destroy", "at": end, "text": "Launchbay destroys the instance."}


async def test_lists_follow_a_destroy_that_is_moved_or_cancelled_as_a_schedule(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=2 * HOUR_MS, destroyInterval=6 * HOUR_MS)
    end = (await lifetime(api, instance))["destroyAt"]
    accepted(await api.post(f"instances/{instance}/destroy"))
    accepted(await api.post(f"instances/{instance}/destroy/reschedule", {"interval": HOUR_MS}))
    row = await listed(api, instance)
    at = (await lifetime(api, instance))["waitingDestroy"]["at"]
    assert (row["destroyAt"], row["waitingDestroy"]["at"]) == (at, at)
    accepted(await api.post(f"instances/{instance}/destroy/reschedule", {"interval": 8 * HOUR_MS}))
    assert (await listed(api, instance))["destroyAt"] == end
    accepted(await api.post(f"instances/{instance}/destroy/reschedule", {"interval": HOUR_MS}))
    accepted(await api.post(f"instances/{instance}/destroy/reschedule", {"interval": 0}))
    row = await listed(api, instance)
    assert (row["destroyAt"], row["waitingDestroy"]) == (end, None)


async def test_a_destroy_that_is_cancelled_as_a_schedule_starts_the_instance_again(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE)
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.settled(instance)
    [waiting] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    accepted(await api.post(f"instances/{instance}/{waiting['id']}/reschedule", {"interval": 0}))
    await until_jobs(api, instance, ["launch", "stop", "start"])
    entries = accepted(await api.get(f"organizations/{api.organization}/audit", object=instance))
    assert "undo_destroy" in {each["operation"] for each in entries}, "as the other door names it"
    refused(await api.post(f"instances/{instance}/lifetime/undo-destroy"), 409, "NoDestroyWaits")


@pytest.mark.parametrize(
    ("manifest", "said"), [(STOPPABLE, "Destruction taken back. Starting."), (PLAIN, "Destruction taken back.")]
)
async def test_the_console_says_what_cancelling_the_schedule_of_a_destroy_did(
    api: Api, manifest: str, said: str
) -> None:
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        for place in ("reschedule", "schedules/{schedule}"):
            instance = await instance_with_grace(api, manifest)
            accepted(await api.post(f"instances/{instance}/destroy"))
            await api.settled(instance)
            [waiting] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
            page = f"/console/instances/{instance}/schedules"
            token = (await get(visitor, page)).fields["formToken"]
            form = {"formToken": token, "do": "cancel", "schedule": waiting["id"], "back": page}
            address = f"/console/instances/{instance}/{place.format(schedule=waiting['id'])}"
            assert (await visitor.post(address, data=form)).status_code == 303
            shown = (await get(visitor, page)).text
            assert said in shown
            assert "Schedule cancelled." not in shown


async def test_a_scheduled_destroy_is_the_end_of_the_instance_everywhere(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, destroyInterval=30 * HOUR_MS)
    lasts = (await lifetime(api, instance))["destroyAt"]
    expiring = await count_expiring(api)
    later, sooner = [await scheduled(api, instance, hours) for hours in (3, 2)]
    at = (await due(api, instance))[sooner]
    row = await listed(api, instance)
    assert (row["destroyAt"], row["waitingDestroy"]) == (at, None), "the first one, which can't be taken back"
    assert await count_expiring(api) == expiring + 1
    text = (
        f"The instance is destroyed at {iso_time(from_ms(at))}. It is scheduled; to keep the instance, cancel that "
        f"schedule; its lifetime still ends at {iso_time(from_ms(lasts))}."
    )
    document = await api.document(instance)
    assert (document["waitingFor"], document["destroyAt"]) == (text, lasts)
    found = await lifetime(api, instance)
    assert [each["kind"] for each in found["coming"]].count("destroy") == 1
    assert found["coming"][-1] == {
        "kind": "destroy",
        "at": at,
        "text": text.replace(
            f"The instance is destroyed at {iso_time(from_ms(at))}", "Launchbay destroys the instance"
        ),
    }
    await move(api, instance, sooner, 4 * HOUR_MS)
    assert (await listed(api, instance))["destroyAt"] == (await due(api, instance))[later]
    await move(api, instance, later, 0)
    assert (await listed(api, instance))["destroyAt"] == (await due(api, instance))[sooner]
    await move(api, instance, sooner, 0)
    assert (await listed(api, instance))["destroyAt"] == lasts
    assert await count_expiring(api) == expiring
    assert "waitingFor" not in await api.document(instance)


async def test_a_destroy_that_is_moved_is_not_called_too_late_for_itself(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, destroyInterval=30 * HOUR_MS)
    number = await scheduled(api, instance, 2)
    path = f"instances/{instance}/{number}/reschedule"
    for hours in (4, 1, 3):
        moved = await api.post(path, {"interval": hours * HOUR_MS})
        assert "launchbay-warnings" not in moved.headers, "it is the end, wherever it goes"
    entries = accepted(await api.get(f"organizations/{api.organization}/audit", object=instance))
    last = max((each for each in entries if each["operation"] == "reschedule_workflow"), key=lambda each: each["id"])
    assert last["after"]["dueAt"] == (await due(api, instance))[number], "the new time, in the audit log too"
    lasts = (await lifetime(api, instance))["destroyAt"]
    moved = await api.post(path, {"interval": 40 * HOUR_MS})
    assert f"is destroyed at {iso_time(from_ms(lasts))}, before this runs" in moved.headers["launchbay-warnings"]
    later = await scheduled(api, instance, 2)
    moved = await api.post(f"instances/{instance}/{later}/reschedule", {"interval": 41 * HOUR_MS})
    assert f"is destroyed at {iso_time(from_ms(lasts))}, before this runs" in moved.headers["launchbay-warnings"]


async def test_lists_of_pages_say_what_ends_an_instance_and_offer_what_moves_that(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = str(
        accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("pier")}))["id"]
    )
    instance = await instance_with_grace(api, PLAIN, destroyInterval=3 * HOUR_MS, environmentId=environment)
    home = f"/console/organizations/{api.organization}"
    overview, instances = f"{home}?environment={environment}", f"{home}/instances?q={instance}"
    more = 'name="lifetime" value="+1d"'

    async def page(path: str) -> str:
        return " ".join((await get(visitor, path)).answer.text.split())

    assert more in await page(overview)
    number = await scheduled(api, instance, 2)
    for path in (overview, instances):
        [said] = re.findall(r'title="The instance is destroyed at ([^"]*)"', await page(path))
        assert re.fullmatch(r"[\w: ]+\. It is scheduled; to keep .* its lifetime still ends at [\w: ]+\.", said)
    assert more not in await page(overview), "a longer life leaves the destroy where it is"
    await move(api, instance, number, 0)
    assert more in await page(overview)


async def test_a_destroy_that_is_due_is_said_to_wait_for_the_job_before_it(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await instance_with_grace(
        api, f"{PLAIN}\nhold: {{steps: [{{gate: {{action: approval, parameters: {{text: Go?}}}}}}]}}"
    )
    job = (await api.post(f"instances/{instance}/hold")).headers["launchbay-job"]
    number = await scheduled(api, instance, 1)
    await move(api, instance, number, 1)
    await eventually(
        lambda: api.document(instance), lambda found: "is waiting for the end of 'hold'" in (found["waitingFor"] or "")
    )
    [event] = (await lifetime(api, instance))["coming"]
    assert event["text"].startswith("The destruction is due, and waits for the job before it. It is scheduled; ")
    page = " ".join((await get(visitor, f"/console/instances/{instance}")).text.split())
    assert re.search(r"The destruction is due since [^.]+, and waits for the job before it\.", page)
    assert "Destroyed" not in page
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.until(instance, "Destroyed")


async def test_an_idle_end_is_not_hidden_by_a_destroy_that_comes_later(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(PLAIN)
    accepted(await api.put(f"applications/{application}/lifetime", {"idleMs": 24 * HOUR_MS}))
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    await scheduled(api, instance, 48)
    async with api.database.transaction() as connection:
        # Nothing has run for so long. The next run finds the times as they would be then.
        await connection.execute(
            "UPDATE instances SET created_at = created_at - interval '24 hours' WHERE id = %s", [instance]
        )
        await connection.execute(
            "WITH moved AS (UPDATE fleet SET job_ended_at = job_ended_at - interval '23.5 hours'"
            " WHERE instance_id = %(id)s)"
            " UPDATE idle_ends SET since = since - interval '23.5 hours', due_at = due_at - interval '23.5 hours'"
            " WHERE instance_id = %(id)s",
            {"id": instance},
        )
    page = " ".join((await get(visitor, f"/console/instances/{instance}")).text.split())
    assert "Nothing has run on it for long. Run a workflow if you still need it." in page
    assert "It is scheduled" not in page


async def test_a_submodule_that_is_gone_does_not_wait_for_the_end_of_its_parent(api: Api) -> None:
    database = await api.application(PLAIN)
    application = await api.application(PARENT % database)
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": HOUR_MS}))
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    inner = (await api.document(instance))["components"][0]["instanceId"]
    version = accepted(await api.put_yaml(f"applications/{application}/manifest", PLAIN))["version"]
    accepted(await api.put(f"instances/{instance}/configuration", {"manifestVersion": version}))
    await api.until(inner, "Destroyed")
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/destroy"))
    assert (await listed(api, instance))["waitingDestroy"] is not None
    assert (await listed(api, inner))["waitingDestroy"] is None


async def test_an_undo_says_that_a_scheduled_destroy_stays(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN)
    number = await scheduled(api, instance, 2)
    accepted(await api.post(f"instances/{instance}/destroy"))
    at = iso_time(from_ms((await due(api, instance))[number]))
    kept = f"Until then, undo-destroy takes this back; a destroy is still scheduled for {at}."
    assert (await api.settled(instance))["waitingFor"].endswith(kept)
    await move(api, instance, number, HOUR_MS // 2)
    at = iso_time(from_ms((await due(api, instance))[number]))
    assert (await api.document(instance))["waitingFor"].startswith(
        f"The instance is destroyed at {at}. A destroy is scheduled for then, before the destroy that waits until"
    )
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    assert (await listed(api, instance))["destroyAt"] == (await due(api, instance))[number]


async def test_ends_of_one_moment_leave_the_nearest_in_lists(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE, destroyInterval=30 * HOUR_MS)
    for _ in range(5):
        numbers = await asyncio.gather(*(scheduled(api, instance, hours) for hours in (5, 2, 7, 3)))
        await asyncio.gather(
            *(
                move(api, instance, number, hours * HOUR_MS)
                for number, hours in zip(numbers, (0, 9, 4, 0), strict=True)
            ),
            api.put(
                f"instances/{instance}/destroyAt",
                {"destroyAt": (await listed(api, instance))["createdAt"] + 40 * HOUR_MS},
            ),
            api.post(f"instances/{instance}/destroy"),
        )
        await api.settled(instance)
        ends = [*(await due(api, instance)).values(), (await lifetime(api, instance))["destroyAt"]]
        assert (await listed(api, instance))["destroyAt"] == min(ends)
        left = await due(api, instance)
        await asyncio.gather(*(move(api, instance, number, 0) for number in left))
        assert (await listed(api, instance))["destroyAt"] == (await lifetime(api, instance))["destroyAt"]
        await api.settled(instance)


async def test_lists_follow_what_a_server_of_the_former_version_does_to_a_destroy(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, destroyInterval=30 * HOUR_MS)
    lasts = (await lifetime(api, instance))["destroyAt"]
    async with api.database.transaction() as connection:
        # As it schedules one.
        await connection.execute(
            "INSERT INTO schedules (id, instance_id, organization_id, kind, workflow, parameters, owner_id, due_at)"
            " SELECT 'f' || substr(id, 2), id, organization_id, 'workflow', 'destroy', '{}', owner_id,"
            " now() + interval '2 hours' FROM instances WHERE id = %s",
            [instance],
        )
    [number] = await due(api, instance)
    assert (await listed(api, instance))["destroyAt"] == (await due(api, instance))[number] < lasts
    accepted(await api.post(f"instances/{instance}/destroy"))
    async with api.database.transaction() as connection:
        # As it takes one back: by the end of the lifetime alone.
        await connection.execute(
            "WITH gone AS ("
            "DELETE FROM schedules WHERE instance_id = %s AND undo_workflow IS NOT NULL RETURNING instance_id)"
            " UPDATE fleet SET destroy_at = coalesce(instances.destroy_at, 'infinity')"
            " FROM gone JOIN instances ON instances.id = gone.instance_id WHERE fleet.instance_id = instances.id",
            [instance],
        )
    assert (await listed(api, instance))["destroyAt"] == (await due(api, instance))[number]
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def test_a_submodule_says_that_it_ends_with_the_instance_that_it_belongs_to(api: Api) -> None:
    database = await api.application(PLAIN)
    inner = await api.application(PARENT % database)
    instance = await instance_with_grace(api, PARENT % inner)
    middle = (await api.document(instance))["components"][0]["instanceId"]
    innermost = (await api.document(middle))["components"][0]["instanceId"]
    at = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    text = (
        f"The instance that this one belongs to is destroyed at {iso_time(from_ms(at))}, and this one with it. "
        "Until then, undo-destroy takes this back."
    )
    reader = await api.member(f"Read: [/applications/{database}/instances/*, /environments/*]")
    for each in (middle, innermost):
        assert (await api.document(each))["waitingFor"] == text
        found = await lifetime(api, each)
        assert (found["waitingDestroy"]["at"], found["waitingDestroy"]["text"]) == (at, text)
        assert [(event["kind"], event["at"]) for event in found["coming"]] == [("destroy", at)]
        row = await listed(api, each)
        assert (row["waitingDestroy"], row["destroyAt"]) == ({"at": at, "text": text}, None)
        refused(await api.post(f"instances/{each}/lifetime/undo-destroy"), 403, "SubmoduleInstance")
    assert accepted(await reader.get(f"instances/{innermost}"))["waitingFor"] == text, "whoever may read no more"
    accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    for each in (middle, innermost):
        assert "waitingFor" not in await api.document(each)
        assert (await listed(api, each))["waitingDestroy"] is None
        assert (await lifetime(api, each))["coming"] == []


async def test_a_submodule_says_that_it_ends_with_an_idle_parent(api: Api, visitor: httpx.AsyncClient) -> None:
    database = await api.application(PLAIN)
    inner = await api.application(PARENT % database)
    outer = await api.application(PARENT % inner)
    instance = await api.launch(outer, destroyInterval=-1)
    await api.until(instance, "Running")
    middle = (await api.document(instance))["components"][0]["instanceId"]
    innermost = (await api.document(middle))["components"][0]["instanceId"]
    accepted(await api.put(f"applications/{database}/lifetime", {"idleMs": 2 * HOUR_MS}))
    assert (await lifetime(api, innermost))["idleEndsAt"] is None, "the rule of its own application doesn't count"
    accepted(await api.put(f"applications/{outer}/lifetime", {"idleMs": 12 * HOUR_MS}))
    at = (await lifetime(api, instance))["idleEndsAt"]
    for each in (middle, innermost):
        found = await lifetime(api, each)
        assert (found["idleEndsAt"], [(event["kind"], event["at"]) for event in found["coming"]]) == (
            at,
            [("destroy", at)],
        )
        assert found["coming"][0]["text"] == (
            "Launchbay destroys the instance that this one belongs to if nothing runs on that one until then, "
            "and this one with it."
        )
        page = (await visitor.get(f"/console/instances/{each}")).text
        assert "with its parent if nothing runs" in page
    accepted(await api.put(f"applications/{outer}/lifetime", {}))
    assert (await lifetime(api, innermost))["idleEndsAt"] is None


async def scheduled(api: Api, instance: str, hours: int) -> str:
    """Schedule a destroy in so many hours and return its ID."""
    return str(accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": hours * HOUR_MS}))["id"])


async def move(api: Api, instance: str, schedule: str, in_ms: int) -> None:
    accepted(await api.post(f"instances/{instance}/{schedule}/reschedule", {"interval": in_ms}))


async def due(api: Api, instance: str) -> dict[str, int]:
    """Return when the schedules of an instance are due, by their IDs."""
    rows = accepted(await api.get(f"organizations/{api.organization}/schedules"))
    return {row["id"]: row["dueAt"] for row in rows if row["instanceId"] == instance}


async def count_expiring(api: Api) -> int:
    return int(accepted(await api.get(f"organizations/{api.organization}/summary"))["expiring"])


async def test_a_lifetime_that_ends_before_a_destroy_that_waits_is_said_with_its_own_time(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=2 * HOUR_MS, destroyInterval=3 * HOUR_MS)
    at = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    end = at - HOUR_MS
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": end}))
    text = (
        f"The instance is destroyed at {iso_time(from_ms(end))}. Its lifetime ends then, before the destroy that waits "
        f"until {iso_time(from_ms(at))}: to keep it, set a later end and run undo-destroy."
    )
    assert (await api.document(instance))["waitingFor"] == text
    assert (await lifetime(api, instance))["waitingDestroy"]["text"] == text
    row = await listed(api, instance)
    assert (row["destroyAt"], row["waitingDestroy"]) == (end, {"at": at, "text": text})


async def test_an_approval_that_outlives_the_instance_names_its_end(api: Api, visitor: httpx.AsyncClient) -> None:
    gate = "launch: {steps: []}\nask: {steps: [{gate: {action: approval, parameters: {text: Go?}}}]}"
    instance = await api.running(gate, destroyInterval=HOUR_MS)
    job = (await api.post(f"instances/{instance}/ask")).headers["launchbay-job"]
    waits = (await eventually(lambda: api.read(f"jobs/{job}"), lambda found: found["waitingFor"]))["waitingFor"]
    end = (await lifetime(api, instance))["destroyAt"]
    assert waits[0]["until"] > end
    assert f"The instance expires before that, at {iso_time(from_ms(end))}" in waits[0]["endsWhen"]
    [asked] = accepted(await api.get(f"instances/{instance}/approvals"))
    assert (asked["instanceEndsAt"], asked["expiresAt"]) == (end, waits[0]["until"])
    number = await scheduled(api, instance, 1)
    await move(api, instance, number, HOUR_MS // 2)
    sooner = (await due(api, instance))[number]
    assert accepted(await api.get(f"approvals/{asked['id']}"))["instanceEndsAt"] == sooner
    assert iso_time(from_ms(sooner)) in accepted(await api.get(f"jobs/{job}"))["waitingFor"][0]["endsWhen"]
    page = (await get(visitor, f"/console/instances/{instance}")).text
    assert re.search(r"then the step fails; the instance is to be destroyed before, at \d{4}-", page)
    await move(api, instance, number, 0)
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": -1}))
    [wait] = accepted(await api.get(f"jobs/{job}"))["waitingFor"]
    assert wait["endsWhen"] == "The approval of any user who may approve, or its expiry."


async def test_a_preview_says_that_a_destroy_would_wait_and_refuses_a_second_one(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE)
    preview = f"instances/{instance}/destroy/preview"
    found = accepted(await api.post(preview))
    wait = (
        "The destroy first waits 1 hour, with the instance stopped by 'stop'. Until then, undo-destroy takes it back."
    )
    assert (found["errors"], found["warnings"]) == ([], [wait])
    assert accepted(await api.post(f"{preview}?force=1"))["warnings"] == []
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.settled(instance)
    [refusal] = accepted(await api.post(preview))["errors"]
    assert refusal == refused(await api.post(f"instances/{instance}/destroy"), 409, "DestroyWaits")
    assert accepted(await api.post(f"{preview}?force=1"))["errors"] == []


async def test_an_extension_says_what_ends_the_instance_all_the_same(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, destroyInterval=10 * HOUR_MS)
    extend = f"instances/{instance}/lifetime/extend"
    assert accepted(await api.post(extend, {"byMs": HOUR_MS}))["endsFirst"] is None
    accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": 2 * HOUR_MS}))
    said = accepted(await api.post(extend, {"byMs": HOUR_MS}))
    [destroy] = [each for each in (await lifetime(api, instance))["coming"] if each["kind"] == "destroy"]
    assert said["destroyAt"] > destroy["at"]
    assert said["endsFirst"].startswith(
        f"The instance is destroyed at {iso_time(from_ms(destroy['at']))}. It is scheduled"
    )
