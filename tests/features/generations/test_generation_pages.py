"""Generations on the tab Configuration: listed, compared, and gone back to."""

from typing import Any

import httpx
import pytest

from tests.support.applications import BAD_SIZE, picky
from tests.support.pages import ORIGIN, Page, get
from tests.support.service import Api, accepted, person

SHOP = """\
application:
  interfaces:
    input: { size: bind(web#input.size), secret-word: bind(web#input.secret-word) }
  components:
    web:
      type: workflow.Instance
      interfaces: { input: { size: configuration(int), secret-word: configuration(string) } }
      configuration:
        input.secret-word: none
        configuration.triggers: { input.size: grow }
        configuration.workflows: { launch: { steps: [] }, grow: { steps: [] } }
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def _changed(api: Api) -> str:
    """Return an instance with two generations, which differ in its size and a secret."""
    instance = await api.running(SHOP, parameters={"input.size": 1, "input.secret-word": "quayside"})
    body = {"parameters": {"input.size": 2, "input.secret-word": "harbor"}}
    accepted(await api.put(f"instances/{instance}/configuration", body))
    await api.settled(instance)
    return instance


async def _sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: Any) -> httpx.Response:
    form = {"formToken": page.fields["formToken"], **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


def _button(page: Page) -> str:
    """Return what the button to apply sends."""
    return page.answer.text.partition('name="do" value="apply ')[2].partition('"')[0]


async def test_an_instance_goes_back_to_a_generation_exactly_as_shown(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await _changed(api)
    listed = await get(visitor, f"/console/instances/{instance}/configuration")
    text = " ".join(listed.text.split())
    path = f"/console/instances/{instance}/generations/1"
    assert path in listed.links
    assert "input.size 1 → 2" in text
    assert "the first one" in text
    page = await get(visitor, path)
    text = " ".join(page.text.split())
    assert "Generation 1 and now" in text
    assert "input.sizeGeneration 1: 1Now: 2" in text
    assert "What rolling back changes" in text
    assert "web#grow" in text
    for word in ("quayside", "harbor"):
        assert word not in listed.answer.text + page.answer.text
    other = await get(visitor, f"{path}?against=2")
    assert "Generation 1 and generation 2" in " ".join(other.text.split())
    begun = await _sent(visitor, path, page, do=f"apply {_button(page)}")
    assert begun.status_code == 303, begun.text
    back = await api.settled(instance)
    assert back["parameters"]["input.size"] == 1
    again = await get(visitor, f"/console/instances/{instance}/configuration")
    assert "Rollback to generation 1" in again.text


async def test_the_current_generation_offers_no_rollback_but_its_difference_from_the_one_before(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await _changed(api)
    listed = await get(visitor, f"/console/instances/{instance}/configuration")
    assert "Roll back… to generation 1" in " ".join(listed.text.split())
    assert "Roll back… to generation 2" not in " ".join(listed.text.split())
    page = await get(visitor, f"/console/instances/{instance}/generations/2")
    text = " ".join(page.text.split())
    assert "Generation 2 and generation 1" in text
    assert "This is the current generation." in text
    assert "What rolling back changes" not in text
    refused = await _sent(visitor, f"/console/instances/{instance}/generations/2", page, do="apply anything")
    assert refused.status_code == 409
    assert "Choose an earlier one." in Page(refused).text


async def test_a_rollback_that_was_shown_of_another_state_is_shown_again(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await _changed(api)
    path = f"/console/instances/{instance}/generations/1"
    page = await get(visitor, path)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 7}}))
    await api.settled(instance)
    refused = await _sent(visitor, path, page, do=f"apply {_button(page)}")
    assert refused.status_code == 409
    assert "The instance has changed." in Page(refused).text
    assert (await api.settled(instance))["parameters"]["input.size"] == 7
    assert (await visitor.get(f"/console/instances/{instance}/generations/99")).status_code == 404


async def test_an_application_says_what_its_instances_do_when_a_change_fails(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application(SHOP)
    path = f"/console/applications/{application}"
    page = await get(visitor, f"{path}/settings")
    assert (await _sent(visitor, f"{path}/onFailure", page, onFailure="rollback")).status_code == 303
    assert accepted(await api.get(f"applications/{application}/failurePolicy")) == {"onFailure": "rollback"}
    again = await get(visitor, f"{path}/settings")
    assert 'value="rollback" checked' in again.answer.text


async def test_the_way_back_is_where_people_look_for_it(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await _changed(api)
    document = accepted(await api.get(f"instances/{instance}"))
    target, words = f"/console/instances/{instance}/generations/1", "Roll back to generation 1…"
    version = f"/console/applications/{document['applicationId']}/versions"
    for path in ("", "/configuration", "/runs", "/menu"):
        page = await get(visitor, f"/console/instances/{instance}{path}")
        assert (target in page.links, words in page.text) == (True, True), path
    shown = await get(visitor, version)
    assert target in shown.links
    assert f"{words} of {document['name']}" in shown.text
    jump = await visitor.get(f"/console/organizations/{api.organization}/jump?q=rollback%20{document['name']}")
    assert f'data-href="/console/instances/{instance}/rollback"' in jump.text
    led = await visitor.get(f"/console/instances/{instance}/rollback")
    assert led.headers["location"] == target


async def test_a_failed_change_leads_to_the_last_good_generation(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(picky(), parameters={"input.size": 0})
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
    failed = (await api.settled(instance))["workflowHistory"][0]["id"]
    page = await get(visitor, f"/console/instances/{instance}/jobs/{failed}")
    target = f"/console/instances/{instance}/generations/1"
    assert target in page.links
    preview = await get(visitor, target)
    assert "What rolling back changes" in preview.text


async def test_there_is_no_way_back_from_the_first_configuration(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(SHOP, parameters={"input.size": 1})
    page = await get(visitor, f"/console/instances/{instance}")
    assert "Roll back" not in page.text
    led = await visitor.get(f"/console/instances/{instance}/rollback")
    assert led.headers["location"] == f"/console/instances/{instance}"


async def test_who_has_left_the_organization_is_named(api: Api, visitor: httpx.AsyncClient) -> None:
    someone = await person(api, "Administrator")
    application = await api.application(SHOP)
    instance = accepted(await someone.post(f"applications/{application}/launch", {"parameters": {"input.size": 1}}))[
        "id"
    ]
    await api.settled(instance)
    _, elsewhere, _ = await api.outsider()  # an account without any organization would be deleted
    async with api.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO memberships (organization_id, user_id) VALUES (%s, %s)", [elsewhere, someone.id]
        )
    accepted(await api.delete(f"organizations/{api.organization}/users/{someone.id}"))
    for path in ("", "/configuration", "/generations/1"):
        page = await get(visitor, f"/console/instances/{instance}{path}")
        assert "Person (left)" in page.text, path
        assert "deleted user" not in page.text, path
