"""Freeze windows of environments and applications: the same refusals as a freeze, on a clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from launchbay.features.bulk.rows import list_open
from tests.support.databases import Databases, until_locked
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, refused, running_api
from tests.support.worlds import MovableClock

MANIFEST = "greet:\n  steps: []\nlaunch:\n  steps: []\ndestroy:\n  steps: []\n"
REASON = "Holidays: nobody is here."


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(autouse=True)
def today(clock: MovableClock) -> None:
    clock.ahead = timedelta()


@pytest.fixture(scope="module")
async def api(databases: Databases, clock: MovableClock) -> AsyncIterator[Api]:
    async with running_api(databases.create(), clock) as api:
        yield api


def tomorrow(clock: MovableClock, days: int = 1) -> dict[str, Any]:
    """Return a window that begins at midnight (UTC), and lasts some days."""
    first = clock.now().date() + timedelta(days=1)
    last = first + timedelta(days=days - 1)
    return {"windows": [{"reason": REASON, "firstDay": first.isoformat(), "lastDay": last.isoformat()}]}


def move_to_midnight(clock: MovableClock, days: int = 1) -> None:
    day = clock.now().date() + timedelta(days=days)
    clock.ahead += datetime(day.year, day.month, day.day, tzinfo=UTC) - clock.now()


async def held(api: Api) -> tuple[str, str, str]:
    """Return an environment, an application, and a running instance."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    return environment, application, instance


def said(answer: httpx.Response, code: str) -> str:
    return refused(answer, 403, code)


async def test_nothing_changes_in_a_window_and_everybody_reads_until_when(api: Api, clock: MovableClock) -> None:
    environment, application, instance = await held(api)
    path = f"environments/{environment}/freeze"
    windows = tomorrow(clock, days=2)
    accepted(await api.put(f"{path}-windows", windows))
    end = windows["windows"][0]["lastDay"]
    following = accepted(await api.get(path))["next"]
    assert (following["reason"], accepted(await api.get(path))["reason"]) == (REASON, None)
    accepted(await api.post(f"instances/{instance}/greet", {}))
    await api.settled(instance)
    move_to_midnight(clock)
    after = (datetime.fromisoformat(end) + timedelta(days=1)).date()
    body = {"environmentId": environment}
    sentence = said(await api.post(f"applications/{application}/launch", body), "EnvironmentFrozen")
    assert f"is frozen until {after}T00:00:00Z: {REASON}" in sentence
    said(await api.post(f"instances/{instance}/greet", {}), "EnvironmentFrozen")
    said(await api.put(f"environments/{environment}/markers", {"markers": []}), "EnvironmentFrozen")
    shown = accepted(await api.get(path))
    assert (shown["reason"], shown["byId"], shown["next"]) == (REASON, None, None)
    assert shown["until"] == following["until"]
    move_to_midnight(clock, days=2)
    accepted(await api.post(f"instances/{instance}/greet", {}))
    assert accepted(await api.get(path))["reason"] is None


async def test_windows_can_be_changed_while_they_freeze(api: Api, clock: MovableClock) -> None:
    environment, _, instance = await held(api)
    path = f"environments/{environment}/freeze-windows"
    accepted(await api.put(path, tomorrow(clock)))
    move_to_midnight(clock)
    said(await api.post(f"instances/{instance}/greet", {}), "EnvironmentFrozen")
    accepted(await api.put(path, {"windows": []}))
    accepted(await api.post(f"instances/{instance}/greet", {}))
    assert accepted(await api.get(path)) == {"windows": []}


async def test_a_frozen_application_changes_nowhere_and_others_do(api: Api) -> None:
    environment, application, instance = await held(api)
    other = await api.application(MANIFEST)
    path = f"applications/{application}/freeze"
    accepted(await api.put(path, {"reason": REASON}))
    for answer in (
        await api.post(f"applications/{application}/launch", {"environmentId": environment}),
        await api.post(f"applications/{application}/launch", {}),
        await api.post(f"instances/{instance}/greet", {}),
        await api.post(f"instances/{instance}/destroy", {}),
        await api.put_yaml(f"applications/{application}/manifest", MANIFEST),
        await api.post(f"applications/{application}/revisions", {"name": "one", "version": 2}),
    ):
        assert "froze the application" in said(answer, "ApplicationFrozen")
    await api.settled(await api.launch(other, environmentId=environment))
    accepted(await api.put(f"environments/{environment}/markers", {"markers": []}))
    shown = accepted(await api.get(path))
    assert (shown["reason"], shown["byEmail"] is not None) == (REASON, True)
    accepted(await api.delete(path))
    accepted(await api.post(f"instances/{instance}/greet", {}))


