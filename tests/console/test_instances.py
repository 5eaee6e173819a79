"""The page of an instance."""

import asyncio
import csv
import html
import io
import re

import httpx
import pytest

from launchbay.pages import instances
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_LATE
from tests.support.pages import ORIGIN, browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person, refused


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
    assert "An earlier run failed: break #2 stopped at " in " ".join(page.text.split())
    assert f"/console/instances/{instance}/jobs/{document['lastFailure']['jobId']}" in page.links
    await api.put(f"instances/{instance}/configuration", {})
    await api.settled(instance)
    assert "run failed" not in (await get(visitor, f"/console/instances/{instance}")).text


async def test_lists_leave_out_destroyed_instances_and_say_how_many(api: Api, visitor: httpx.AsyncClient) -> None:
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("sea")}))
    environment, application = str(made["id"]), await api.application("launch: {steps: []}\n")
    alive, *gone = [await api.launch(application, environmentId=environment) for _ in range(3)]
    await asyncio.gather(*map(api.settled, (alive, *gone)))
    for instance in gone:
        await api.run(instance, "destroy")
    organization = f"/console/organizations/{api.organization}/instances"
    pages = (
        f"/console/applications/{application}",
        f"/console/environments/{environment}",
        f"{organization}?environment={environment}",
        f"{organization}?application={application}",
    )
    for path in pages:
        page = await get(visitor, path)
        shown = {each for each in (alive, *gone) if f"/console/instances/{each}" in page.links}
        assert shown == {alive}, path
        [more] = [
            html.unescape(href) for href in re.findall(r'href="([^"]+)">Show destroyed \(2\)</a>', page.answer.text)
        ]
        others = await get(visitor, more)
        assert {each for each in gone if f"/console/instances/{each}" in others.links} == set(gone)
        rows = re.findall(r"<tr>(?:(?!</tr>).)*?</tr>", others.answer.text, re.DOTALL)
        statuses = [re.findall(r'class="st plain (\w+)"', row)[0] for row in rows if any(each in row for each in gone)]
        assert statuses == ["gone", "gone"], "nor are they shown as well"
    await api.run(alive, "destroy")
    for path in pages[:2]:
        assert "are destroyed." in (await get(visitor, path)).text


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
    body = {"name": fresh_name("tow"), "instanceId": instance}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    shelf: dict[str, object] = {
        "name": fresh_name("Tenders"),
        "typeId": "builtin:shared_instances_catalog",
        "parameters": {"configuration.shared-instances": {revision: instance}},
    }
    catalog = accepted(await api.post(f"organizations/{api.organization}/services", shelf))["id"]
    assert "Degraded" in (await get(visitor, f"/console/services/{catalog}")).text


async def test_a_component_that_failed_and_is_busy_again_counts_once(api: Api, visitor: httpx.AsyncClient) -> None:
    rest = "rest: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}"
    application = await api.application(f"{FAILING_LATE}\n{rest}")
    name = fresh_name("Cutter").replace(" ", "-")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/rest", {}))
    path = f"/console/organizations/{api.organization}/instances?q={name}"
    text = (
        await eventually(lambda: get(visitor, path), lambda found: "1 in progress" in found.answer.text)
    ).answer.text
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


