"""The page of an instance."""

import asyncio
import re

import httpx
import pytest

from tests.support.manifests import FAILING_LATE
from tests.support.pages import ORIGIN, get
from tests.support.service import Api, accepted, fresh_name, person, refused


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def test_a_page_shows_the_last_failure_with_its_job_until_a_reconfiguration_succeeds(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    broken = FAILING_LATE.replace("launch", "break")
    instance = await api.running(f"launch: {{steps: []}}\nfine: {{steps: []}}\n{broken}")
    await api.run(instance, "break")
    document = await api.run(instance, "fine")
    page = await get(visitor, f"/console/instances/{instance}")
    assert document["errorMessage"] in page.text
    assert "The last run failed: break #2 stopped at " in " ".join(page.text.split())
    assert f"/console/instances/{instance}/jobs/{document['lastFailure']['jobId']}" in page.links
    await api.put(f"instances/{instance}/configuration", {})
    await api.settled(instance)
    assert "The last run failed" not in (await get(visitor, f"/console/instances/{instance}")).text


async def test_the_palette_answers_with_names_that_begin_with_the_text_first(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    word = fresh_name("harbour").replace(" ", "-")
    for name in (f"old {word}", f"{word} <b>shop</b>"):
        accepted(await api.post(f"organizations/{api.organization}/applications", {"name": name}))
    answer = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": word.upper()})
    assert answer.status_code == 200
    assert answer.text.index(f"{word} &lt;b&gt;shop") < answer.text.index(f"old {word}")
    assert "<html" not in answer.text
    sections = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": "webh"})
    assert re.findall(r'data-href="([^"]+)"', sections.text) == [f"/console/organizations/{api.organization}/webhooks"]
    nothing = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": f"{word}!"})
    assert "Nothing matches" in nothing.text


async def test_the_palette_has_commands_with_their_objects(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Trawler").replace(" ", "-")
    application = await api.application(f"launch: {{steps: []}}\n{FAILING_LATE.replace('launch', 'break')}", name)
    instance = await api.launch(application, instanceName=f"{name}-1")
    await api.settled(instance)
    job = (await api.run(instance, "break"))["lastFailure"]["jobId"]

    async def offered(text: str) -> dict[str, str]:
        answer = await visitor.get(f"/console/organizations/{api.organization}/jump", params={"q": text})
        found = re.findall(r'<li role="option"[^>]*data-(?:href|fill)="([^"]+)">.*?<span>([^<]+)', answer.text)
        return {words: target for target, words in found}

    assert (await offered(f"launch {name[:9]}"))[f"Launch {name}"] == f"/console/applications/{application}/launch"
    opened = await offered(f"open {name}")
    assert opened[f"Open {name}"] == f"/console/applications/{application}"
    assert opened[f"Open {name}-1"] == f"/console/instances/{instance}"
    assert await offered(f"resume {name}") == {
        f"Resume {name}-1": f"/console/instances/{instance}/jobs/{job}?do=resume"
    }
    assert await offered(f"log {name}") == {
        f"Show log of {name}-1": f"/console/instances/{instance}/jobs/{job}/log/failure"
    }
    assert (await offered("laun"))["Launch…"] == "launch "
    named = await offered(name)
    assert list(named)[:2] == [f"{name}-1", name]
    assert named[f"Launch {name}"] == f"/console/applications/{application}/launch"


async def test_an_instance_whose_last_run_failed_is_degraded_everywhere(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(f"launch: {{steps: []}}\n{FAILING_LATE.replace('launch', 'break')}")
    name = fresh_name("Tender").replace(" ", "-")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    job = (await api.run(instance, "break"))["lastFailure"]["jobId"]
    listed = await get(visitor, f"/console/organizations/{api.organization}/instances?q={name}")
    assert "Degraded" in listed.answer.text.partition("<tbody>")[2]
    assert f"/console/instances/{instance}/jobs/{job}/log/failure" in listed.links
    page = await get(visitor, f"/console/instances/{instance}")
    assert "Degraded" in page.answer.text.partition('id="state"')[2].partition("</h")[0][:600]
    of_application = await get(visitor, f"/console/applications/{application}")
    assert "Degraded" in of_application.text


async def test_a_component_that_failed_and_is_busy_again_counts_once(api: Api, visitor: httpx.AsyncClient) -> None:
    rest = "rest: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}"
    application = await api.application(f"{FAILING_LATE}\n{rest}")
    name = fresh_name("Cutter").replace(" ", "-")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/rest", {}))
    path = f"/console/organizations/{api.organization}/instances?q={name}"
    async with asyncio.timeout(20):
        while "1 in progress" not in (text := (await get(visitor, path)).answer.text):
            await asyncio.sleep(0.05)
    assert "0 of 1 components running, 1 in progress" in text
    assert 'width="-' not in text


async def test_pages_of_the_account_keep_the_navigation_of_the_organization(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    home = f"/console/organizations/{api.organization}"
    await get(visitor, home)
    for path in ("/console/account", "/console/account/accessTokens", "/console/organizations"):
        page = await get(visitor, path)
        assert f"{home}/instances" in page.links, path
        assert f'data-home="{home}"' in page.answer.text, path


async def test_a_person_keeps_views_of_the_list_for_themselves(api: Api, visitor: httpx.AsyncClient) -> None:
    home = f"/console/organizations/{api.organization}"
    name = fresh_name("<b>view")
    page = await get(visitor, f"{home}/instances?q=status:failed+label:team%3Dquay")
    form = {"formToken": page.fields["formToken"], "name": name, "q": "status:failed label:team=quay", "sort": "name"}
    saved = await visitor.post(f"{home}/views", data={**form, "do": "save"}, headers={"Origin": ORIGIN})
    assert saved.status_code == 303
    views = accepted(await api.get(f"organizations/{api.organization}/views"))["views"]
    assert {"name": name, "query": "status:failed label:team=quay", "of": "instances", "sort": "name"} in views
    shown = await get(visitor, saved.headers["location"])
    assert name in shown.text
    assert "Remove view" in shown.text
    someone = await person(api, "Guest")
    assert accepted(await someone.at(api).get(f"organizations/{api.organization}/views")) == {"views": []}
    for fields in ({"name": ""}, {"name": "x" * 61}):
        wrong = await visitor.post(f"{home}/views", data={**form, "do": "save", **fields}, headers={"Origin": ORIGIN})
        assert wrong.status_code == 400
    await visitor.post(f"{home}/views", data={**form, "do": "remove"}, headers={"Origin": ORIGIN})
    left = accepted(await api.get(f"organizations/{api.organization}/views"))["views"]
    assert name not in {each["name"] for each in left}


async def test_views_have_names_of_their_own_and_a_bound(api: Api) -> None:
    path = f"organizations/{api.organization}/views"
    twice = [{"name": "a", "query": "x"}, {"name": "a", "query": "y"}]
    refused(await api.put(path, {"views": twice}), 400)
    refused(await api.put(path, {"views": [{"name": str(each), "query": ""} for each in range(51)]}), 400, "TooMany")
    refused(await api.put(path, {"views": [{"name": "", "query": ""}]}), 400)
    both = [{"name": "a", "query": "x"}, {"name": "a", "query": "y", "of": "runs"}]
    accepted(await api.put(path, {"views": both}))
    assert [each["of"] for each in accepted(await api.get(path))["views"]] == ["instances", "runs"]
    accepted(await api.put(path, {"views": []}))
