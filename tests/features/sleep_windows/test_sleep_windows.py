"""Instances sleep in the windows that the rules of their application or environment name."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from launchbay.clock import iso_time
from launchbay.features.sleep_windows import rows as store
from launchbay.features.sleep_windows.rules import SleepRules, SleepWindow
from tests.support.databases import Databases
from tests.support.pages import browser, get, words_of
from tests.support.service import EMAIL, PASSWORD, Api, accepted, refused, running_api
from tests.support.worlds import MovableClock

STOPPABLE = """
launch: {steps: []}
greet: {steps: []}
stop: {steps: []}
start: {steps: []}
park: {steps: []}
unpark: {steps: []}
long: {steps: [{rest: {action: wait, parameters: {delay: 3600}}}]}
"""
NIGHTS = {
    "sleepAt": "20:00",
    "wakeAt": "07:00",
    "days": ["MON", "TUE", "WED", "THU", "FRI"],
    "zone": "Europe/Berlin",
}
NOON = datetime(2031, 6, 4, 10, 0, tzinfo=UTC)  # a Wednesday, 12:00 in Berlin
EVENING = datetime(2031, 6, 4, 18, 0, tzinfo=UTC)
MORNING = datetime(2031, 6, 5, 5, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_FLEET = "organizations/{}/instances"


class Bay:
    """A service whose time of day is set by the test; rounds are run by it, too."""

    def __init__(self, api: Api, clock: MovableClock) -> None:
        self.api = api
        self.clock = clock

    def set(self, at: datetime) -> None:
        self.clock.ahead = at - datetime.now(UTC)

    async def instance(self, manifest: str = STOPPABLE, **rule: Any) -> str:
        """Return a running instance whose application has this rule."""
        application = await self.api.application(manifest)
        instance = await self.api.launch(application, destroyInterval=-1)
        await self.api.until(instance, "Running")
        accepted(await self.api.put(f"applications/{application}/sleep", {"windows": [NIGHTS], **rule}))
        await self.round()
        return instance

    async def round(self) -> None:
        await self.api.round_of("sleep windows")

    async def at(self, at: datetime) -> None:
        """Give the turns that are due then, and wait for the end of their jobs."""
        self.set(at)
        await self.round()

    async def sleep(self, instance: str) -> Any:
        return accepted(await self.api.get(f"instances/{instance}/sleep"))

    async def jobs(self, instance: str) -> list[str]:
        """Return the names of the instance's jobs after its launch, the oldest first."""
        document = await self.api.settled(instance)
        return [job["name"] for job in reversed(document["workflowHistory"])][1:]


@pytest.fixture
async def bay(databases: Databases) -> AsyncIterator[Bay]:
    clock = MovableClock()
    async with running_api(databases.create(), clock=clock) as api:
        bay = Bay(api, clock)
        bay.set(NOON)
        yield bay


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


async def test_an_instance_is_stopped_at_the_begin_and_started_at_the_end_of_a_window(bay: Bay) -> None:
    instance = await bay.instance()
    found = await bay.sleep(instance)
    assert (found["isAsleep"], found["sleepsAt"], found["wakesAt"]) == (False, ms(EVENING), ms(MORNING))
    assert (found["ruleOf"], found["rules"]["windows"]) == ("application", [NIGHTS])
    await bay.at(EVENING - MINUTE)
    assert await bay.jobs(instance) == []
    await bay.at(EVENING)
    await bay.round()
    assert await bay.jobs(instance) == ["stop"]
    found = await bay.sleep(instance)
    assert (found["isAsleep"], found["wakesAt"]) == (True, ms(MORNING))
    assert found["waitingFor"].startswith("Sleeping since 2031-06-04T18:00:")
    assert found["waitingFor"].endswith(", until 2031-06-05T05:00:00Z.")
    [listed] = accepted(await bay.api.get(_FLEET.format(bay.api.organization)))
    assert (listed["status"], listed["isAsleep"], listed["components"]["sleeping"]) == ("Running", True, 1)
    assert (await bay.api.document(instance))["waitingFor"] == found["waitingFor"]
    await bay.at(MORNING)
    await bay.round()
    assert await bay.jobs(instance) == ["stop", "start"]
    awake = await bay.sleep(instance)
    assert (awake["sleepsAt"], awake["waitingFor"]) == (ms(EVENING + timedelta(days=1)), None)


async def test_a_rule_that_cannot_be_read_holds_up_no_other_instance(bay: Bay) -> None:
    damaged, other = await bay.instance(), await bay.instance()
    async with bay.api.database.connection() as connection:
        await connection.execute(
            "UPDATE instance_sleeps SET fires_at = fires_at - interval '1 minute' WHERE instance_id = %s", [damaged]
        )
        await connection.execute(
            "UPDATE sleep_rules SET rules = '{\"windows\": 1}'"
            " WHERE application_id = (SELECT application_id FROM instances WHERE id = %s)",
            [damaged],
        )
    await bay.at(EVENING)
    assert (await bay.jobs(damaged), await bay.jobs(other)) == ([], ["stop"])