async def test_an_application_has_windows_too(api: Api, clock: MovableClock) -> None:
    _, application, instance = await held(api)
    accepted(await api.put(f"applications/{application}/freeze-windows", tomorrow(clock)))
    assert accepted(await api.get(f"applications/{application}/freeze-windows")) == {
        "windows": [
            {**tomorrow(clock)["windows"][0], "beginsAt": "", "endsAt": "", "days": [], "zone": "UTC"},
        ]
    }
    move_to_midnight(clock)
    assert "The application" in said(await api.post(f"instances/{instance}/greet", {}), "ApplicationFrozen")
    reader = await api.member("Read: [/*]")
    refused(await reader.put(f"applications/{application}/freeze-windows", {"windows": []}), 403, "NotAllowed")


async def test_the_list_of_instances_says_what_is_frozen_or_will_be(api: Api, clock: MovableClock) -> None:
    environment, application, instance = await held(api)

    async def listed() -> dict[str, Any]:
        found = accepted(await api.get(f"organizations/{api.organization}/instances?environment={environment}"))
        assert [each["id"] for each in found] == [instance]
        return dict(found[0])

    assert ((await listed())["isFrozen"], (await listed())["freeze"]) == (False, None)
    accepted(await api.put(f"applications/{application}/freeze-windows", tomorrow(clock)))
    soon = await listed()
    assert (soon["isFrozen"], soon["freeze"]["kind"], soon["freeze"]["reason"]) == (False, "application", REASON)
    assert soon["freeze"]["beginsAt"] < soon["freeze"]["until"]
    move_to_midnight(clock)
    now = await listed()
    assert (now["isFrozen"], now["freeze"]["beginsAt"], now["freeze"]["until"]) == (True, None, soon["freeze"]["until"])
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Longer."}))
    assert (await listed())["freeze"] == {"kind": "environment", "reason": "Longer.", "until": None, "beginsAt": None}


async def test_a_change_asks_the_clock_after_it_has_waited(api: Api, clock: MovableClock) -> None:
    environment, _, instance = await held(api)
    accepted(await api.put(f"environments/{environment}/freeze-windows", tomorrow(clock)))
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        # The change asks once it holds the freeze, so it learns what the time is then.
        await other.execute("SELECT FROM environments WHERE id = %s FOR NO KEY UPDATE", [environment])
        running = asyncio.create_task(api.post(f"instances/{instance}/greet", {}))
        await until_locked(api.database.url)
        move_to_midnight(clock)
        await other.commit()
    said(await running, "EnvironmentFrozen")


async def test_launches_and_the_begin_of_a_window_are_in_one_order(api: Api, clock: MovableClock) -> None:
    environment, application, _ = await held(api)
    accepted(await api.put(f"environments/{environment}/freeze-windows", tomorrow(clock)))
    late: list[httpx.Response] = []
    has_begun = asyncio.Event()

    async def launch() -> int:
        began_after = has_begun.is_set()
        answer = await api.post(f"applications/{application}/launch", {"environmentId": environment})
        assert answer.status_code in {200, 403}, answer.text
        if began_after and answer.status_code == 200:
            late.append(answer)
        return answer.status_code

    async def begin() -> None:
        await asyncio.sleep(0)
        move_to_midnight(clock)
        has_begun.set()

    answers = await asyncio.gather(*(launch() for _ in range(8)), begin(), *(launch() for _ in range(8)))
    answers += await asyncio.gather(*(launch() for _ in range(4)))
    assert late == []
    assert 403 in answers


