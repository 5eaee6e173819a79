"""The link by which a new user sets the first password."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from structlog.testing import capture_logs

from tests.api.pages import browser, get, send
from tests.api.people import fresh_email
from tests.api.running import Api, Caller, accepted, basic, refused, running_api
from tests.databases import Databases

CHOSEN = "chosen by ann"


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(api) as client:
        yield client


async def invite(api: Api) -> tuple[str, str, str]:
    """Return id, e-mail address and link of a new user."""
    email = fresh_email()
    body = {"email": email, "name": "Ann", "roles": ["Guest"]}
    created = accepted(await api.post(f"organizations/{api.organization}/users", body))
    return created["id"], email, created["invitation"]


def signed_in(api: Api, email: str, password: str = CHOSEN) -> Caller:
    return api.caller(basic(email, password))


async def test_an_invited_user_sets_a_password_and_signs_in_with_the_roles_given(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    user, email, link = await invite(api)
    page = await get(visitor, link)
    assert page.status == 200
    assert email in page.text
    done = await send(visitor, link, password=CHOSEN, repeated=CHOSEN)
    assert done.status == 200
    assert str(httpx.URL(link).join(next(iter(done.links)))) == "http://launchbay/refreshToken"
    [organization] = accepted(await signed_in(api, email).get("organizations"))
    assert organization["id"] == api.organization
    document = accepted(await api.get(f"organizations/{api.organization}/users/{user}"))
    assert (document["invited"], document["roles"]) == (False, ["Guest"])


async def test_a_link_works_once_also_for_two_at_the_same_moment(api: Api, visitor: httpx.AsyncClient) -> None:
    _, email, link = await invite(api)
    pages = await asyncio.gather(*(send(visitor, link, password=p, repeated=p) for p in ("first", "second")))
    assert sorted(page.status for page in pages) == [200, 404]
    winner = ("first", "second")[[page.status for page in pages].index(200)]
    accepted(await signed_in(api, email, winner).get("organizations"))
    again = await send(visitor, link, password="third", repeated="third")
    assert again.status == 404
    assert (await get(visitor, link)).status == 404
    assert "Ask who invited you" in again.text


async def test_two_different_passwords_are_refused_and_the_link_stays_good(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    _, email, link = await invite(api)
    for password, repeated in ((CHOSEN, "other"), ("", ""), ("x" * 2000, "x" * 2000)):
        page = await send(visitor, link, password=password, repeated=repeated)
        assert (page.status, page.fields["password"], page.fields["repeated"]) == (400, "", "")
        assert email in page.text
    assert (await send(visitor, link, password=CHOSEN, repeated=CHOSEN)).status == 200


async def test_another_site_cannot_send_the_form(api: Api, visitor: httpx.AsyncClient) -> None:
    _, email, link = await invite(api)
    page = await send(visitor, link, {"Origin": "http://evil.example"}, password=CHOSEN, repeated=CHOSEN)
    assert page.status == 403
    refused(await signed_in(api, email).get("organizations"), 401)


@pytest.mark.parametrize("token", ["x", "%C3%A9", "a" * 500, "%00", "..%2f..", "%f0%9f%98%80"])
async def test_a_link_that_never_was_is_404(visitor: httpx.AsyncClient, token: str) -> None:
    answer = await visitor.get(f"/invitation/{token}")
    assert answer.status_code == 404
    answer = await visitor.post(f"/invitation/{token}", data={"password": "x", "repeated": "x"})
    assert answer.status_code == 404


async def test_a_link_ends_after_some_days_with_the_account_and_with_disabling(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    user, _, link = await invite(api)
    async with api.database.connection() as connection:
        await connection.execute("UPDATE invitations SET expires_at = now() WHERE user_id = %s", [user])
    assert (await get(visitor, link)).status == 404
    assert (await send(visitor, link, password=CHOSEN, repeated=CHOSEN)).status == 404
    user, _, link = await invite(api)
    path = f"organizations/{api.organization}/users/{user}"
    accepted(await api.put(path, {"enabled": False}))
    assert (await get(visitor, link)).status == 404
    accepted(await api.put(path, {"enabled": True}))
    assert (await get(visitor, link)).status == 200
    accepted(await api.delete(path))
    assert (await get(visitor, link)).status == 404


async def test_neither_the_database_nor_the_log_has_the_secret_of_a_link(api: Api, visitor: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        user, _, link = await invite(api)
        secret = link.rpartition("/")[2]
        await visitor.get(link)
        await visitor.head(link)
        await visitor.request("PATCH", link)
        await visitor.get(f"/prefix/invitation/{secret}")
        await send(visitor, link, password=CHOSEN, repeated="other")
    assert len([line for line in logs if line["event"] == "http.request"]) == 6
    assert secret not in str(logs)
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT i::text FROM invitations i WHERE user_id = %s", [user])
        ((row,),) = await cursor.fetchall()
    assert secret not in row


async def test_links_lead_to_the_base_address_that_is_set(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, base_url="https://orchestra.example/bay/") as api:
        _, _, link = await invite(api)
        assert link.startswith("https://orchestra.example/bay/invitation/")
    databases.drop(url)
