"""The pages of webhooks: the format of their requests."""

import httpx

from tests.support.second_factors import post
from tests.support.service import Api


async def formats(api: Api) -> dict[str, str]:
    """Return the format of each webhook, by ID."""
    listed = (await api.get(f"/organizations/{api.organization}/webhooks")).json()
    return {each["id"]: each["format"] for each in listed}


async def test_a_webhook_is_made_with_a_format_which_its_page_shows_and_changes(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    await post(visitor, pages, url="http://127.0.0.1:9/", event="status", format="slack")
    [(made, form)] = (await formats(api)).items() - known.items()
    assert form == "slack"
    assert '<option value="slack" selected>Slack</option>' in (await visitor.get(f"{pages}/{made}")).text

    await post(visitor, f"{pages}/{made}", event="status", format="teams")
    assert (await formats(api))[made] == "teams"
    await post(visitor, f"{pages}/{made}", event="status")
    assert (await formats(api))[made] == "teams", "a form without the field keeps the format"


async def test_an_unknown_format_is_refused_and_the_form_keeps_what_was_typed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    answer = await post(visitor, pages, url="http://127.0.0.1:9/kept", event="status", format="pigeon")
    assert not isinstance(answer, httpx.Response)
    assert "Unknown format 'pigeon'. Use json, slack, teams." in answer.text
    assert "http://127.0.0.1:9/kept" in answer.answer.text
    assert await formats(api) == known
