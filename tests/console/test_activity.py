"""The activity of an organization: sentences, filters, and the page of one entry."""

import re
from datetime import UTC, datetime

import httpx
import pytest

from tests.support.pages import Page, get, words_of
from tests.support.service import Api, accepted, fresh_name, person

MANIFEST = """\
launch: {steps: []}
sail: {steps: []}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since runs are part of the activity."""
    return working_service


def sentences(page: Page) -> list[str]:
    """Return what the page tells, each entry in one line."""
    entries = re.findall(r"<li><span class=.avatar.*?</li>", page.answer.text, re.DOTALL)
    return [words_of(each) for each in entries]


async def test_an_entry_is_told_with_its_object_and_leads_to_the_run(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Ferry")
    application = await api.application(MANIFEST, name)
    instance = await api.launch(application, instanceName=f"{name} of today")
    await api.settled(instance)
    await api.run(instance, "sail")
    path = f"/console/organizations/{api.organization}/audit"
    page = await get(visitor, f"{path}?object=/applications/{application}")
    told = sentences(page)
    assert f"ran sail on {name} of today" in told[0]
    assert f"launched {name} of today" in told[1]
    assert f"saved a version of {name}" in told[2]
    assert f"created application {name}" in told[-1]
    assert "Today" in page.text
    [run, *_] = re.findall(r'href="([^"]+)">Open run<', page.answer.text)
    job = accepted(await api.get(f"instances/{instance}/jobs"))[0]["id"]
    assert run == f"/console/instances/{instance}/jobs/{job}"
    assert (await get(visitor, run)).status == 200


async def test_entries_are_found_by_the_names_of_objects_and_people(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Lighthouse")
    application = await api.application(MANIFEST, f"{name} one")
    await api.application(MANIFEST, f"{name} two")
    path = f"/console/organizations/{api.organization}/audit"
    page = Page(await visitor.get(path, params={"object": f"{name} ONE"}))
    assert [f"created application {name} one" in each for each in sentences(page)].count(True) == 1
    assert not any(f"{name} two" in each for each in sentences(page))
    several = Page(await visitor.get(path, params={"q": f"since:7d {name}"}))
    assert "Several objects match" in several.text
    assert sentences(several) == []
    [chosen] = [link for link in several.links if f"on%3A{application}" in link]
    assert "since%3A7d" in chosen
    assert sentences(await get(visitor, chosen)) == sentences(page)
    nobody = Page(await visitor.get(path, params={"q": f'by:"{name} nobody"'}))
    assert "Nobody is called" in nobody.text
    for mine in (f'by:administrator on:"{name} one"', f"by:me {name} one"):
        assert sentences(Page(await visitor.get(path, params={"q": mine}))) == sentences(page)


@pytest.mark.features("change_sets", "rollouts")
async def test_entries_of_change_sets_and_rollouts_lead_to_their_pages(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST)
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "dock: {steps: []}\n"))
    path = f"organizations/{api.organization}"
    look = {"act": "version", "ids": [instance], "version": 3}
    change_set = accepted(await api.post(f"{path}/change-sets", look))["id"]
    rollout = accepted(await api.post(f"{path}/rollouts", {"applicationId": application, "version": 3}))["id"]
    page = await get(visitor, f"/console/{path}/audit")
    for href in (f"/console/{path}/changes/{change_set}", f"/console/applications/{application}/rollouts/{rollout}"):
        assert f'href="{href}"' in page.answer.text
        assert (await get(visitor, href)).status == 200


@pytest.mark.features("recurring")
async def test_entries_name_schedules_and_tell_labels(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST)
    instance = await api.launch(application, instanceName=(name := fresh_name("Pilot")))
    await api.settled(instance)
    accepted(await api.put(f"instances/{instance}/labels", {"team": "quay"}))
    body = {"name": (night := fresh_name("night")), "cron": "30 2 * * *", "instanceId": instance, "workflow": "sail"}
    made = accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))["id"]
    page = await get(visitor, f"/console/organizations/{api.organization}/audit")
    told = sentences(page)
    assert any(f"created recurring schedule {night}" in each for each in told)
    assert any(f"changed the labels of {name}" in each for each in told)
    [newest] = accepted(await api.get(f"organizations/{api.organization}/audit", object=made))
    entry = await get(visitor, f"/console/organizations/{api.organization}/audit/{newest['id']}")
    assert f"/console/organizations/{api.organization}/recurring/{made}" in entry.links


