"""The page of an instance."""

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
