"""Recurring schedules in the console: made, shown, changed, paused, deleted."""

import re
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import ORIGIN, Page, get, words_of
from tests.support.service import Api, accepted, fresh_name

SHOP = "launch: {steps: []}\nback-up: {parameters: [{depth: {default: 1}}], steps: []}\n"


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def _sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: Any) -> httpx.Response:
    form = {"formToken": page.fields["formToken"], **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


async def test_a_workflow_is_repeated_with_its_next_times_shown_while_typing(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(SHOP, destroyInterval=-1)
    home = f"/console/organizations/{api.organization}/recurring"
    tab = await get(visitor, f"/console/instances/{instance}/schedules")
    assert f"{home}/new?instance={instance}" in tab.links
    form = await get(visitor, f"{home}/new?instance={instance}")
    fields = {
        "instance": instance,
        "name": fresh_name("night"),
        "workflow": "back-up",
        "parameters": '{"depth": 2}',
        "cron": "30 2 * * *",
        "zone": "Europe/Berlin",
        "starts": "2027-03-27T00:00",
    }
    preview = Page(await _sent(visitor, home, form, **fields, do="preview"))
    times = preview.answer.text.partition('id="next"')[2]
    # The clock goes from 2:00 to 3:00 on the 28th: the time that doesn't exist fires an hour later.
    assert "Sat 27 Mar 2027, 02:30:00 CET" in times
    assert "Sun 28 Mar 2027, 03:30:00 CEST" in times
    assert "Mon 29 Mar 2027, 02:30:00 CEST" in times
    assert "the clock of Europe/Berlin skips 02:30: it fires at 03:30." in times
    wrong = Page(await _sent(visitor, home, form, **{**fields, "cron": "often"}, do="preview"))
    assert wrong.status == 200
    assert "Invalid schedule" in wrong.text
    made = await _sent(visitor, home, form, **fields, do="create")
    assert made.status_code == 303, Page(made).text
    path = made.headers["location"]
    page = await get(visitor, path)
    for words in (fields["name"], "Active", "back-up", "Sat 27 Mar 2027", "No runs yet."):
        assert words in page.text, words
    listed = await get(visitor, home)
    assert path in listed.links
    assert path in (await get(visitor, f"/console/instances/{instance}/schedules")).links
    assert f"{fields['name']} in " in await _planned(visitor, instance)
    assert (await _sent(visitor, f"{path}/pause", page)).status_code == 303
    assert f"{fields['name']} Paused" in await _planned(visitor, instance)
    listed = await get(visitor, home)
    assert "back-up on " in listed.text
    assert 'class="st plain stop"' in listed.answer.text, "nothing happens, and nobody has to act"


async def test_the_list_has_seconds_where_the_cron_expression_has_them(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(SHOP, destroyInterval=-1)
    home = f"/console/organizations/{api.organization}/recurring"
    form = await get(visitor, f"{home}/new?instance={instance}")
    for cron, time in (("15 30 2 * * *", "02:30:15"), ("30 2 * * *", "02:30")):
        fields = {"instance": instance, "name": fresh_name("night"), "workflow": "back-up", "cron": cron}
        made = await _sent(visitor, home, form, **fields, parameters="{}", zone="UTC", do="create")
        assert made.status_code == 303, Page(made).text
        row = (await get(visitor, home)).answer.text.partition(fields["name"])[2].partition("</tr>")[0]
        assert re.search(rf", {time}<", row)


async def _planned(visitor: httpx.AsyncClient, instance: str) -> str:
    """Return what the page of an instance says about its next runs."""
    page = await get(visitor, f"/console/instances/{instance}")
    return words_of(page.answer.text.partition('id="next"')[2].partition("</section>")[0])


async def test_launches_and_instances_of_a_query_are_repeated_too(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP, name := fresh_name("repeated"))
    home = f"/console/organizations/{api.organization}/recurring"
    chooser = await get(visitor, f"{home}/new")
    assert f"{home}/new?bulk=1" in chooser.links
    unknown = Page(await visitor.get(f"{home}/new?application=nothing"))
    assert unknown.status == 400
    assert "You can see no application 'nothing'." in unknown.text
    form = await get(visitor, f"{home}/new?application={name}")
    assert f"Launch {name} regularly" in form.text
    assert form.fields["application"] == application
    launches = {"application": application, "name": fresh_name("demo"), "lifetime": "-1", "cron": "0 9 * * MON"}
    made = await _sent(visitor, home, form, **launches, do="create")
    assert made.status_code == 303, Page(made).text
    stored = accepted(await api.get(f"recurring-schedules/{made.headers['location'].rpartition('/')[2]}"))
    assert (stored["kind"], stored["applicationId"]) == ("launch", application)
    form = await get(visitor, f"{home}/new?bulk=1")
    bulk = {"act": "run", "workflow": "back-up", "q": "label:team=web", "name": fresh_name("all"), "cron": "0 1 * * *"}
    made = await _sent(visitor, home, form, **bulk, do="create")
    assert made.status_code == 303, Page(made).text
    page = await get(visitor, made.headers["location"])
    assert "Run back-up on instances of a query" in page.text
    assert "team=web" in page.text
    refused = Page(await _sent(visitor, home, form, **{**bulk, "q": "odd:thing"}, do="create"))
    assert refused.status == 400
    assert "odd:thing" in refused.text


@pytest.mark.slow  # no schedule fires more often than every ten seconds
async def test_the_page_shows_what_became_of_the_last_times(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(SHOP, destroyInterval=-1)
    body = {"name": "Often", "cron": "*/10 * * * * ?", "instanceId": instance, "workflow": "back-up"}
    made = accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))["id"]
    path = f"/console/organizations/{api.organization}/recurring/{made}"
    page = await eventually(lambda: get(visitor, path), lambda page: "1 start so far" in page.text)
    accepted(await api.post(f"recurring-schedules/{made}/pause"))
    await api.settled(instance)
    page = await get(visitor, path)
    assert "Succeeded" in page.text
    [run] = [link for link in page.links if link.startswith(f"/console/instances/{instance}/jobs/")]
    assert (await visitor.get(run)).status_code == 200


async def test_pages_say_that_an_instance_ends_before_what_is_scheduled(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("brief")
    instance = await api.running(SHOP, instanceName=name)  # for an hour
    home = f"/console/organizations/{api.organization}"
    form = await get(visitor, f"{home}/recurring/new?instance={instance}")
    fields = {
        "instance": instance,
        "name": name,
        "workflow": "back-up",
        "parameters": '{"depth": 2}',
        "cron": "0 0 1 1 *",
        "zone": "UTC",
    }
    preview = Page(await _sent(visitor, f"{home}/recurring", form, **fields, do="preview")).text
    assert re.search(
        "The instance is destroyed at .*, before this runs. Set a later end, or none, and take back a destroy", preview
    )
    made = await _sent(visitor, f"{home}/recurring", form, **fields, do="create")
    assert "before this runs. Set a later end" in (await get(visitor, made.headers["location"])).text
    assert "Never: the instance ends before" in (await get(visitor, f"{home}/recurring?instance={instance}")).text
    late = {"interval": 7_200_000, "parameters": {"depth": "2"}}
    accepted(await api.post(f"instances/{instance}/back-up/schedule", late))
    assert (
        "Doesn’t run: the instance ends before" in (await get(visitor, f"/console/instances/{instance}/schedules")).text
    )
    listed = (await get(visitor, f"{home}/schedules?view=list&q={name}")).text
    assert "Doesn’t run: the instance ends before" in listed
    month = (await get(visitor, f"{home}/schedules")).answer.text
    assert f"back-up: {name}" not in month
