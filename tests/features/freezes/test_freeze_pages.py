"""A freeze is shown where people look, before they press a button that it refuses."""

import re
from html import unescape

import httpx
import pytest

from tests.support.pages import browser, get, words_of
from tests.support.service import EMAIL, PERSON_PASSWORD, Api, accepted, fresh_name, own_service, person

api = own_service  # whose administrator administers the server

MANIFEST = "greet:\n  steps: []\nlaunch:\n  steps: []\ndestroy:\n  steps: []\n"
REASON = "Incident 4711: <hands> off."


def read_of(markup: str) -> str:
    """Return the words of a page as people read them."""
    return unescape(words_of(markup))


async def frozen_with_an_instance(api: Api) -> tuple[str, str, str]:
    """Return a frozen environment, an application, and an instance in it."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": REASON}))
    return environment, application, instance


async def test_an_environment_is_frozen_and_lifted_on_its_page(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = await api.offer()
    path = f"/console/environments/{environment}"
    settings = await get(visitor, f"{path}/settings")
    assert "froze this environment" not in settings.answer.text
    token = settings.fields["formToken"]
    refused = await visitor.post(f"{path}/freeze", data={"formToken": token, "reason": " "})
    assert refused.status_code == 400
    assert "Give 1 to 2000 characters" in refused.text
    done = await visitor.post(f"{path}/freeze", data={"formToken": token, "reason": REASON})
    assert done.status_code == 303, done.text
    for tab in ("", "/settings"):
        text = read_of((await get(visitor, f"{path}{tab}")).answer.text)
        assert re.search(rf"{re.escape(EMAIL)} froze this environment .*(ago|now), at [-0-9]+ [:0-9]+ UTC", text), text
        assert REASON in text
    assert f'action="{path}/freeze"' not in (await visitor.get(f"{path}/settings")).text, "it is frozen already"
    assert (await visitor.post(f"{path}/lift-freeze", data={"formToken": token})).status_code == 303
    assert accepted(await api.get(f"environments/{environment}/freeze"))["reason"] is None
    assert REASON not in read_of((await visitor.get(path)).text)


async def test_who_may_not_edit_an_environment_sees_its_freeze_and_no_form(api: Api) -> None:
    environment, _, _ = await frozen_with_an_instance(api)
    made = {"name": fresh_name("reader"), "permissions": "- Read: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", made))
    someone = await person(api, made["name"])
    path = f"/console/environments/{environment}"
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, path)
        assert REASON in read_of(page.answer.text)
        assert "lift-freeze" not in page.answer.text
        assert f'action="{path}/freeze"' not in (await client.get(f"{path}/settings")).text


@pytest.mark.parametrize("tab", ["", "/run", "/settings", "/configuration", "/schedules"])
async def test_the_pages_of_an_instance_say_that_its_environment_is_frozen(
    api: Api, visitor: httpx.AsyncClient, tab: str
) -> None:
    environment, _, instance = await frozen_with_an_instance(api)
    path = f"/console/instances/{instance}{tab}"
    assert f"The environment is frozen. Nothing changes until somebody lifts the freeze. {REASON}" in (
        read_of((await visitor.get(path)).text)
    )
    accepted(await api.delete(f"environments/{environment}/freeze"))
    assert "is frozen" not in (await visitor.get(path)).text


async def test_a_launch_form_says_that_the_environment_is_frozen(api: Api, visitor: httpx.AsyncClient) -> None:
    environment, application, instance = await frozen_with_an_instance(api)
    path = f"/console/applications/{application}/launch"
    text = (await visitor.get(f"{path}?from={instance}")).text
    assert "is frozen. Nothing changes until somebody lifts the freeze. A launch is refused." in read_of(text)
    assert REASON in read_of(text)
    option = re.search(rf'<option value="{environment}"[^>]*>([^<]*)</option>', text)
    assert option is not None
    assert option[1].endswith("(frozen)")
    # In another environment it launches, and only the choice says so.
    text = (await visitor.get(path)).text
    assert "is frozen" not in text
    assert "(frozen)" in text


async def test_a_waiting_change_set_says_that_its_environment_is_frozen(api: Api, visitor: httpx.AsyncClient) -> None:
    environment, _, instance = await frozen_with_an_instance(api)
    body = {"act": "destroy", "ids": [instance]}
    made = accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"]
    path = f"/console/organizations/{api.organization}/changes/{made}"
    assert f"is frozen. Nothing changes until somebody lifts the freeze. This can't be applied. {REASON}" in (
        read_of((await visitor.get(path)).text)
    )
    accepted(await api.delete(f"environments/{environment}/freeze"))
    assert "is frozen" not in (await visitor.get(path)).text


@pytest.mark.parametrize("page", ["", "/environments", "/instances?environment={environment}"])
async def test_lists_mark_frozen_environments(api: Api, visitor: httpx.AsyncClient, page: str) -> None:
    environment, _, instance = await frozen_with_an_instance(api)
    path = f"/console/organizations/{api.organization}{page.format(environment=environment)}"
    if not page:
        path += f"?environment={environment}"
    text = (await visitor.get(path)).text
    assert instance in text or environment in text
    assert '<span class="chip line"' in text
    assert ">frozen</span>" in text
    accepted(await api.delete(f"environments/{environment}/freeze"))
    one = (await visitor.get(f"/console/organizations/{api.organization}/instances?environment={environment}")).text
    assert ">frozen</span>" not in one


async def test_a_window_is_on_the_pages_once_it_is_near_and_in_the_settings_before(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment, application = await api.offer(), await api.application(MANIFEST)
    for kind, owner in (("environments", environment), ("applications", application)):
        path = f"/console/{kind}/{owner}"
        far = {"reason": "Jubilee", "firstDay": "2190-12-20", "lastDay": "2191-01-04"}
        accepted(await api.put(f"{kind}/{owner}/freeze-windows", {"windows": [far]}))
        assert "freezes in" not in (await visitor.get(path)).text
        settings = await get(visitor, f"{path}/settings")
        assert "Thu 5 Jan" not in settings.answer.text
        assert "Mon 20 Dec 2190" in settings.answer.text
        form = {"formToken": settings.fields["formToken"], "do": "preview", "reason": "Always", "zone": "UTC"}
        form |= {"beginsAt": "", "endsAt": "", "firstDay": "2000-01-01", "lastDay": "2199-12-30"}
        shown = await visitor.post(f"{path}/freeze-windows", data=form)
        assert "Now to " in shown.text
        seen = settings.answer.text.partition(f'action="{path}/freeze-windows"')[2].partition('name="seen" value="')[2]
        saved = await visitor.post(f"{path}/freeze-windows", data={**form, "do": "", "seen": seen.partition('"')[0]})
        assert saved.status_code == 303, saved.text
        assert "is frozen until 2199-12-31 00:00:00 UTC" in words_of((await visitor.get(path)).text)