@pytest.mark.features("lifetimes")
async def test_rules_are_told_in_words(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST, name := fresh_name("Dock"))
    limits = [{"key": "application", "limit": 20, "when": "queue"}, {"key": "lock:crane", "limit": 1}]
    accepted(await api.put(f"applications/{application}/concurrency", {"limits": limits}))
    [told, *_] = sentences(await get(visitor, f"/console/organizations/{api.organization}/audit?object={application}"))
    assert f"changed the limits of {name}" in told
    assert "limits: none → key application, limit 20, when queue; key lock:crane, limit 1, when queue" in told


async def test_the_list_is_filtered_by_what_was_done_and_since_when(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST)
    await api.settled(await api.launch(application))
    path = f"/console/organizations/{api.organization}/audit?object=/applications/{application}"
    [launched] = sentences(await get(visitor, f"{path}&q=did:launch+since:24h"))
    assert " launched " in launched
    assert len(sentences(await get(visitor, f"{path}&q=did:launch+did:manifest"))) == 2
    for other in ("did:access", "until:1h", f"until:{datetime.now(UTC):%Y-%m-%d}"):
        assert sentences(await get(visitor, f"{path}&q={other}")) == []
    odd = await visitor.get(f"{path}&q=since:2026-02-31+did:nothing")
    assert (odd.status_code, odd.text.count("so nothing is shown")) == (400, 2)
    wrong = await get(visitor, f"/console/organizations/{api.organization}/audit?object=nonsense")
    assert "No object is called nonsense" in wrong.text
    assert sentences(wrong) == []


