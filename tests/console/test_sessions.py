"""Sessions end on the server, and open nothing but the console."""

import re

import httpx

from tests.api.pages import browser
from tests.api.people import PASSWORD, Person, person
from tests.api.running import EMAIL, Api
from tests.api.running import PASSWORD as ADMINISTRATORS


async def signed_in(client: httpx.AsyncClient, email: str = EMAIL, password: str = ADMINISTRATORS) -> str:
    """Sign in, and return the token of the forms."""
    answer = await client.post("/console/signIn", data={"email": email, "password": password})
    assert answer.status_code == 303
    token = re.search(r'name="formToken" value="(\w+)"', (await client.get("/console/account")).text)
    assert token is not None
    return token[1]


def copied(client: httpx.AsyncClient, api: Api) -> httpx.AsyncClient:
    """Return somebody who has got hold of the cookie."""
    thief = browser(api)
    thief.cookies = httpx.Cookies(client.cookies)
    return thief


async def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(api: Api) -> None:
    async with browser(api) as client:
        token = await signed_in(client)
        async with copied(client, api) as thief:
            assert (await thief.get("/console/account")).status_code == 200
            assert (await client.post("/console/signOut", data={"formToken": token})).status_code == 303
            assert (await thief.get("/console/account")).status_code == 303


async def test_the_api_takes_no_session_of_the_console_and_the_console_none_of_the_api(api: Api) -> None:
    async with browser(api) as client:
        await signed_in(client)
        cookie = client.cookies["launchbay_session"]
    assert cookie.startswith("lbc_")
    assert (await api.caller(f"Bearer {cookie}").get("organizations")).status_code == 401
    async with browser(api) as client:
        client.cookies.set("launchbay_session", "eyJhbGciOiJFZERTQSJ9.e30.AAAA", domain="launchbay", path="/")
        assert (await client.get("/console/account")).status_code == 303


async def test_a_new_password_ends_every_other_session(api: Api) -> None:
    someone: Person = await person(api, "Guest")
    async with browser(api) as here, browser(api) as elsewhere:
        token = await signed_in(here, someone.email, PASSWORD)
        await signed_in(elsewhere, someone.email, PASSWORD)
        changed = {"currentPassword": PASSWORD, "newPassword": "another one", "repeatedPassword": "another one"}
        answer = await here.post("/console/account/password", data={"formToken": token, **changed})
        assert answer.status_code == 303, answer.text
        assert "The password is changed" in (await here.get("/console/account")).text
        assert (await elsewhere.get("/console/account")).status_code == 303


async def test_a_session_elsewhere_is_listed_and_ended(api: Api) -> None:
    someone: Person = await person(api, "Guest")
    async with browser(api) as here, browser(api) as elsewhere:
        token = await signed_in(here, someone.email, PASSWORD)
        await signed_in(elsewhere, someone.email, PASSWORD)
        page = (await here.get("/console/account")).text
        [path] = re.findall(r'action="(/console/sessions/\w+/end)"', page)
        assert page.count("this browser") == 1
        # Somebody else's is not found.
        async with browser(api) as other:
            foreign = await other.post(path, data={"formToken": await signed_in(other)})
            assert foreign.status_code == 404
        assert (await elsewhere.get("/console/account")).status_code == 200
        assert (await here.post(path, data={"formToken": token})).status_code == 303
        assert (await elsewhere.get("/console/account")).status_code == 303
