"""What is scheduled in an organization, in the API and on its page."""

import re
from calendar import Calendar, monthrange
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from launchbay.clock import to_ms
from launchbay.pages import schedules
from launchbay.pages.schedules import CalendarEntry, Day
from launchbay.store.schedules import FleetScheduleRow
from tests.support.eventually import eventually
from tests.support.pages import ORIGIN, get, words_of
from tests.support.service import Api, accepted, fresh_name, person, refused

HOUR_MS = 3_600_000
MANIFEST = """\
application:
  interfaces:
    actions: { back-up: bind(web#actions.back-up), report: bind(web#actions.report) }
  components:
    web:
      type: workflow.Instance
      interfaces:
        actions: { back-up: receive-command(), report: receive-command() }
      configuration:
        configuration.schedule: { back-up: "0 30 3 * * ?" }
        configuration.workflows: { launch: { steps: [] }, back-up: { steps: [] }, report: { steps: [] } }
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def test_the_schedules_of_all_instances_are_one_list_by_their_time(api: Api) -> None:
    instance = await api.running(MANIFEST, destroyInterval=-1)
    once = accepted(await api.post(f"instances/{instance}/actions.report/schedule", {"interval": HOUR_MS}))["id"]
    path = f"organizations/{api.organization}/schedules"
    found = [each for each in accepted(await api.get(path)) if each["instanceId"] == instance]
    assert [each["dueAt"] for each in found] == sorted(each["dueAt"] for each in found)
    by_workflow = {each["workflow"]: each for each in found}
    assert by_workflow["actions.report"]["id"] == once
    assert by_workflow["actions.report"]["component"] is None
    assert by_workflow["back-up"]["component"] == "web"
    now = to_ms(datetime.now(UTC))
    early = accepted(await api.get(path, until=str(now + HOUR_MS // 2)))
    assert once not in {each["id"] for each in early}
    late = accepted(await api.get(path, since=str(now + 40 * 24 * HOUR_MS)))
    assert late == []
    assert len(accepted(await api.get(path, limit="1"))) == 1
    someone = await person(api)
    assert accepted(await someone.at(api).get(path)) == []
    outsider, _, _ = await api.outsider()
    refused(await outsider.get(path), 403)


def test_a_day_of_the_calendar_groups_expiries_and_the_runs_of_a_minute() -> None:
    noon = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
    entries = [CalendarEntry(noon + timedelta(hours=hour), "expires", "1", "quay", "2") for hour in (0, 3)]
    row = FleetScheduleRow("1", "copy", noon, "", None, None, None, "2", "1", "quay", "3", "4", 1)
    hours = (1, 1, 2, 4, 4)
    entries += [CalendarEntry(noon + timedelta(hours=hour), "copy", "1", "quay", "2", schedule=row) for hour in hours]
    day = Day(noon.date(), True, True, sorted(entries, key=lambda each: each.at))
    assert [(group[0].what, len(group)) for group in day.shown] == [("expires", 2), ("copy", 2), ("copy", 1)]
    assert day.hidden == 2
    often = [each._replace(times=60) for each in day.entries]
    assert Day(noon.date(), True, True, often).hidden == 120


@pytest.mark.features("recurring")
async def test_recurring_schedules_are_in_the_calendar_once_a_day_and_in_the_list_once(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(MANIFEST, destroyInterval=-1)
    within, name = f"organizations/{api.organization}", fresh_name("ebb")
    body = {"name": name, "cron": "5,35 4 * * *", "instanceId": instance, "workflow": "actions.report"}
    made = accepted(await api.post(f"{within}/recurring-schedules", body))["id"]
    later = (datetime.now(UTC).replace(day=1) + timedelta(days=70)).replace(day=1)
    shown = f"/console/{within}/schedules?month={later:%Y-%m}"
    own = f'href="/console/{within}/recurring/{made}" title='
    days = monthrange(later.year, later.month)[1]
    assert days <= (await get(visitor, shown)).answer.text.count(own) <= 42
    listed = (await get(visitor, f"/console/{within}/schedules?view=list&q={name}")).answer.text
    [row] = re.findall(r"<tr>.*?</tr>", listed.partition("<tbody")[2], re.DOTALL)
    assert re.match(rf"in .* {name} actions\.report .*Repeats, next ", words_of(row))
    accepted(await api.post(f"recurring-schedules/{made}/pause"))
    assert own not in (await get(visitor, shown)).answer.text


@pytest.mark.features("recurring")
async def test_the_calendar_has_all_recurring_schedules_with_the_names_of_their_instances(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    name, within = fresh_name("spring").replace(" ", "-"), f"organizations/{api.organization}"
    instance = await api.running(MANIFEST, instanceName=name, destroyInterval=-1)
    body = {"cron": "7 5 * * *", "instanceId": instance, "workflow": "actions.report"}
    made = [
        accepted(await api.post(f"{within}/recurring-schedules", {"name": f"{name} {number}", **body}))["id"]
        for number in range(60)
    ]
    try:
        listed = (await get(visitor, f"/console/{within}/schedules?view=list&q={name} 0")).answer.text
        assert f"{name} 0 actions.report" in words_of(listed)
    finally:
        for each in made:
            accepted(await api.delete(f"recurring-schedules/{each}"))


@pytest.mark.features("recurring")
async def test_what_repeats_is_counted_with_each_of_its_runs(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("flood").replace(" ", "-")
    instance = await api.running(MANIFEST, instanceName=name, destroyInterval=-1)
    within = f"organizations/{api.organization}"
    often = {"cron": "* * * * *", "instanceId": instance, "workflow": "actions.report"}
    made = [
        accepted(await api.post(f"{within}/recurring-schedules", {"name": f"{name} {number}", **often}))["id"]
        for number in (1, 2)
    ]
    try:
        later = (datetime.now(UTC).replace(day=1) + timedelta(days=70)).replace(day=1)
        month = (await get(visitor, f"/console/{within}/schedules?month={later:%Y-%m}")).answer.text
        days = len([*Calendar().itermonthdates(later.year, later.month)])  # whole weeks, from the first midnight on
        title = rf"[^\"]*{name} 1: actions\.report on {name}, 1440 times[^\"]*"
        shown_days = re.findall(rf'title="{title}"><span class="no-mid">00:00 </span>2880 runs<', month)
        assert len(shown_days) == days
        # That of the manifest is on every day too.
        assert len(re.findall(r'title="[^"]*back-up: [^"]*"><span class="no-mid">03:30 </span>', month)) == days
        for shown in (f"?month={later:%Y-%m}", "", "?month=2026-02"):
            page = (await get(visitor, f"/console/{within}/schedules{shown}")).answer.text
            soon = page.partition("Next 24 hours")[2]
            for number in (1, 2):
                assert soon.count(f'<span class="name">{name} {number}</span>') == 1
            assert soon.count(f"{name}</a>, 1440 times") == 2
            assert len(re.findall(rf'class="name">back-up</span><p><a [^>]*>{name}</a></p>', soon)) == 1
    finally:
        for each in made:
            accepted(await api.delete(f"recurring-schedules/{each}"))


async def test_past_days_of_the_calendar_say_how_many_ran(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(MANIFEST, destroyInterval=-1)
    await api.run(instance, "actions.report")
    noon = datetime(2026, 2, 10, 12, 0, tzinfo=UTC)
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE fleet_jobs SET created_at = %s, status = CASE WHEN name = 'launch' THEN 'Failed' ELSE status END"
            " WHERE instance_id = %s",
            [noon, instance],
        )
    path = f"/console/organizations/{api.organization}/schedules?month="
    february = await get(visitor, f"{path}2026-02")
    link = f"/console/organizations/{api.organization}/runs?q=started%3A2026-02-10"
    assert f'<span class="d">10</span><a class="quiet xs" href="{link}">2 ran, 1 failed</a>' in february.answer.text
    assert "2 runs" in (await get(visitor, link)).text
    assert february.text.count(" ran") == 1
    assert " ran" not in (await get(visitor, f"{path}2026-04")).text


async def test_the_calendar_and_the_list_show_runs_and_expiries_and_cancel_and_resume_them(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    name = fresh_name("tide").replace(" ", "-")
    instance = await api.running(MANIFEST, instanceName=name, destroyInterval=HOUR_MS // 2)
    # The page names twenty of the next: before those of other tests.
    soon_ms = HOUR_MS // 4
    once = accepted(await api.post(f"instances/{instance}/actions.report/schedule", {"interval": soon_ms}))["id"]
    home = f"/console/organizations/{api.organization}/schedules"
    month = await get(visitor, home)
    assert month.status == 200
    soon = month.answer.text.partition("Next 24 hours")[2]
    assert soon.count(name) >= 3
    later = (datetime.now(UTC) + timedelta(days=70)).strftime("%Y-%m")
    assert (
        f"/console/instances/{instance}"
        not in (await visitor.get(home, params={"month": later})).text.partition("Next 24 hours")[0]
    )
    assert (await get(visitor, f"{home}?month=9999-99")).status == 200
    counts = await get(visitor, f"{home}?view=list&q={name}")
    assert re.findall(r'(\w+) <span class="count ">(\d)<', counts.answer.text) == [
        ("All", "3"), ("Repeats", "1"), ("Once", "1"), ("Expiries", "1"), ("Cancelled", "0"),
    ]  # fmt: skip
    rows = accepted(await api.get(f"organizations/{api.organization}/schedules"))
    [repeats] = [each["id"] for each in rows if each["instanceId"] == instance and each["component"]]
    form = {"formToken": month.fields["formToken"], "back": f"{home}?view=list"}
    for schedule, fields in ((once, {"do": "cancel"}), (repeats, {"do": "cancel"})):
        path = f"/console/instances/{instance}/schedules/{schedule}"
        answer = await visitor.post(path, data={**form, **fields}, headers={"Origin": ORIGIN})
        assert (answer.status_code, answer.headers["location"]) == (303, f"{home}?view=list")
    assert [each["id"] for each in accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]] == [repeats]
    cancelled = await get(visitor, f"{home}?view=list&kind=cancelled&q={name}")
    assert "Resume in 1 min" in cancelled.text
    path = f"/console/instances/{instance}/schedules/{repeats}"
    resumed = await visitor.post(path, data={**form, "do": "move", "minutes": "60"}, headers={"Origin": ORIGIN})
    assert resumed.status_code == 303
    assert "Cancelled 0" in (await get(visitor, f"{home}?view=list&q={name}")).text
    wrong = await visitor.post(path, data={**form, "do": "move", "minutes": "soon", "organization": api.organization},
                               headers={"Origin": ORIGIN})  # fmt: skip
    assert wrong.status_code == 400
    assert "Enter a number of minutes" in wrong.text


async def test_the_list_has_pages_on_which_each_schedule_is_once(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "CONSOLE_PAGE_ROWS", 2)
    application = await api.application("launch: {steps: []}\n")
    name = fresh_name("ferry").replace(" ", "-")
    for number in range(3):
        await api.launch(application, instanceName=f"{name}-{number}", destroyInterval=HOUR_MS)
    first = await get(visitor, f"/console/organizations/{api.organization}/schedules?view=list&q={name}")
    [following] = [each for each in first.links if "first=2" in each]
    second = await get(visitor, following)
    pages = [[each for each in range(3) if f"{name}-{each}" in page.text] for page in (first, second)]
    assert ([len(each) for each in pages], sorted([*pages[0], *pages[1]])) == ([2, 1], [0, 1, 2])
    assert "First page" in second.text


async def test_the_expiries_of_a_day_are_one_line_of_the_next_hours(api: Api, visitor: httpx.AsyncClient) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    entries = [CalendarEntry(noon + timedelta(hours=hour), "expires", "1", "quay", "2") for hour in (0, 3, 13)]
    runs = [CalendarEntry(noon + timedelta(hours=hour), "copy", "1", "quay", "2", recurring="/x") for hour in (1, 2)]
    assert [len(line) for line in schedules._lines([*entries, *runs])] == [2, 1, 1, 1]
    application = await api.application()
    for _ in range(3):
        await api.launch(application, destroyInterval=600_000)
    page = await get(visitor, f"/console/organizations/{api.organization}/schedules")
    soon = page.answer.text.partition("Next 24 hours")[2]
    assert re.search(r"\d+ instances expire", soon)
    assert len(re.findall(r'<li class="r-plain">', soon.partition("</ul>")[0])) <= 2


async def test_a_past_day_leads_to_the_runs_of_that_day(api: Api, visitor: httpx.AsyncClient) -> None:
    home = f"/console/organizations/{api.organization}"
    today = datetime.now(UTC).date()
    await api.launch(await api.application())
    shown = await get(visitor, f"{home}/runs?q=started:{today.isoformat()}")
    assert "launch" in shown.text
    assert "No run matches" in (await get(visitor, f"{home}/runs?q=started:{today - timedelta(days=9)}")).text


async def test_schedules_that_were_paused_long_ago_take_no_place_of_upcoming_ones(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.pages.schedules.PAGE_ROWS_MAX", 50)
    name = fresh_name("skiff").replace(" ", "-")
    instance = await api.running("launch: {steps: []}\nreport: {steps: []}", instanceName=name)
    accepted(await api.post(f"instances/{instance}/report/schedule", {"interval": 60_000}))
    async with api.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO schedules (id, instance_id, organization_id, kind, workflow, component, parameters, owner_id,"
            " due_at, was_due_at, cancelled_at)"
            " SELECT 'paused ' || number, instance_id, organization_id, 'cron', workflow, 'x' || number, parameters,"
            " owner_id, '9999-12-31T00:00:00Z', now() - interval '1 day', now() - interval '2 days'"
            " FROM schedules, generate_series(1, 50) AS number WHERE instance_id = %s AND kind = 'workflow'",
            [instance],
        )
    home = f"/console/organizations/{api.organization}/schedules"
    assert f"report {name}" in words_of((await get(visitor, f"{home}?view=list&q={name}")).answer.text)


async def test_what_is_due_and_waits_for_another_job_stays_in_the_list_and_the_next_hours(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    name = fresh_name("skiff").replace(" ", "-")
    rest = "rest: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}"
    instance = await api.running(f"launch: {{steps: []}}\n{rest}\nreport: {{steps: []}}", instanceName=name)
    accepted(await api.post(f"instances/{instance}/rest", {}))
    accepted(await api.post(f"instances/{instance}/report/schedule", {"interval": 1}))
    await eventually(lambda: api.document(instance), lambda found: "due since" in found.get("waitingFor", ""))
    home = f"/console/organizations/{api.organization}/schedules"
    listed = words_of((await get(visitor, f"{home}?view=list&q={name}")).answer.text)
    assert re.search(rf"due (just now|\d+ s ago) report {name} Waits since \d\d:\d\d:\d\d", listed)
    assert f"Cancel report of {name}" in listed
    page = (await get(visitor, f"/console/instances/{instance}")).answer.text
    following = words_of(page.partition('id="next"')[2].partition("</section>")[0])
    assert re.search(r"report due (just now|\d+ s ago)", following)
    soon = words_of((await get(visitor, home)).answer.text.partition("Next 24 hours")[2])
    assert re.search(rf"report {name} due (just now|\d+ s ago)", soon)
    assert name not in words_of((await get(visitor, f"{home}?month=2999-01")).answer.text.partition("Next 24 hours")[0])
