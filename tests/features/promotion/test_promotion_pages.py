"""The board of an application in the console."""

import httpx
import pytest

from tests.support.pages import ORIGIN, get, words_of
from tests.support.promotion import NEW, way
from tests.support.service import Api


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
    for part in (f"Version {NEW} has to wait", "must run in", "closed", "The order of this application", "size"):
        assert part in text, part
    form = {"formToken": page.fields["formToken"], "from": found.environments[0], "to": found.environments[1]}
    made = await visitor.post(path, data=form, headers={"Origin": ORIGIN})
    assert made.status_code == 303, made.text
    assert "/changes/" in made.headers["location"]
    assert "Pending" in (await visitor.get(path)).text or "Ready" in (await visitor.get(path)).text
    await found.soaked()
    assert f"Version {NEW} can come" in words_of((await visitor.get(path)).text)
    back = await visitor.post(path, data={**form, "to": found.environments[0]}, headers={"Origin": ORIGIN})
    assert (back.status_code, "follow" in back.text) == (400, True)


async def test_an_application_without_an_order_says_what_one_is(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application()
    page = await visitor.get(f"/console/applications/{application}/promotion")
    assert "No order of environments" in page.text
