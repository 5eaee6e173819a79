"""The pages of webhooks: the format of their requests."""

import httpx
import pytest

from tests.support.pages import get, words_of
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted, refused


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """Nothing runs: pages are what these tests look at."""
    return idle_service


async def formats(api: Api) -> dict[str, str]:
    """Return the format of each webhook, by ID."""
    listed = (await api.get(f"/organizations/{api.organization}/webhooks")).json()
    return {each["id"]: each["format"] for each in listed}


async def test_a_webhook_is_made_with_a_format_which_its_page_shows_and_changes(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    await post(visitor, pages, url="https://hooks.example/", event="status", format="slack")
    [(made, form)] = (await formats(api)).items() - known.items()
    assert form == "slack"
    assert '<option value="slack" selected>Slack</option>' in (await visitor.get(f"{pages}/{made}")).text

    await post(visitor, f"{pages}/{made}", event="status", format="teams")
    assert (await formats(api))[made] == "teams"
    await post(visitor, f"{pages}/{made}", event="status")
    assert (await formats(api))[made] == "teams", "a form without the field keeps the format"


async def test_events_have_words_beside_the_names_that_requests_have(api: Api, visitor: httpx.AsyncClient) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    form = await get(visitor, pages)
    assert "Change sets changeSet" in " ".join(form.text.split())
    known = await formats(api)
    await post(visitor, pages, url="https://hooks.example/", event="changeSet", format="json")
    [made] = (await formats(api)).keys() - known.keys()
    assert "Change setsSigned with" in (await get(visitor, f"{pages}/{made}")).text


async def test_an_unknown_format_is_refused_and_the_form_keeps_what_was_typed(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    answer = await post(visitor, pages, url="https://hooks.example/kept", event="status", format="pigeon")
    assert not isinstance(answer, httpx.Response)
    assert "Unknown format 'pigeon'. Use json, slack, teams." in answer.text
    assert "https://hooks.example/kept" in answer.answer.text
    assert await formats(api) == known


async def test_the_settings_of_a_webhook_keep_what_was_typed_after_a_wrong_address(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    await post(visitor, pages, url="https://hooks.example/", event="status", format="json")
    [made] = (await formats(api)).keys() - known.keys()
    answer = await post(visitor, f"{pages}/{made}", url="ftp://hooks.example/", event="approval", format="teams")
    assert not isinstance(answer, httpx.Response)
    text = answer.answer.text
    assert 'value="ftp://hooks.example/"' in text
    assert 'value="approval" checked' in text
    assert 'value="status" checked' not in text
    assert '<option value="teams" selected>' in text
    assert 'name="enabled" value="1" checked' not in text
    assert (await formats(api))[made] == "json"


async def test_a_test_is_sent_and_its_delivery_shows_what_was_sent(api: Api, visitor: httpx.AsyncClient) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    await post(visitor, pages, url="https://hooks.example/", event="status", secret="a-secret-for-the-test-of-16")
    [made] = (await formats(api)).keys() - known.keys()
    answer = await post(visitor, f"{pages}/{made}/test")
    assert isinstance(answer, httpx.Response)
    page = await get(visitor, answer.headers["location"])
    assert "&#34;event&#34;: &#34;test&#34;" in page.answer.text
    [delivery] = accepted(await api.get(f"webhooks/{made}/deliveries"))
    assert (delivery["event"], delivery["status"]) == ("test", "pending")
    shown = words_of(page.answer.text.partition("Deliveries")[2])
    assert "Delivery Status About Attempts Created" in shown  # it isn't sent yet
    assert "Pending Test Attempts: 0" in shown  # the label is for phones
    body = accepted(await api.get(f"webhooks/{made}/deliveries/{delivery['id']}"))["body"]
    assert (body["event"], body["instance"], body["organization"]) == ("test", None, api.organization)


async def test_a_paused_webhook_sends_no_test_and_what_it_dropped_is_sent_again_later(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    pages = f"/console/organizations/{api.organization}/webhooks"
    known = await formats(api)
    await post(visitor, pages, url="https://hooks.example/", event="status", secret="a-secret-for-the-test-of-16")
    [made] = (await formats(api)).keys() - known.keys()
    await post(visitor, f"{pages}/{made}/test")
    await post(visitor, f"{pages}/{made}/enabled", do="pause")
    listed = await get(visitor, pages)
    assert "Paused" in listed.text
    refusal = await shown(visitor, f"{pages}/{made}/test")
    assert refusal.status == 409
    assert "The webhook is disabled, so nothing is sent." in refusal.text
    refused(await api.post(f"webhooks/{made}/retry"), 409)
    await post(visitor, f"{pages}/{made}/enabled", do="resume")
    assert "Send 1 again" in (await get(visitor, f"{pages}/{made}")).text
    await post(visitor, f"{pages}/{made}/retry")
    [delivery] = accepted(await api.get(f"webhooks/{made}/deliveries"))
    assert delivery["status"] == "pending"
    assert accepted(await api.post(f"webhooks/{made}/retry")) == {"deliveries": 0}
    refused(await api.post(f"webhooks/{made}/retry?delivery={made}"), 404)