async def test_turns_that_were_missed_are_made_up_for_once(bay: Bay) -> None:
    late, early = await bay.instance(), await bay.instance()
    await bay.at(EVENING + timedelta(hours=3))  # in the window, long after its begin
    assert await bay.jobs(late) == ["stop"]
    await bay.at(EVENING + timedelta(days=1, hours=1))  # it slept through a whole day: the next night has begun
    assert await bay.jobs(late) == ["stop"]
    await bay.at(MORNING + timedelta(days=9, hours=3))
    assert await bay.jobs(late) == ["stop", "start"] == await bay.jobs(early)


async def test_an_instance_that_is_launched_in_a_window_stays_awake_until_the_next_one(bay: Bay) -> None:
    bay.set(EVENING + timedelta(hours=2))
    instance = await bay.instance()
    await bay.round()
    assert await bay.jobs(instance) == []
    assert (await bay.sleep(instance))["sleepsAt"] == ms(EVENING + timedelta(days=1))
    await bay.at(EVENING + timedelta(days=1))
    assert await bay.jobs(instance) == ["stop"]


async def test_somebody_keeps_an_instance_awake_until_a_time(bay: Bay) -> None:
    instance = await bay.instance()
    await bay.at(EVENING)
    await bay.api.settled(instance)
    until = EVENING + timedelta(hours=4)
    path = f"instances/{instance}/sleep/awake-until"
    reader = await bay.api.member("Read: [/*]")
    refused(await reader.put(path, {"awakeUntil": ms(until)}), 403)
    person = await bay.api.member(
        "Read: [/*]", "RunInstanceWorkflow: [/applications/*/instances/*/workflows/keep-awake]"
    )
    accepted(await person.put(path, {"awakeUntil": ms(until)}))
    await bay.round()
    assert await bay.jobs(instance) == ["stop", "start"]
    found = await bay.sleep(instance)
    assert (found["isAsleep"], found["keptAwakeUntil"], found["sleepsAt"]) == (False, ms(until), ms(until))
    await bay.at(until)
    assert await bay.jobs(instance) == ["stop", "start", "stop"]
    refused(await bay.api.put(path, {"awakeUntil": 1}), 400, "InvalidInterval")
    for far in (2**62, -(2**62)):
        refused(await bay.api.put(path, {"awakeUntil": far}), 400, "WrongField")


async def test_a_person_who_starts_it_by_hand_is_not_followed_by_a_second_start(bay: Bay) -> None:
    instance = await bay.instance()
    await bay.at(EVENING)
    await bay.api.settled(instance)
    await bay.api.run(instance, "start")
    await bay.at(MORNING)
    assert await bay.jobs(instance) == ["stop", "start"]


@pytest.mark.features("freezes")
async def test_an_instance_in_a_frozen_environment_goes_to_sleep_when_the_freeze_is_lifted(bay: Bay) -> None:
    instance = await bay.instance()
    freeze = f"environments/{(await bay.api.document(instance))['environmentId']}/freeze"
    accepted(await bay.api.put(freeze, {"reason": "Incident 4711"}))
    await bay.at(EVENING)
    assert await bay.jobs(instance) == []
    shown = await bay.sleep(instance)
    assert (shown["isAsleep"], "Incident 4711" in shown["message"]) == (False, True)
    assert shown["message"].startswith("It waits: ")
    accepted(await bay.api.delete(freeze))
    await bay.at(EVENING + 10 * MINUTE)
    await bay.round()
    assert await bay.jobs(instance) == ["stop"]
    assert (await bay.sleep(instance))["isAsleep"]