async def test_windows_are_answered_after_the_launches_that_were_on_their_way(api: Api, clock: MovableClock) -> None:
    environment, application, _ = await held(api)
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        # As a launch does, from before its look until its commit.
        await other.execute("SELECT pg_advisory_xact_lock_shared(4011229)")
        setting = asyncio.create_task(api.put(f"environments/{environment}/freeze-windows", tomorrow(clock)))
        await eventually(lambda: api.read(f"environments/{environment}/freeze-windows"), lambda found: found["windows"])
        assert not setting.done()
        await other.commit()
        accepted(await setting)
    move_to_midnight(clock)
    said(await api.post(f"applications/{application}/launch", {"environmentId": environment}), "EnvironmentFrozen")


@pytest.mark.features("recurring")
async def test_a_recurring_schedule_waits_without_asking_again_until_the_window_ends(
    api: Api, clock: MovableClock
) -> None:
    environment, _, instance = await held(api)
    accepted(await api.put(f"environments/{environment}/freeze-windows", tomorrow(clock)))
    body = {"name": fresh_name("often"), "cron": "0 0 1 1 *", "instanceId": instance, "workflow": "greet"}
    made = accepted(
        await api.post(f"organizations/{api.organization}/recurring-schedules", {**body, "whenBusy": "queue"})
    )
    move_to_midnight(clock)
    async with api.database.transaction() as connection:
        due = "UPDATE recurring_schedules SET due_at = %(now)s, fires_at = %(now)s WHERE id = %(id)s"
        await connection.execute(due, {"now": clock.now(), "id": made["id"]})
    path = f"recurring-schedules/{made['id']}"
    await eventually(lambda: api.read(path), lambda found: found["waitingSince"] is not None)
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT fires_at FROM recurring_schedules WHERE id = %s", [made["id"]])
        [fires_at] = await found.fetchone() or [None]
    assert fires_at == datetime.combine(clock.now().date() + timedelta(days=1), datetime.min.time(), UTC)
    move_to_midnight(clock)
    firings = (await eventually(lambda: api.read(path), lambda found: found["firings"], within_s=40))["firings"]
    assert firings[0]["outcome"] == "Started"


@pytest.mark.features("bulk")
async def test_the_end_of_a_freeze_wakes_what_waits_for_it(api: Api, clock: MovableClock) -> None:
    environment, _, instance = await held(api)
    path = f"environments/{environment}/freeze-windows"
    accepted(await api.put(path, tomorrow(clock, days=3)))
    move_to_midnight(clock)
    body = {"act": "run", "workflow": "greet", "ids": [instance]}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]
    await eventually(lambda: api.get(f"bulk/{bulk}/instances"), lambda found: REASON in found.text)
    async with api.database.connection() as connection:
        later = "now() + interval '1000 years' + interval '2 days'"
        waits = f"SELECT not_before > {later} FROM bulk_instances WHERE bulk_id = %s"
        assert await (await connection.execute(waits, [bulk])).fetchone() == (True,)
        assert bulk not in await list_open(connection)  # nobody looks at it meanwhile
    accepted(await api.put(path, {"windows": []}))
    await eventually(lambda: api.read(f"bulk/{bulk}"), lambda found: found["status"] == "Finished")
    assert len((await api.document(instance))["workflowHistory"]) == 2


@pytest.mark.parametrize(
    ("window", "said_of_it"),
    [
        ({"reason": "x"}, "beginsAt"),
        ({"reason": "", "firstDay": "2026-12-20", "lastDay": "2026-12-21"}, "reason"),
        ({"reason": "x", "firstDay": "20.12.2026", "lastDay": "2026-12-21"}, "firstDay"),
        ({"reason": "x", "beginsAt": "* * * * *", "endsAt": "06:00"}, "more often than every 5 minutes"),
        ({"reason": "x", "beginsAt": "18:00", "endsAt": "06:00", "zone": "Mars/One"}, "Mars/One"),
    ],
)
async def test_a_window_that_cannot_be_changes_nothing(api: Api, window: dict[str, Any], said_of_it: str) -> None:
    path = f"environments/{await api.offer()}/freeze-windows"
    good = {"reason": "x", "beginsAt": "18:00", "endsAt": "06:00"}
    assert said_of_it in refused(await api.put(path, {"windows": [good, window]}), 400, "InvalidFreeze")
    assert accepted(await api.get(path)) == {"windows": []}
    refused(await api.put(path, {"windows": [good] * 21}), 400, "InvalidFreeze")


