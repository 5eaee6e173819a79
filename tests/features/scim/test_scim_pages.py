"""What the page of users says about the identity provider."""

import httpx
import pytest

from launchbay.features.scim.usecases import find_stuck
from tests.support.pages import get
from tests.support.scim import provider_of, refused
from tests.support.service import Api

pytestmark = pytest.mark.features("scim")


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """Nothing runs: pages are what these tests look at."""
    return idle_service


async def test_the_page_of_users_says_how_to_set_it_up_and_what_was_refused(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    page = f"/console/organizations/{api.organization}/users"
    before = await get(visitor, page)
    assert "/scim/v2" in before.text
    assert "ProvisionUsers: [/*]" in before.text
    assert "Not yet" in before.text
    provider = await provider_of(api)
    await provider.send("GET", "/Users")
    refused(await provider.send("GET", '/Users?filter=userName co "x"'), 400, "invalidFilter")
    after = await get(visitor, page)
    assert "Not yet" not in after.text
    assert "Filters compare with eq" in after.text


async def test_an_operator_hears_of_a_provider_that_is_refused(api: Api) -> None:
    provider = await provider_of(api)
    refused(await provider.send("GET", '/Users?filter=userName co "x"'), 400, "invalidFilter")
    found = await stuck(api)
    assert len(found) == 1
    assert "Filters compare" in found[0]
    await provider.send("GET", "/Users")
    assert await stuck(api) == []


async def stuck(api: Api) -> list[str]:
    """Return what the doctor says of identity providers."""
    async with api.database.connection() as connection:
        return [each.found for each in await find_stuck(connection)]