@pytest.mark.parametrize(("when_busy", "jobs"), [("queue", ["long", "stop"]), ("skip", ["long"])])
async def test_a_busy_instance_sleeps_later_or_not_in_this_window(bay: Bay, when_busy: str, jobs: list[str]) -> None:
    instance = await bay.instance(whenBusy=when_busy)
    job = accepted(await bay.api.post(f"instances/{instance}/long"))["id"]
    assert job
    await bay.at(EVENING)
    shown = await bay.sleep(instance)
    assert "already running" in shown["message"]
    if when_busy == "queue":
        assert shown["message"].startswith("It waits: ")
        assert "try again" not in shown["message"]
        assert shown["sleepsAt"] == ms(EVENING)
        assert shown["waitingFor"].startswith("Due to sleep since 2031-06-04T18:00:00Z.")
        assert shown["waitingFor"] in (await bay.api.document(instance))["waitingFor"]
        async with browser(bay.api) as visitor:
            await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
            page = (await get(visitor, f"/console/instances/{instance}")).answer.text
        card = words_of(page.partition('id="sleep"')[2].partition("</section>")[0])
        assert re.search(r"Launchbay stops the instance. due (just now|\d+ s ago)", card)
    else:
        assert (shown["sleepsAt"], shown["waitingFor"]) == (ms(EVENING + timedelta(days=1)), None)
    [running] = [
        each for each in (await bay.api.document(instance))["workflowHistory"] if each["status"] == "Executing"
    ]
    accepted(await bay.api.delete(f"instances/{instance}/jobs/{running['id']}"))
    await bay.api.settled(instance)
    await bay.at(EVENING + MINUTE)
    assert await bay.jobs(instance) == jobs


async def test_an_application_has_rules_of_its_own_instead_of_those_of_its_environment(bay: Bay) -> None:
    environment = await bay.api.offer()
    parked = await bay.api.application(STOPPABLE)
    exempt = await bay.api.application(STOPPABLE)
    accepted(await bay.api.put(f"applications/{exempt}/sleep", {"windows": []}))
    rule = {"windows": [NIGHTS], "stop": "park", "start": "unpark"}
    editor = await bay.api.member("Read: [/*]", "EditEnvironment: [/*]")
    refused(await editor.put(f"environments/{environment}/sleep", rule), 403)
    accepted(await bay.api.put(f"environments/{environment}/sleep", rule))
    instances = [await bay.api.launch(each, environmentId=environment, destroyInterval=-1) for each in (parked, exempt)]
    for each in instances:
        await bay.api.until(each, "Running")
    await bay.round()  # it finds the new instances
    await bay.at(EVENING)
    assert [await bay.jobs(each) for each in instances] == [["park"], []]
    accepted(await bay.api.put(f"environments/{environment}/sleep", {"windows": None}))
    await bay.round()
    assert await bay.jobs(instances[0]) == ["park", "unpark"]
    assert (await bay.sleep(instances[0]))["ruleOf"] is None


async def test_an_instance_without_the_workflows_stays_awake_and_says_why(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: []}")
    await bay.at(EVENING)
    found = await bay.sleep(instance)
    assert (found["isAsleep"], found["sleepsAt"]) == (False, None)
    assert "no commands stop and start" in found["message"]


async def test_no_sleep_is_promised_to_an_instance_that_cannot_sleep_or_ends_before(bay: Bay) -> None:
    bay.set(NOON)
    unable = await bay.instance("launch: {steps: []}")
    found = await bay.sleep(unable)
    assert (found["sleepsAt"], found["wakesAt"], found["message"]) == (
        None,
        None,
        "It can't sleep: its manifest has no commands stop and start without arguments.",
    )
    able = await bay.instance()
    assert (await bay.sleep(able))["sleepsAt"] == ms(EVENING)
    accepted(await bay.api.put(f"instances/{able}/destroyAt", {"destroyAt": ms(EVENING - MINUTE)}))
    found = await bay.sleep(able)
    assert (found["sleepsAt"], found["wakesAt"]) == (None, None)


async def test_no_waking_is_promised_to_an_instance_that_is_destroyed_in_its_sleep(bay: Bay) -> None:
    instance = await bay.instance()
    await bay.at(EVENING)
    await bay.round()
    assert "until " in (await bay.sleep(instance))["waitingFor"]
    end = ms(MORNING - MINUTE)
    accepted(await bay.api.put(f"instances/{instance}/destroyAt", {"destroyAt": end}))
    found = await bay.sleep(instance)
    assert (found["isAsleep"], found["sleepsAt"], found["wakesAt"]) == (True, None, None)
    said = f" The instance is destroyed at {iso_time(MORNING - MINUTE)}, before it wakes."
    assert found["waitingFor"].endswith(said)
    assert (await bay.api.document(instance))["waitingFor"].endswith(said)
    # A destroy that somebody has scheduled is an end too.
    accepted(await bay.api.put(f"instances/{instance}/destroyAt", {"destroyAt": -1}))
    number = accepted(await bay.api.post(f"instances/{instance}/destroy/schedule", {"interval": 86_400_000}))["id"]
    async with bay.api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET due_at = %s WHERE id = %s", [MORNING - MINUTE, number])
    found = await bay.sleep(instance)
    assert found["wakesAt"] is None
    assert found["waitingFor"].endswith(said)
    assert f"{said} The instance is destroyed at " in (await bay.api.document(instance))["waitingFor"]


