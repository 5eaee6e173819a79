"""Signing in to the console through an OpenID Connect provider: a real one on loopback."""

from collections.abc import AsyncIterator

import pytest

from tests.support.databases import Databases
from tests.support.external_services import OPENID_CLIENT, Provider, consent
from tests.support.pages import browser
from tests.support.service import Api, person, running_api

# The provider's own library warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
async def api(databases: Databases, provider: Provider) -> AsyncIterator[Api]:
    """A service that knows the provider."""
    url = databases.create()
    async with running_api(
        url, engine=False, oidc_issuer=provider.issuer, oidc_name="Acme <login>", **OPENID_CLIENT
    ) as api:
        yield api
    databases.drop(url)


async def test_the_button_of_the_provider_ends_in_the_console(api: Api, provider: Provider) -> None:
    added = await person(api, "Guest")
    await provider.know("ada", email=added.email, email_verified=True)
    async with browser(api) as client:
        form = await client.get("/console/signIn")
        assert "Sign in with Acme &lt;login&gt;" in form.text
        begun = await client.get("/signIn/openid?to=console")
        back = await client.get(await consent(begun.headers["location"], "ada"))
        assert (back.status_code, back.headers["location"]) == (303, "/console")
        page = await client.get("/console/account")
    assert page.status_code == 200
    assert added.email in page.text


async def test_without_the_button_it_still_ends_with_a_refresh_token(api: Api, provider: Provider) -> None:
    added = await person(api, "Guest")
    await provider.know("bob", email=added.email, email_verified=True)
    async with browser(api) as client:
        # Somebody who begins with the console and then goes the other way gets what they asked for last.
        await client.get("/signIn/openid?to=console")
        begun = await client.get("/signIn/openid")
        back = await client.get(await consent(begun.headers["location"], "bob"))
    assert "lbr_" in back.text
    assert "launchbay_session" not in str(back.headers.get_list("set-cookie"))


async def test_who_is_unknown_gets_no_session(api: Api, provider: Provider) -> None:
    await provider.know("mallory", email="mallory@elsewhere.example", email_verified=True)
    async with browser(api) as client:
        begun = await client.get("/signIn/openid?to=console")
        back = await client.get(await consent(begun.headers["location"], "mallory"))
        assert back.status_code == 403
        assert (await client.get("/console/account")).status_code == 303
