"""The start page of an organization."""

import re

import httpx
import pytest

from launchbay.pages import overview
from tests.support.applications import until_step
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_LATE
from tests.support.pages import ORIGIN, browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person

DAY_MS = 86_400_000
BREAKS = FAILING_LATE.replace("launch", "break")


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def _environment(api: Api) -> str:
    """Make an environment of its own, so that other tests' instances don't count."""
    created = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("sea")}))
    return str(created["id"])


async def test_the_overview_compares_the_launches_of_two_weeks(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running("launch: {steps: []}\n")
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE fleet_jobs SET created_at = now() - interval '10 days', finished_at = now() - interval '9 days'"
            " WHERE instance_id = %s",
            [instance],
        )
    await api.running("launch: {steps: []}\n")
    page = await get(visitor, f"/console/organizations/{api.organization}")
    assert re.search(r"Median launch [\d.]+ m?s this week, (1 d|2\d h.*) faster than last", page.text)


async def test_the_overview_names_what_is_broken_with_its_reason_and_its_run(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await _environment(api)
    application = await api.application(f"launch: {{steps: []}}\n{BREAKS}")
    fine = await api.launch(application, environmentId=environment)
    degraded = await api.launch(application, environmentId=environment)
    failed = await api.launch(await api.application(FAILING_LATE.replace("call:", "probe:")), environmentId=environment)
    for instance in (fine, degraded, failed):
        await api.settled(instance)
    document = await api.run(degraded, "break")
    page = await get(visitor, f"/console/organizations/{api.organization}?environment={environment}")
    assert page.status == 200
    assert re.search(r"1 failed\s*of 3 instances", page.text)
    assert "1 degraded" in page.text
    broken = page.answer.text.partition('id="h-broken"')[2].partition("</section>")[0]
    assert f"/console/instances/{fine}" not in broken
    assert broken.index(f"/console/instances/{failed}") < broken.index(f"/console/instances/{degraded}")
    for instance in (degraded, failed):
        [job] = re.findall(rf'href="/console/instances/{instance}/jobs/(\w+)/log/failure"', broken)
        assert f'action="/console/instances/{instance}/jobs/{job}/resume"' in broken
    assert document["errorMessage"].rpartition("failed: ")[2] in page.text


async def test_an_environment_is_not_healthy_while_an_instance_is_destroyed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await _environment(api)
    slow = "destroy: {steps: [{drain: {action: wait, parameters: {delay: 3600}}}]}\n"
    instance = await api.launch(await api.application(f"launch: {{steps: []}}\n{slow}"), environmentId=environment)
    await api.settled(instance)
    own, listed = f"/console/environments/{environment}", f"/console/organizations/{api.organization}/environments"
    assert "All healthy" in (await get(visitor, own)).text
    accepted(await api.post(f"instances/{instance}/destroy"))
    page = await get(visitor, own)
    assert "1 of 1 in progress" in page.text
    assert "All healthy" not in page.text
    [row] = re.findall(
        rf"<tr>(?:(?!</tr>).)*{environment}.*?</tr>", (await get(visitor, listed)).answer.text, re.DOTALL
    )
    assert "1 in progress</span>" in row


async def test_a_run_in_progress_shows_its_step_its_time_and_how_long_it_usually_takes(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await _environment(api)
    step = "read: {action: wait, parameters: {delay: '{$.pace} ms'}}"
    copy = f"copy:\n  parameters: [{{pace: {{default: 20}}}}]\n  steps: [{{{step}}}]\n"
    application = await api.application(f"launch: {{steps: []}}\n{copy}")
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    await api.run(instance, "copy")
    accepted(await api.post(f"instances/{instance}/copy", {"pace": 60_000}))
    home = f"/console/organizations/{api.organization}?environment={environment}"
    page = await eventually(lambda: get(visitor, home), lambda page: "· read" in page.text)
    running = page.answer.text.partition('id="h-now"')[2].partition("</section>")[0]
    assert re.search(r">usually [\d.]+ m?s<", running)
    assert "<rect" not in running, "a share of the time would differ from the share of steps that the job has"
    assert re.search(r'data-since="\d+">[\d.]+ s<', running)


async def test_a_day_more_moves_the_expiry_from_where_it_was(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = await _environment(api)
    application = await api.application("launch: {steps: []}\n")
    instance = await api.launch(application, environmentId=environment, destroyInterval=DAY_MS // 2)
    await api.settled(instance)
    home = f"/console/organizations/{api.organization}?environment={environment}"
    page = await get(visitor, home)
    assert "1 expires in 24 h" in page.text
    assert f"/console/instances/{instance}" in page.answer.text.partition('id="h-exp"')[2]
    before = (await api.document(instance))["destroyAt"]
    form = {"formToken": page.fields["formToken"], "lifetime": "+1d", "back": home}
    answer = await visitor.post(f"/console/instances/{instance}/lifetime", data=form, headers={"Origin": ORIGIN})
    assert (answer.status_code, answer.headers["location"]) == (303, home)
    assert (await api.document(instance))["destroyAt"] == before + DAY_MS
    assert 'id="h-exp"' not in (await get(visitor, home)).answer.text
    never = await api.launch(application, destroyInterval=-1)
    await api.settled(never)
    refused = await visitor.post(f"/console/instances/{never}/lifetime", data=form, headers={"Origin": ORIGIN})
    assert refused.status_code == 400
    assert (await api.document(never)).get("destroyAt") in (None, -1)


async def test_a_day_more_says_what_ends_the_instance_all_the_same(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running("launch: {steps: []}\n", destroyInterval=DAY_MS // 2)
    path = f"/console/instances/{instance}"
    form = {"formToken": (await get(visitor, path)).fields["formToken"], "lifetime": "+1d", "back": path}
    for said in ("Expiry saved.", "Expiry saved. The instance is destroyed at "):
        answer = await visitor.post(f"{path}/lifetime", data=form, headers={"Origin": ORIGIN})
        assert answer.status_code == 303
        shown = (await get(visitor, path)).text
        assert said in shown
        assert ("Expiry saved. The instance" in shown) == (said != "Expiry saved.")
        accepted(await api.post(f"instances/{instance}/destroy/schedule", {"interval": DAY_MS // 4}))


@pytest.mark.features("recurring")
async def test_the_navigation_counts_the_approvals_that_wait_for_the_user(api: Api, visitor: httpx.AsyncClient) -> None:
    asks = '{steps: [{sign: {action: approval, parameters: {text: "Open the sluice?"}}}]}'
    instance = await api.running(f"launch: {{steps: []}}\nask: {asks}\n")
    home = f"/console/organizations/{api.organization}"
    accepted(await api.post(f"instances/{instance}/ask", {}))
    await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    overview = await get(visitor, home)
    waiting = overview.answer.text.partition('id="h-wait"')[2].partition("</section>")[0]
    assert "Open the sluice?" in waiting
    labels = {"act": "label", "ids": [instance], "labels": {"a": "b"}}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", labels))["id"]
    pages = [overview, await get(visitor, f"{home}/environments"), await get(visitor, f"{home}/bulk/{bulk}")]
    for page in pages:
        assert re.search(r"Approvals</span> <span class=\"count wait\">1<", page.answer.text)


async def test_the_applications_show_how_their_instances_are(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = await _environment(api)
    shared = fresh_name("shown")
    broken = await api.application(FAILING_LATE, f"{shared} broken")
    unused = await api.application("launch: {steps: []}\n", f"{shared} unused")
    await api.settled(await api.launch(broken, environmentId=environment))
    page = await get(visitor, f"/console/organizations/{api.organization}/applications?q={shared}")
    rows = {
        each: page.answer.text.partition(f'/console/applications/{each}"')[2].partition("</tr>")[0]
        for each in (broken, unused)
    }
    assert f'application={broken}">1<' in rows[broken]
    assert "1 failed" in rows[broken]
    assert "No instances" in rows[unused]


async def test_an_environment_keeps_its_last_runs_while_others_run_more(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_LOOKED_AT_JOBS", 1)
    quiet, busy = await _environment(api), await _environment(api)
    broken = await api.application(FAILING_LATE)
    for instance in [await api.launch(broken, environmentId=quiet) for _ in range(4)]:
        await api.settled(instance)
    await api.settled(await api.launch(await api.application("launch: {steps: []}\n"), environmentId=busy))
    name = accepted(await api.get(f"environments/{quiet}/name"))["name"]
    shown = await get(visitor, f"/console/organizations/{api.organization}")
    assert f'aria-label="Last runs in {name}: 4 of 4 failed"' in shown.answer.text


@pytest.mark.features("bulk")
async def test_equal_failures_are_one_line_that_resumes_all_of_them(api: Api, visitor: httpx.AsyncClient) -> None:
    environment, application = await _environment(api), await api.application(f"launch: {{steps: []}}\n{BREAKS}")
    names = [fresh_name("quay") for _ in range(3)]
    made = [await api.launch(application, instanceName=name, environmentId=environment) for name in names]
    for instance in made:
        await api.settled(instance)
        await api.run(instance, "break")
    home = f"/console/organizations/{api.organization}"
    page = await get(visitor, f"{home}?environment={environment}")
    broken = page.answer.text.partition('id="h-broken"')[2].partition("</section>")[0]
    assert broken.count('<li class="r-broken"') == 1
    assert "3 instances" in broken
    assert all(name in broken for name in names)
    assert re.search(r'class="quiet">(First [^<]*, last )?[^<]*(ago|now)<', broken)
    [path] = re.findall(r'action="([^"]*/failures/[0-9a-f]{24})"', broken)
    sent = {"formToken": page.fields["formToken"], "environment": environment}
    assert f'name="environment" value="{environment}"' in broken, "others with this failure aren't on the page"
    answer = await visitor.post(path, data=sent)
    assert answer.status_code == 303, answer.text
    bulk = answer.headers["location"].rpartition("/")[2]
    rows = accepted(await api.get(f"bulk/{bulk}/instances"))
    assert [row["instanceId"] for row in rows] == made
    gone = await visitor.post(f"{home}/failures/{'0' * 24}", data={"formToken": page.fields["formToken"]})
    assert (gone.status_code, "No instance has this failure now" in gone.text) == (404, True)


@pytest.mark.features("bulk")
async def test_a_failure_can_be_resumed_where_no_other_job_has_failed_since(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await _environment(api)
    application = await api.application(f"{FAILING_LATE}{BREAKS.replace('call:', 'crack:')}")
    made = [await api.launch(application, environmentId=environment) for _ in range(3)]
    for instance in made:
        await api.settled(instance)
    shown = f"/console/organizations/{api.organization}?environment={environment}"

    async def broken() -> str:
        return (await get(visitor, shown)).answer.text.partition('id="h-broken"')[2].partition("</section>")[0]

    await api.run(made[0], "break")
    assert "Resume all 2 that you may" in await broken()
    for instance in made[1:]:
        await api.run(instance, "break")
    text = await broken()
    assert "3 instances" in text
    assert "Failed at <b>call</b>" in text
    assert "<form" not in text, "resuming would run break again, of which this doesn't speak"
    for instance in made[1:]:
        await api.run(instance, "destroy")
    text = await broken()
    assert "launch failed at <b>call</b>" in text
    assert "<form" not in text


async def test_a_cancelled_command_is_not_what_made_instances_failed(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = await _environment(api)
    nap = "{steps: [{nap: {action: wait, parameters: {delay: 600}}}]}"
    application = await api.application(f"{FAILING_LATE}rest: {nap}\n")
    made = [await api.launch(application, environmentId=environment) for _ in range(2)]
    for instance in made:
        await api.settled(instance)
        accepted(await api.post(f"instances/{instance}/rest", {}))
        job = await until_step(api, instance, "nap", "Executing")
        accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))
        await api.settled(instance)
    page = await get(visitor, f"/console/organizations/{api.organization}?environment={environment}")
    broken = page.answer.text.partition('id="h-broken"')[2].partition("</section>")[0]
    assert "2 instances" in broken
    assert "Failed at <b>call</b>" in broken
    assert "Cancelled in" not in broken


async def test_who_may_not_resume_an_instance_gets_the_reason_for_each(api: Api) -> None:
    application = await api.application(f"launch: {{steps: []}}\n{BREAKS}")
    environment = await _environment(api)
    for _ in range(2):
        instance = await api.launch(application, environmentId=environment)
        await api.settled(instance)
        await api.run(instance, "break")
    guest = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": guest.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/organizations/{api.organization}?environment={environment}")
        assert "2 instances" in page.answer.text
        assert "/failures/" not in page.answer.text, "no button for what the person may not do"