async def test_sleep_is_no_run_for_the_rule_of_idle_instances(bay: Bay) -> None:
    instance = await bay.instance()
    [application] = [each["applicationId"] for each in accepted(await bay.api.get(_FLEET.format(bay.api.organization)))]
    accepted(await bay.api.put(f"applications/{application}/lifetime", {"idleMs": 86_400_000}))
    before = accepted(await bay.api.get(f"instances/{instance}/lifetime"))["idleEndsAt"]
    await bay.at(EVENING)
    assert await bay.jobs(instance) == ["stop"]
    assert accepted(await bay.api.get(f"instances/{instance}/lifetime"))["idleEndsAt"] == before
    await bay.at(MORNING)
    assert await bay.jobs(instance) == ["stop", "start"]
    assert accepted(await bay.api.get(f"instances/{instance}/lifetime"))["idleEndsAt"] == before


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ({"sleepAt": "25:00", "wakeAt": "07:00"}, "sleepAt: '25:00' isn't a time of day. Use 00:00 to 23:59"),
        ({"sleepAt": "20:00", "wakeAt": "7:60"}, "wakeAt: '7:60' isn't a time of day. Use 00:00 to 23:59"),
        ({"sleepAt": "20:00", "wakeAt": "20:00"}, "the same time"),
        ({"sleepAt": "20:00", "wakeAt": "07:00", "zone": "Berlin"}, "Unknown time zone"),
        ({"sleepAt": "20:00", "wakeAt": "07:00", "days": ["Monday"]}, "Unknown day"),
        ({"sleepAt": "* * * * *", "wakeAt": "07:00"}, "more often than every 5 minutes"),
        ({"sleepAt": "0 0 30 2 *", "wakeAt": "07:00"}, "There is no day '30' in February."),
    ],
)
async def test_windows_that_cannot_be_are_refused(api: Api, window: dict[str, Any], reason: str) -> None:
    application = await api.application(STOPPABLE)
    answer = await api.put(f"applications/{application}/sleep", {"windows": [window]})
    assert reason in refused(answer, 400, "InvalidSleepWindow")


def test_a_window_follows_the_clock_of_its_zone_when_that_is_set() -> None:
    rules = SleepRules(windows=(SleepWindow(sleep_at="02:30", wake_at="06:00", zone="Europe/Berlin"),))

    def bounds(day: datetime) -> list[str]:
        sleeps = rules.next_change(day, to_sleep=True)
        assert sleeps
        wakes = rules.next_change(sleeps, to_sleep=False)
        assert wakes
        return [f"{each:%d %H:%M}" for each in (sleeps, wakes)]

    assert bounds(datetime(2026, 3, 28, tzinfo=UTC)) == ["28 01:30", "28 05:00"]
    # There is no 02:30 on the day when the clock is set forth: it begins an hour later, at 03:30.
    assert bounds(datetime(2026, 3, 29, tzinfo=UTC)) == ["29 01:30", "29 04:00"]
    # There are two when it is set back: it begins with the first, and is an hour longer.
    assert bounds(datetime(2026, 10, 25, tzinfo=UTC)) == ["25 00:30", "25 05:00"]
    assert rules.is_asleep(datetime(2026, 10, 25, 1, 15, tzinfo=UTC))


def test_windows_may_overlap_and_cron_expressions_span_weekends() -> None:
    weekend = SleepWindow(sleep_at="0 18 * * FRI", wake_at="0 7 * * MON", zone="Europe/Berlin")
    night = SleepWindow(sleep_at="20:00", wake_at="07:00", zone="Europe/Berlin")
    rules = SleepRules(windows=(night, weekend))
    saturday = datetime(2026, 7, 4, 10, tzinfo=UTC)
    assert rules.is_asleep(saturday)
    assert rules.next_change(saturday, to_sleep=False) == datetime(2026, 7, 6, 5, tzinfo=UTC)
    assert not SleepRules(windows=(night,)).is_asleep(saturday)


@pytest.mark.parametrize("of_environment", [[], [NIGHTS]], ids=["no-windows", "windows-of-the-environment"])
async def test_an_instance_without_windows_has_no_turn(bay: Bay, of_environment: list[Any]) -> None:
    made = await bay.api.post(f"organizations/{bay.api.organization}/environments", {"name": "lab"})
    environment = accepted(made)["id"]
    accepted(await bay.api.put(f"environments/{environment}/sleep", {"windows": of_environment}))
    application = await bay.api.application(STOPPABLE)
    accepted(await bay.api.put(f"applications/{application}/sleep", {"windows": []}))
    instance = await bay.api.launch(application, environmentId=environment)
    await bay.api.settled(instance)
    await bay.round()

    async with bay.api.database.transaction() as connection:  # as a round looks, which would have to go on and on
        await store.add_launched(connection, after="", now=NOON)
        assert await store.list_due(connection, now=NOON, but=[], count=10) == []
