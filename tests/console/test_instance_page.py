"""The page of an instance: required arguments, schedules of the manifest, origins of parameters, its users."""

import gzip
import html
import re

import httpx
import psycopg
import pytest

from launchbay.pages import instance as instance_page
from tests.support.applications import NEEDY, launched, offered
from tests.support.eventually import eventually
from tests.support.manifests import many_components
from tests.support.pages import Page, browser, get, words_of
from tests.support.second_factors import post
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person, served

MANIFEST = """
application:
  interfaces:
    input: {size: bind(web#input.size), name: bind(web#input.name)}
    actions: {grow: bind(web#actions.grow)}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int), name: configuration(string)}
        actions: {grow: "receive-command(int by, int size)"}
      configuration:
        input.size: 1
        configuration.schedule: {tick: "0 0 * * * ?"}
        configuration.workflows:
          launch: {steps: []}
          grow: {steps: []}
          tick: {steps: []}
"""
PARENT = """
application:
  components:
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
launch: {steps: []}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


@pytest.fixture(scope="module")
async def instance(api: Api) -> str:
    return await api.running(MANIFEST, parameters={"input.name": "box"})


def table(page: Page) -> str:
    """Return the text of the page's table."""
    [found] = re.findall(r"<tbody>(.*?)</tbody>", page.answer.text, re.DOTALL)
    return words_of(found)


async def test_the_form_of_a_command_marks_what_is_required(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = f"/console/instances/{instance}"
    page = await get(visitor, f"{path}/run")
    labels = re.findall(r'<label for="argument:actions.grow:(\w+)">(.*?)</label>', page.answer.text)
    assert [(name, ", required" in label) for name, label in labels] == [("by", True), ("size", False)]
    answer = await post(
        visitor, f"{path}/run", workflow="actions.grow", do="run", **{"argument:actions.grow:size": "2"}
    )
    assert isinstance(answer, Page)
    assert "Missing required parameter." in answer.text
    assert len((await api.document(instance))["workflowHistory"]) == 1


@pytest.mark.features("recurring")
async def test_the_tab_of_schedules_counts_the_recurring_ones(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running("launch: {steps: []}\nturn: {steps: []}\n")
    path = f"/console/instances/{instance}/schedules"
    page = await get(visitor, path)
    assert "Nothing is scheduled" in page.text
    body = {"name": fresh_name("tide"), "cron": "0 5 * * *", "instanceId": instance, "workflow": "turn"}
    accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))
    page = await get(visitor, path)
    assert "Nothing is scheduled" not in page.text
    assert re.search(rf'href="{path}"[^>]*>Schedules ?<span class="count[^"]*">1<', page.answer.text)


async def test_a_schedule_of_the_manifest_is_paused_and_resumed(
    api: Api, visitor: httpx.AsyncClient, instance: str
) -> None:
    path = f"/console/instances/{instance}"
    [entry] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    assert "Pause tick" in table(await get(visitor, f"{path}/schedules"))
    answer = await post(visitor, f"{path}/reschedule", schedule=entry["id"], do="cancel", minutes="")
    assert isinstance(answer, httpx.Response)
    assert "tick Paused" in words_of((await get(visitor, path)).answer.text)
    shown = table(await get(visitor, f"{path}/schedules"))
    assert re.search(r"Paused .*(ago|just now) by ", shown)
    assert "Resume tick" in shown
    assert "Pause tick" not in shown
    await post(visitor, f"{path}/reschedule", schedule=entry["id"], do="move", minutes="30")
    assert "Paused" not in table(await get(visitor, f"{path}/schedules"))


async def test_parameters_are_the_effective_ones_with_their_origin(visitor: httpx.AsyncClient, instance: str) -> None:
    path = f"/console/instances/{instance}/configuration"
    shown = table(await get(visitor, path))
    assert "input.size int 1 Default same" in shown
    assert "input.name string box Given" in shown
    assert "input.size" not in table(await get(visitor, f"{path}?show=given"))