async def test_a_frozen_environment_stops_changes_of_the_services_that_it_offers(api: Api) -> None:
    environment = await api.offer()
    pool = {"typeId": "builtin:static_resource_pool", "parameters": {"configuration.resources": ["a"]}}
    path = f"organizations/{api.organization}/services"
    offered, other = [accepted(await api.post(path, {"name": fresh_name("pool"), **pool}))["id"] for _ in range(2)]
    accepted(await api.put(f"environments/{environment}/services", {"services": [offered]}))
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": REASON}))
    changed = {"parameters": {"configuration.resources": ["a", "b"]}}
    answer = await api.put(f"services/{offered}", changed)
    assert (answer.status_code, REASON in answer.text) == (403, True), answer.text
    assert (await api.delete(f"services/{offered}")).status_code == 403
    accepted(await api.put(f"services/{other}", changed))
    accepted(await api.delete(f"services/{other}"))
    accepted(await api.delete(f"environments/{environment}/freeze"))
    accepted(await api.put(f"services/{offered}", changed))
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    # No change set can contain the secrets of a service, so the policy leaves it alone.
    accepted(await api.put(f"services/{offered}", {"parameters": {"configuration.resources": ["c"]}}))


async def test_previews_say_what_rules_would_refuse_now(api: Api, clock: MovableClock) -> None:
    environment, application, instance = await held(api)
    launch = {"environmentId": environment}
    previews: tuple[Callable[[], Awaitable[httpx.Response]], ...] = (
        lambda: api.post(f"applications/{application}/launch/preview", launch),
        lambda: api.post(f"instances/{instance}/configuration/preview", {"parameters": {}}),
        lambda: api.post(f"instances/{instance}/destroy/preview", {}),
    )
    for preview in previews:
        found = accepted(await preview())
        assert not found["refused"]
        assert not any("refused now" in each for each in found["warnings"])
    accepted(await api.put(f"environments/{environment}/freeze-windows", tomorrow(clock)))
    move_to_midnight(clock)
    for preview in previews:
        found = accepted(await preview())
        assert (found["errors"], found["refused"]) == ([], True)
        assert "would be refused now. The environment" in found["warnings"][0]
        assert REASON in found["warnings"][0]


@pytest.mark.features("directories")
async def test_directories_and_archives_contain_the_windows_and_not_the_switch(api: Api) -> None:
    organization = accepted(await api.post("organizations", {"name": fresh_name("windows")}))["id"]
    home = f"organizations/{organization}"
    text = f"""
rules:
  freeze:
  - {{ reason: Weekend, beginsAt: "18:00", endsAt: 0 7 * * MON, days: [FRI], zone: Europe/Berlin }}
  - {{ reason: "{REASON}", firstDay: "2026-12-20", lastDay: "2027-01-04" }}
"""
    body = {"act": "apply", "files": {"environments/lab.yaml": text}}
    made = accepted(await api.post(f"{home}/change-sets", body))["id"]
    accepted(await api.post(f"change-sets/{made}/apply", {}))
    listed = accepted(await api.get(f"{home}/environments"))
    lab = next(each["id"] for each in listed if each["name"] == "lab")
    windows = accepted(await api.get(f"environments/{lab}/freeze-windows"))["windows"]
    assert [each["reason"] for each in windows] == ["Weekend", REASON]
    accepted(await api.put(f"environments/{lab}/freeze", {"reason": "An incident."}))
    archive = accepted(await api.get(f"{home}/archive"))
    assert "An incident." not in str(archive)
    assert "firstDay" in str(archive)
    # The same again changes nothing, and leaves the switch alone.
    refused(await api.post(f"{home}/change-sets", body), 400, "NothingChosen")
    assert accepted(await api.get(f"environments/{lab}/freeze"))["reason"] == "An incident."
    wrong = text.replace("2027-01-04", "2026-12-01")
    answer = await api.post(f"{home}/change-sets", {**body, "files": {"environments/lab.yaml": wrong}})
    assert "lastDay" in refused(answer, 400)
    assert "environments/lab.yaml:5:77" in answer.text
