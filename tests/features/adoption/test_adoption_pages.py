"""How the console shows what is only observed."""

import httpx
import pytest

from tests.support.adoption import STEADY, state_text
from tests.support.drift import boxes
from tests.support.pages import ORIGIN, get
from tests.support.service import Api, accepted, fresh_name


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


@pytest.fixture
async def instance(api: Api) -> str:
    application = await api.application(boxes(STEADY))
    states = [{"component": "web", "state": state_text(fresh_name("lineage"))}]
    made = accepted(await api.post(f"applications/{application}/adoptions", {"states": states}))
    return str(made["instanceId"])


async def test_the_page_says_what_observed_means_and_offers_only_what_works(
    instance: str, visitor: httpx.AsyncClient
) -> None:
    path = f"/console/instances/{instance}"

    page = await get(visitor, path)

    assert page.answer.status_code == 200
    for text in (">Observed</span>", "only observed", "Take over…", "only forgets it"):
        assert text in page.answer.text
    for text in ("Run workflow", "Change configuration", "Offer as a service", "No return values yet"):
        assert text not in page.answer.text
    assert "Adopted <span" in page.answer.text
    assert "It adopted the state &#39;shop&#39; of web, with 1 resource (lineage " in page.answer.text
    end = (await visitor.get(f"{path}/end")).text
    assert "All that it describes stays" in end
    assert "runs destroy" not in end
    configuration = (await visitor.get(f"{path}/configuration")).text
    assert "Take it over to change its configuration" in configuration
    assert "Show difference" not in configuration
    drift = (await visitor.get(f"{path}/drift")).text
    assert "Put back" not in drift
    assert "Putting back" not in drift


async def test_the_button_makes_the_change_set_that_takes_it_over(
    api: Api, instance: str, visitor: httpx.AsyncClient
) -> None:
    token = (await get(visitor, f"/console/instances/{instance}")).fields["formToken"]

    headers = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}
    answer = await visitor.post(f"/console/instances/{instance}/take-over", data={"formToken": token}, headers=headers)

    assert answer.status_code == 303
    made = accepted(await api.get(f"change-sets/{answer.headers['location'].partition('?')[0].rpartition('/')[2]}"))
    assert made["act"] == "manage"
    assert made["plan"][0]["effects"] is not None


async def test_the_list_finds_what_is_only_observed(api: Api, instance: str, visitor: httpx.AsyncClient) -> None:
    launched = await api.running("launch: {steps: []}\n")

    page = (await visitor.get(f"/console/organizations/{api.organization}/instances?q=managed:observe")).text

    assert f"/console/instances/{instance}" in page
    assert f"/console/instances/{launched}" not in page
    assert ">Observed</span>" in page