async def test_what_a_query_finds_is_exported(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Beacon")
    application = await api.application(MANIFEST, name)
    path = f"/console/organizations/{api.organization}/audit/export"
    rows = (await visitor.get(path, params={"q": name, "format": "json"})).json()
    assert [each["operation"] for each in rows] == ["replace_manifest", "create_application"]
    assert {each["object"] for each in rows} == {f"/applications/{application}"}
    lines = (await visitor.get(path, params={"q": f"did:manifest {name}"})).text.splitlines()
    assert lines[0].startswith("id,at,actor,")
    assert len(lines) == 2
    refused = Page(await visitor.get(path, params={"q": f"{name} nobody"}))
    assert refused.status == 400
    assert "more than one, is called" in refused.text


async def test_disabling_a_service_account_is_a_change_of_access(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("robot")
    accounts = f"organizations/{api.organization}/serviceAccounts"
    account = accepted(await api.post(accounts, {"name": name, "roles": []}))["id"]
    accepted(await api.put(f"{accounts}/{account}", {"enabled": False}))
    path = f"/console/organizations/{api.organization}/audit?object={account}"
    assert len(sentences(await get(visitor, f"{path}&q=did:access"))) == 2
    accepted(await api.delete(f"{accounts}/{account}"))
    assert len(sentences(await get(visitor, f"{path}&q=did:delete"))) == 1


@pytest.mark.features("change_sets", "recurring")
async def test_entries_lead_to_change_sets_and_recurring_schedules(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST)
    below = f"organizations/{api.organization}"
    change_set = {"act": "launch", "applicationId": application, "launch": {}}
    schedule = {"name": fresh_name("nightly"), "applicationId": application, "launch": {}, "cron": "0 3 * * *"}
    for path, body in (("change-sets", change_set), ("recurring-schedules", schedule)):
        made = accepted(await api.post(f"{below}/{path}", body))["id"]
        page = await get(visitor, f"/console/{below}/audit?object={made}")
        [link] = re.findall(rf'href="(/console/{below}/\w+/{made})"', page.answer.text)
        assert (await get(visitor, link)).status == 200


async def test_the_page_of_an_entry_shows_what_was_before_and_after(api: Api, visitor: httpx.AsyncClient) -> None:
    old, new = fresh_name("Old"), fresh_name("New")
    application = await api.application(MANIFEST, old)
    accepted(await api.put(f"applications/{application}", {"name": new}))
    path = f"/console/organizations/{api.organization}/audit"
    listed = await get(visitor, f"{path}?object={application}")
    [newest, *_] = re.findall(rf'href="{path}/(\w+)"', listed.answer.text)
    assert (
        newest
        == accepted(await api.get(f"organizations/{api.organization}/audit", object=application, sort="-at"))[0]["id"]
    )
    page = await get(visitor, f"{path}/{newest}")
    assert f"renamed application {new}" in page.text
    assert f"<del>{old}</del>" in page.answer.text
    assert "name name" not in words_of(page.answer.text)
    assert f"<ins>{new}</ins>" in page.answer.text
    assert f"/console/applications/{application}" in page.links
    assert "Older entry" in page.text
    assert (await get(visitor, f"{path}/{'5f' * 12}")).status == 404
    assert (await get(visitor, f"{path}/x")).status == 404


@pytest.mark.features("lifetimes")
async def test_entries_tell_fields_in_words_and_objects_by_their_names(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Sluice")
    application = await api.application(MANIFEST, name)
    accepted(await api.put(f"applications/{application}/lifetime", {"greatestMs": 172_800_000}))
    accepted(await api.put(f"applications/{application}/lifetime", {"greatestMs": 604_800_000, "mayNever": False}))
    within = f"organizations/{api.organization}"
    harbor, vault = fresh_name("harbor"), fresh_name("vault")
    environment = accepted(await api.post(f"{within}/environments", {"name": harbor}))["id"]
    kept = {"name": vault, "typeId": "builtin:cobalt_secure_store", "parameters": {}}
    service = accepted(await api.post(f"{within}/services", kept))["id"]
    accepted(await api.put(f"environments/{environment}/services", {"services": [service]}))
    page = await get(visitor, f"/console/{within}/audit")
    told = sentences(page)
    assert f"services: none → {vault}" in told[0]
    of_lifetime = next(each for each in told if f"changed the lifetimes of {name}" in each)
    assert "longest lifetime: 2 days → 7 days" in of_lifetime
    assert "instances without an end: no" in of_lifetime
    entry = await get(visitor, next(link for link in page.links if "/audit/0" in link))
    assert f"<ins>{vault} ({service})</ins>" in entry.answer.text
    instance = await api.launch(application)
    await api.settled(instance)
    later = (await api.document(instance))["destroyAt"] + 86_400_000
    accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": later}))
    activity = await get(visitor, f"/console/instances/{instance}/activity")
    assert f"→ {datetime.fromtimestamp(later / 1000, UTC):%Y-%m-%d %H:%M} UTC" in activity.text


async def test_the_entry_of_a_new_user_is_told_in_words(api: Api, visitor: httpx.AsyncClient) -> None:
    await person(api, "Guest")
    page = await get(visitor, f"/console/organizations/{api.organization}/audit")
    assert "; new account: yes" in page.text
    assert "is new" not in page.text


async def test_the_filter_of_the_activity_leads_back_to_all_entries(api: Api, visitor: httpx.AsyncClient) -> None:
    base = f"/console/organizations/{api.organization}/audit"
    page = await get(visitor, f"{base}?q=nothing-of-that-name")
    assert "No entry matches" in page.text
    assert base in page.links


async def test_the_end_of_a_lifetime_is_told_as_such(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Ferry")
    instance = await api.launch(
        await api.application(None, name), destroyInterval=1, instanceName=f"{name} of a moment"
    )
    await api.until(instance, "Destroyed")
    page = await get(visitor, f"/console/organizations/{api.organization}/audit?object={instance}")
    assert f"End of lifetime ran destroy on {name} of a moment" in sentences(page)[0]
    activity = await get(visitor, f"/console/instances/{instance}/activity")
    assert "End of lifetime ran destroy" in " ".join(activity.text.split())
    [destroy, _] = accepted(await api.get(f"instances/{instance}/jobs"))
    run = await get(visitor, f"/console/instances/{instance}/jobs/{destroy['id']}")
    assert "End of its lifetime" in run.text


@pytest.mark.parametrize(("kind", "lines"), [("csv", 1), ("json", 0)])
async def test_a_query_that_finds_nothing_is_exported_as_a_file_without_rows(
    api: Api, visitor: httpx.AsyncClient, kind: str, lines: int
) -> None:
    path = f"/console/organizations/{api.organization}/audit/export"
    sent = await visitor.get(path, params={"q": "since:0h", "format": kind})
    assert sent.status_code == 200
    assert len(sent.json() if kind == "json" else sent.text.splitlines()) == lines
