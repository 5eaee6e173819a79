"""The board of an application in the console."""

import re

import httpx
import pytest

from launchbay.features.promotion import usecases
from tests.support.forms import open_form
from tests.support.pages import ORIGIN, get, words_of
from tests.support.promotion import NEW, way
from tests.support.service import Api, accepted, fresh_name


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def test_the_board_says_what_is_where_and_promotes(api: Api, visitor: httpx.AsyncClient) -> None:
    found = await way(api)
    await found.order({"soak": 3_600_000})
    await found.release()
    path = f"/console/applications/{found.application}/promotion"
    page = await get(visitor, path)
    text = words_of(page.answer.text)
    for part in (f"Version {NEW} is waiting", "must run in", "closed", "The order of this application", "size"):
        assert part in text, part
    form = {"formToken": page.fields["formToken"], "from": found.environments[0], "to": found.environments[1]}
    made = await visitor.post(path, data=form, headers={"Origin": ORIGIN})
    assert made.status_code == 303, made.text
    assert "/changes/" in made.headers["location"]
    assert "<time datetime=" in page.answer.text.split("must run in", 1)[1].split("</li>", 1)[0]
    assert not re.search(r"until \d{4}-", text), "a time as the rest of the console shows it"
    assert "Pending" in (await visitor.get(path)).text or "Ready" in (await visitor.get(path)).text
    assert f"Promote version {NEW} to" not in words_of((await visitor.get(path)).text), "a change set brings it already"
    await found.soaked()
    assert f"Version {NEW} can be promoted" in words_of((await visitor.get(path)).text)
    back = await visitor.post(path, data={**form, "to": found.environments[0]}, headers={"Origin": ORIGIN})
    assert (back.status_code, "follow" in back.text) == (400, True)


async def test_an_application_without_an_order_says_what_one_is(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application()
    page = await visitor.get(f"/console/applications/{application}/promotion")
    assert "No order of environments" in page.text


async def test_the_form_sets_an_order_and_says_what_is_wrong_at_its_field(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application()
    names = [fresh_name("stage") for _ in range(2)]
    home = f"organizations/{api.organization}/environments"
    ids = [accepted(await api.post(home, {"name": name}))["id"] for name in names]
    page = f"/console/applications/{application}/promotion"
    form = await open_form(visitor, page, f"{page}/order")
    form.fill("scope", "application").fill("environment-0", names[0]).fill("environment-1", names[1])
    form.fill("soak-1", "1001s").fill("workflows-1", "smoke load").fill("approvals-1", "1")

    for field, text, said in (
        ("soak-1", "soon", "soak-1-error"),
        ("environment-1", names[0], "The environment is in the order already; name it once."),
        ("environment-0", "", "Nothing is promoted to the first environment, so it has no gates."),
        ("approvals-1", "99", "From 0 to 20."),
    ):
        before = form.value(field)
        refused = await form.fill(field, text).send(visitor)
        assert (refused.status_code, said in refused.text) == (400, True), (field, refused.text)
        assert 'aria-invalid="true"' in refused.text
        assert 'value="smoke load"' in refused.text
        form.fill(field, before)

    assert (await form.send(visitor)).status_code == 303
    stored = accepted(await api.get(f"applications/{application}/promotion-order"))
    assert [each["environmentId"] for each in stored["stages"]] == ids
    assert (stored["own"], stored["stages"][1]["soak"]) == (True, 1_001_000)
    assert (stored["stages"][1]["workflows"], stored["stages"][1]["approvals"]) == (["smoke", "load"], 1)

    conflict = await form.fill("approvals-1", "2").send(visitor)
    assert conflict.status_code == 412
    assert accepted(await api.get(f"applications/{application}/promotion-order"))["stages"][1]["approvals"] == 1

    again = await open_form(visitor, page, f"{page}/order")
    assert [again.value(name) for name in ("environment-0", "soak-1", "approvals-1")] == [names[0], "1001 seconds", "1"]
    assert (await again.fill("scope", "inherit").send(visitor)).status_code == 303
    assert not accepted(await api.get(f"applications/{application}/promotion-order"))["own"]


async def test_the_form_sets_the_order_of_the_organization(api: Api, visitor: httpx.AsyncClient) -> None:
    application, name = await api.application(), fresh_name("stage")
    environment = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    page = f"/console/applications/{application}/promotion"
    home = f"organizations/{api.organization}/promotion-order"
    form = await open_form(visitor, page, f"{page}/order")
    try:
        sent = await form.fill("scope", "organization").fill("environment-0", name).send(visitor)
        assert sent.status_code == 303
        assert [each["environmentId"] for each in accepted(await api.get(home))["stages"]] == [environment]
    finally:
        accepted(await api.put(home, {"stages": []}))


async def test_the_order_of_the_organization_is_not_overwritten_unseen_from_an_application_with_its_own(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    found, home = await way(api), f"organizations/{api.organization}/promotion-order"
    await found.order()
    page = f"/console/applications/{found.application}/promotion"
    form = await open_form(visitor, page, f"{page}/order")
    theirs = [{"environmentId": found.environments[1]}]
    try:
        accepted(await api.put(home, {"stages": theirs}))
        refused = await form.fill("scope", "organization").send(visitor)
        assert (refused.status_code, "order of the organization" in refused.text) == (412, True)
        stored = accepted(await api.get(home))["stages"]
        assert [each["environmentId"] for each in stored] == [found.environments[1]]
        form = await open_form(visitor, page, f"{page}/order")
        assert (await form.fill("scope", "organization").send(visitor)).status_code == 303
    finally:
        accepted(await api.put(home, {"stages": []}))


async def test_of_many_instances_the_first_are_shown_and_the_rest_are_counted(
    api: Api, visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usecases, "_SHOWN_MOST", 1)
    found = await way(api)
    for _ in range(2):
        await api.settled(await api.launch(found.application, environmentId=found.environments[1]))
    await found.order()
    first, second = await found.board()
    assert [(len(each["instances"]), each["moreInstances"]) for each in (first, second)] == [(1, 0), (1, 2)]
    page = await get(visitor, f"/console/applications/{found.application}/promotion")
    assert "And 2 more" in words_of(page.answer.text)


async def test_a_promotion_that_is_refused_shows_the_board_with_the_reason(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    found = await way(api)
    await found.order()
    path = f"/console/applications/{found.application}/promotion"
    page = await get(visitor, path)
    form = {"formToken": page.fields["formToken"], "from": found.environments[0], "to": found.environments[1]}
    refused = await visitor.post(path, data=form, headers={"Origin": ORIGIN})
    assert refused.status_code == 400
    assert "has version 2 already" in words_of(refused.text)