async def test_owners_and_labels_are_facets(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("sloop").replace(" ", "-")
    application = await api.application("launch: {steps: []}\n")
    for number, labels in enumerate(({"team": "quay"}, {"team": "mill", "tier": ""})):
        instance = await api.launch(application, instanceName=f"{name}-{number}")
        accepted(await api.put(f"instances/{instance}/labels", labels))
    home = f"/console/organizations/{api.organization}/instances"
    page = await get(visitor, f"{home}?q={name}")
    facets = page.answer.text.partition("facets")[2].partition("</form>")[0]
    assert "team=quay" in facets
    assert "label%3Atier%3D" in facets
    assert "owner%3Ame" in facets
    assert 'title="team, tier">+1</span>' in page.answer.text, "a row shows one label, and how many more there are"
    assert f"{name}-1" not in (await get(visitor, f"{home}?q={name}+label:team%3Dquay")).text
    mine = await get(visitor, f"{home}?q={name}+owner:me")
    assert f"{name}-0" in mine.text
    someone = await person(api, "Guest")
    theirs = await visitor.get(f"{home}?q={name}+owner:%22{someone.email}%22")
    assert (theirs.status_code, "so nothing is shown" in theirs.text) == (400, True), "people are found by their names"


async def test_the_menu_of_a_row_offers_what_the_person_may_do(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.launch(await api.application("launch: {steps: []}\nsail: {steps: []}\n"))
    await api.settled(instance)
    here = f"/console/instances/{instance}"
    home = f"/console/organizations/{api.organization}/instances"
    [opener] = re.findall(r"<a [^>]*data-row-menu[^>]*>", (await get(visitor, f"{home}?q={instance}")).answer.text)
    assert f'href="{here}"' in opener
    menu = await get(visitor, f"{here}/menu?back={home}")
    assert 'form="row-extend" name="lifetime"' in menu.answer.text
    assert {f"{here}/run", f"{here}/configuration", f"{here}/end", f"{here}/settings#labels"} <= set(menu.links)
    [log] = [each for each in menu.links if each.endswith("#log")]
    assert (await visitor.get(log)).status_code == 200
    before = (await api.document(instance))["destroyAt"]
    sent = {"formToken": menu.fields["formToken"], "back": menu.fields["back"], "lifetime": "+1d"}
    answer = await visitor.post(f"{here}/lifetime", data=sent, headers={"Origin": ORIGIN})
    assert answer.headers["location"] == home
    assert (await api.document(instance))["destroyAt"] > before
    someone = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        theirs = await get(client, f"{here}/menu")
        assert f"{here}/end" not in theirs.links
        assert "<form" not in theirs.answer.text
    elsewhere = await get(visitor, f"{here}/menu?back=https://evil.example/")
    assert elsewhere.fields["back"] == "/console"


async def test_what_the_list_shows_is_exported_and_no_cell_is_a_formula(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_EXPORTED_AT_ONCE", 2)
    word = fresh_name("brig").replace(" ", "-")
    application = await api.application("launch: {steps: []}\n")
    names = [f"=1+{word}", f'@{word}, "x"', f"-{word}", f"plain {word} line", f"{word}"]
    ids = [await api.launch(application, instanceName=each) for each in names]
    accepted(await api.put(f"instances/{ids[4]}/labels", {"team": "quay", "alone": ""}))
    await api.settled(ids[4])
    export = f"/console/organizations/{api.organization}/instances/export"
    answer = await visitor.get(export, params={"q": word, "sort": "created"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert re.fullmatch(r'attachment; filename="instances-\d{4}-\d\d-\d\d.csv"', answer.headers["content-disposition"])
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["id"] for row in rows] == ids
    assert [row["name"] for row in rows] == [f"'=1+{word}", f"'{names[1]}", f"'-{word}", names[3], names[4]]
    assert set(rows[4]["labels"].split()) == {"team=quay", "alone"}
    assert rows[4]["lastRun"] == "launch"
    records = (await visitor.get(export, params={"q": word, "sort": "created", "format": "json"})).json()
    assert [each["name"] for each in records] == names
    assert records[4]["labels"] == {"team": "quay", "alone": ""}
    assert records[4]["lastRunStatus"] == "Succeeded"
    assert list(records[0]) == list(rows[0])
    nothing = {"q": f"{word} nothing-such"}
    assert (await visitor.get(export, params={**nothing, "format": "json"})).json() == []
    assert len((await visitor.get(export, params=nothing)).text.splitlines()) == 1
    linked = (await get(visitor, f"/console/organizations/{api.organization}/instances?q={word}")).links
    assert f"{export}?q={word}&sort=-created&format=csv" in {html.unescape(each) for each in linked}


async def test_an_export_has_only_what_the_person_may_see(api: Api) -> None:
    word = fresh_name("hulk").replace(" ", "-")
    shown, hidden = [await api.application("launch: {steps: []}\n") for _ in range(2)]
    seen = await api.launch(shown, instanceName=f"{word}-seen")
    await api.launch(hidden, instanceName=f"{word}-hidden")
    role = {"name": fresh_name("narrow"), "permissions": f"- Read: [/applications/{shown}/*, /environments/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    someone = await person(api, role["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        for kind, key in (("instances", "id"), ("runs", "instanceId")):
            path = f"/console/organizations/{api.organization}/{kind}/export"
            found = (await client.get(path, params={"q": word, "format": "json"})).json()
            assert {each[key] for each in found} == {seen}