async def test_the_page_to_destroy_names_the_users_and_asks_for_force(api: Api, visitor: httpx.AsyncClient) -> None:
    service, where = await offered(api)
    user = await launched(api, NEEDY, where)
    path = f"/console/instances/{service}/end"
    page = await get(visitor, path)
    assert user["id"] in page.text
    refused = await post(visitor, path, do="destroy")
    assert isinstance(refused, Page)
    assert refused.status == 409
    assert (await api.document(service))["status"] == "Running"
    answer = await post(visitor, path, do="destroy", force="1")
    assert isinstance(answer, httpx.Response)
    assert (await api.settled(service))["status"] == "Destroyed"


@pytest.mark.features("lifetimes")
async def test_a_destroy_with_a_grace_time_is_shown_and_undone(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application("launch: {steps: []}")
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": 7_200_000}))
    instance = await api.launch(application)
    await api.until(instance, "Running")
    path = f"/console/instances/{instance}"
    assert "Launchbay first waits 2 hours" in (await get(visitor, f"{path}/end")).text
    assert isinstance(await post(visitor, f"{path}/end", do="destroy"), httpx.Response)
    waiting = (await get(visitor, path)).text
    assert "requested this" in waiting
    assert "Its lifetime ends then too: to keep it, run undo-destroy and set a later end." in waiting
    listed = (await get(visitor, f"/console/organizations/{api.organization}/instances?q={instance}")).text
    assert "To be destroyed" in listed
    assert "destroyed it" not in waiting
    assert isinstance(await post(visitor, f"{path}/undo-destroy"), httpx.Response)
    page = await get(visitor, path)
    assert "undo-destroy" not in page.text
    assert "Launchbay destroys the instance." in page.text, "its end by its lifetime, in the section on it"
    again = await post(visitor, f"{path}/undo-destroy")
    assert isinstance(again, Page)
    assert again.status == 409


async def test_a_scheduled_destroy_is_shown_as_the_end_of_the_instance_and_of_its_submodule(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(PARENT % await api.application("launch: {steps: []}"), destroyInterval=-1)
    [inner] = [each["instanceId"] for each in (await api.document(instance))["components"]]
    number = accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": 7_200_000}))["id"]
    path = f"/console/instances/{instance}"
    shown, of_inner = (await get(visitor, path)).text, (await get(visitor, f"/console/instances/{inner}")).text
    said = "It is scheduled; to keep the instance, cancel that schedule."
    assert said in shown
    assert said in of_inner
    assert re.search(r"Expires in \d+ h \d+ min with its parent", of_inner)
    assert re.search(r"Destroyed in \d+ h \d+ min, at", shown)
    assert re.search(r"Destroyed in \d+ h \d+ min with its parent, at", of_inner)
    assert "undo-destroy" not in shown + of_inner
    month = (await get(visitor, f"/console/organizations/{api.organization}/schedules?view=list&q={instance}")).text
    assert "expires" not in month, "the destroy is in the list, and no expiry at the same time"
    assert isinstance(await post(visitor, f"{path}/reschedule", schedule=number, do="cancel"), httpx.Response)
    for each in (path, f"/console/instances/{inner}"):
        assert "Destroyed in" not in (await get(visitor, each)).text


@pytest.mark.features("lifetimes")
async def test_a_lifetime_that_ends_before_a_destroy_that_waits_is_when_it_is_destroyed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application("launch: {steps: []}")
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": 7_200_000}))
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    at = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    path = f"/console/instances/{instance}"
    coming = (await get(visitor, path)).text
    assert "requested this" in coming
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": at - 3_600_000}))
    text = " ".join((await get(visitor, path)).text.split())
    assert re.search("Destroyed in (59 min|1 h), at", text)
    assert "requested a destroy. Its lifetime ends then, before the destroy that waits until" in text


@pytest.mark.features("sleep_windows")
async def test_a_sleep_window_is_shown_and_the_instance_kept_awake(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application("launch: {steps: []}\nstop: {steps: []}\nstart: {steps: []}")
    windows = [{"sleepAt": "20:00", "wakeAt": "07:00"}]
    accepted(await api.put(f"applications/{application}/sleep", {"windows": windows}))
    instance = await api.launch(application, destroyInterval=-1)
    await api.until(instance, "Running")
    path = f"/console/instances/{instance}"
    assert "Launchbay stops the instance." in (await get(visitor, path)).text
    assert isinstance(await post(visitor, f"{path}/awake", hours="12"), httpx.Response)
    assert "Kept awake" in (await get(visitor, path)).text
    assert isinstance(await post(visitor, f"{path}/awake", hours="0"), httpx.Response)
    assert "Kept awake" not in (await get(visitor, path)).text
    assert isinstance(await post(visitor, f"{path}/awake", hours="1"), Page)
    # As if a window had begun.
    async with api.database.transaction() as connection:
        sent_to_sleep = "UPDATE instance_sleeps SET is_asleep = true, since = now() WHERE instance_id = %s"
        await connection.execute(sent_to_sleep, [instance])
    assert "Wake up" in (await get(visitor, path)).text
    listed = await get(visitor, f"/console/organizations/{api.organization}/instances?q={instance}")
    assert 'class="st plain stop"' in listed.answer.text
    assert "Sleeping" in listed.text
    assert 'class="st pill stop"' in (await get(visitor, path)).answer.text
    assert isinstance(await post(visitor, f"{path}/awake", hours="2"), httpx.Response)


async def test_every_tab_is_a_page_with_the_same_head(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    path = f"/console/instances/{instance}"
    overview = await get(visitor, path)
    tabs = re.findall(
        rf'<a href="({path}[^"]*)"[^>]*>(?:Overview|Runs|Configuration|Signals|Schedules|Activity|Settings)',
        overview.answer.text,
    )
    assert tabs == [
        path,
        *(f"{path}/{tab}" for tab in ("runs", "configuration", "signals", "schedules", "activity", "settings")),
    ]
    for tab in tabs:
        page = await get(visitor, tab)
        assert page.status == 200
        current = re.search(
            r'<nav class="views" aria-label="Instance">.*?href="([^"]+)" aria-current="page"', page.answer.text
        )
        assert current is not None
        assert current[1] == tab
        assert page.tags.count("h1") == 1


async def test_the_page_of_thirty_components_fits_its_budget(api: Api, visitor: httpx.AsyncClient) -> None:
    """DESIGN: 12 KB of HTML, compressed, and 5,000 nodes."""
    instance = await api.running(many_components(30))
    for path in ("", "/components", "/components?view=list", "/configuration", "/runs"):
        answer = await visitor.get(f"/console/instances/{instance}{path}")
        assert len(gzip.compress(answer.content)) <= 12_000, path
        assert len(Page(answer).tags) <= 5_000, path
    assert "30 of 30 components running" in (await visitor.get(f"/console/instances/{instance}")).text


async def test_labels_are_saved_and_a_wrong_one_is_said(api: Api, visitor: httpx.AsyncClient, instance: str) -> None:
    path = f"/console/instances/{instance}"
    answer = await post(visitor, f"{path}/labels", labels="team=quay  tier=1 urgent")
    assert isinstance(answer, httpx.Response)
    assert (await api.document(instance))["labels"] == {"team": "quay", "tier": "1", "urgent": ""}
    refused = await post(visitor, f"{path}/labels", labels="team=a=b")
    assert isinstance(refused, Page)
    assert refused.status == 400
    assert 'value="team=a=b"' in refused.answer.text
    assert "team=quay" in (await get(visitor, path)).text


async def test_activity_says_who_did_what(visitor: httpx.AsyncClient, instance: str) -> None:
    await post(visitor, f"/console/instances/{instance}/userData", userData='{"owner": "Ada"}')
    page = await get(visitor, f"/console/instances/{instance}/activity")
    text = " ".join(page.text.split())
    assert "changed its notes" in text
    assert "owner was set" in text
    assert "launched it" in text
    assert "input.name was set" in text
    assert "Notes: owner" in text
    assert "Status: In progress → Running" in text


async def test_who_may_not_see_the_audit_log_still_sees_what_changed(api: Api, instance: str) -> None:
    role = {"name": fresh_name("reader"), "permissions": "- Read: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    reader = await person(api, role["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/instances/{instance}/activity")
    assert page.status == 200
    assert "Status: In progress → Running" in page.text
    assert "launched it" not in page.text


async def test_a_component_has_a_card(visitor: httpx.AsyncClient, instance: str) -> None:
    answer = await visitor.get(f"/console/instances/{instance}/components/card?focus=web")
    assert answer.status_code == 200
    text = words_of(answer.text)
    assert "Status Running Type Workflow" in text
    assert "<html" not in answer.text


async def test_an_address_with_names_that_do_not_exist_shows_the_whole(
    visitor: httpx.AsyncClient, instance: str
) -> None:
    query = "open=nothing,%3Cb%3E&focus=nobody&group=color&only=x&q=%3Ci%3E&view=list&first=abc"
    page = await get(visitor, f"/console/instances/{instance}/components?{query}")
    assert page.status == 200
    assert "<i>" not in page.answer.text


async def test_a_cancelled_run_is_told_as_cancelled_and_not_as_failed(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(
        "launch: {steps: []}\nrest: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}\n"
    )
    accepted(await api.post(f"instances/{instance}/rest", {}))
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)
    page = await get(visitor, f"/console/instances/{instance}")
    assert "The last run was cancelled" in page.text
    assert "rest #2 failed" not in page.text
    assert "The last run failed" not in page.text
    assert "Go to the failure" not in page.text
    query = "instances?q=last-run:cancelled"
    listed = (await get(visitor, f"/console/organizations/{api.organization}/{query}")).answer.text
    assert re.search(r'<a class="soft ell xs"[^>]*title="Cancelled by ', listed)


async def test_a_failure_before_the_last_run_is_told_as_an_earlier_one(api: Api, visitor: httpx.AsyncClient) -> None:
    fails = "restcall, parameters: {command: 'ftp://nowhere.example'}"
    manifest = f"launch: {{steps: []}}\nfails: {{steps: [{{ask: {{action: {fails}}}}}]}}\nrest: {{steps: []}}\n"
    instance = await api.running(manifest)
    accepted(await api.post(f"instances/{instance}/fails", {}))
    await api.settled(instance)
    assert "The last run failed" in (await get(visitor, f"/console/instances/{instance}")).text
    accepted(await api.post(f"instances/{instance}/rest", {}))
    await api.settled(instance)
    text = (await get(visitor, f"/console/instances/{instance}")).text
    assert "The last run failed" not in text
    assert "An earlier run failed" in text


async def test_the_newest_run_is_that_with_the_highest_number(api: Api, visitor: httpx.AsyncClient) -> None:
    """The time of a job is when its transaction began, which may have waited for another one that began a job."""
    instance = await api.running(
        "launch: {steps: []}\nfine: {steps: [{ease: {action: wait, parameters: {delay: 0}}}]}\n"
        "odd: {steps: [{slip: {action: serialize, parameters: {input: 1, format: XLS, ignoreFail: true}}},"
        " {fall: {action: serialize, precedingPhases: [slip], parameters: {input: 1, format: XLS}}}]}\n"
    )
    for workflow in ("fine", "odd"):
        await api.run(instance, workflow)
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE jobs SET created_at = created_at - interval '1 hour' WHERE instance_id = %s AND name = 'odd'",
            [instance],
        )
    page = await get(visitor, f"/console/instances/{instance}")
    assert "Failed, ignored" in page.text, "the steps of `odd`, as its records say"
    odd = next(each for each in accepted(await api.get(f"instances/{instance}/jobs")) if each["name"] == "odd")
    accepted(await api.post(f"instances/{instance}/jobs/{odd['id']}/resume", {}))


async def test_steps_that_were_skipped_or_not_reached_are_not_told_as_succeeded(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running(
        """
launch: {steps: []}
round:
  steps:
    - left-out: {action: wait, when: "1 > 2", parameters: {delay: 0}}
    - fall: {action: serialize, parameters: {input: 1, format: NOTHING}}
    - after: {action: wait, precedingPhases: [fall], parameters: {delay: 0}}
"""
    )
    accepted(await api.post(f"instances/{instance}/round", {}))
    await api.settled(instance)
    last_run = (await get(visitor, f"/console/instances/{instance}")).answer.text.partition('<ol class="steps">')[2]
    shown = [words_of(each) for each in last_run.partition("</ol>")[0].split("<li ")[1:]]
    assert [each.split()[-1] for each in shown] == ["Skipped", "Failed", "Skipped"]
    assert "<progress" not in last_run
    assert last_run.partition("</li>")[0].count("g-skip-s") == 1
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    plan = await get(visitor, f"/console/instances/{instance}/jobs/{job}?tab=plan")
    rows = words_of(plan.answer.text.partition("<tbody data-rows>")[2].partition("</tbody>")[0])
    assert re.findall(r"Skipped|Failed|Not run|Succeeded", rows) == ["Skipped", "Failed", "Not run"]
    assert "1 step was not run." in plan.text


async def test_a_role_for_one_application_opens_its_instances_and_runs(api: Api) -> None:
    instance = await api.running(MANIFEST, parameters={"input.name": "box"})
    document = accepted(await api.get(f"instances/{instance}"))
    application, environment = document["applicationId"], document["environmentId"]
    name = fresh_name("one application")
    text = f"- Read: [/applications/{application}, /applications/{application}/*]\n"
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    reader = await person(api, name)
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        for tab in ("", "/runs", "/configuration", "/signals", "/schedules", "/activity", "/settings", f"/jobs/{job}"):
            page = await get(client, f"/console/instances/{instance}{tab}")
            assert page.status == 200, tab
            assert f"/console/environments/{environment}" not in page.answer.text, tab
        page = await get(client, f"/console/instances/{instance}")
        assert f'href="/console/applications/{application}"' in page.answer.text
        row = next(
            row
            for row in accepted(await api.get(f"organizations/{api.organization}/environments"))
            if row["id"] == environment
        )
        assert row["name"] in page.text
        assert (await get(client, f"/console/environments/{environment}")).status == 403


async def test_who_launched_an_instance_is_named_without_permission_to_read_users(api: Api, instance: str) -> None:
    name = fresh_name("no users")
    text = "- Read: [/applications/*, /environments/*]\n"
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    reader = await person(api, name)
    owner = accepted(await api.get(f"instances/{instance}"))["ownerId"]
    users = accepted(await api.get(f"organizations/{api.organization}/users"))
    [launcher] = [each["name"] for each in users if each["id"] == owner]
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/instances/{instance}")
    assert "deleted user" not in page.text
    assert f"by {launcher}" in page.text


@pytest.mark.slow  # serves the application on a socket: a stream needs one
async def test_a_stream_brings_the_newest_lines_of_the_log_at_once_however_many_there_are(
    api: Api, visitor: httpx.AsyncClient, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_page, "_LINES_KEPT", 600)
    page = await get(visitor, f"/console/instances/{instance}")
    [address] = re.findall(r'sse-connect="([^"]+)"', page.answer.text)
    [job, *_] = [each["id"] for each in (await api.document(instance))["workflowHistory"]]
    with psycopg.connect(api.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO log_lines (instance_id, job_id, level, text, at)"
            " SELECT %s, %s, 'info', 'row ' || number, now() FROM generate_series(1, 1000) AS number",
            [instance, job],
        )
    found: list[int] = []
    async with (
        served(api) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", cookies=dict(visitor.cookies), timeout=5) as client,
        client.stream("GET", html.unescape(address)) as answer,
    ):
        async for line in answer.aiter_lines():
            found += map(int, re.findall(r"row (\d+)<", line))
            if found[-1:] == [1000]:
                break
    assert found == list(range(401, 1001))


FRAGILE = """
application:
  interfaces: {input: {size: bind(web#input.size)}}
  configuration: {input.size: 0}
  components:
    web:
      type: workflow.Instance
      interfaces: {input: {size: configuration(int)}}
      configuration:
        configuration.triggers: {input.size: update}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {steps: []}
          update: {steps: [{stop: {action: wait, parameters: {delay: "{$.size}"}}}]}
"""


@pytest.mark.features("generations")
async def test_a_rollback_of_launchbay_itself_is_not_told_as_the_act_of_a_person(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application(FRAGILE)
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": -1}}))
    await eventually(lambda: api.settled(instance), lambda found: len(found["workflowHistory"]) >= 3)
    said = words_of((await get(visitor, f"/console/instances/{instance}/activity")).answer.text)
    assert "Launchbay rolled it back automatically, because the change failed" in said
    assert "Administrator rolled it back" not in said
