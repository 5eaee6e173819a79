"""Fields of addresses and of searches that a page doesn't know: an error, and nothing to act on (decision 0163)."""

import re
from functools import partial
from html import unescape

import httpx
import pytest

from launchbay.console.request import PageRoute
from tests.support.cases import each_holds
from tests.support.pages import browser
from tests.support.served import PAGES
from tests.support.service import UNKNOWN, Api

_PARAMETER = re.compile(r"\{[a-zA-Z]+\}")
SHOWN = [each for each in PAGES if each.method == "GET" and not each.public]
# Links fill in their forms, with fields that depend on the object.
OPEN = {
    "/console/organizations/{id}/bulk/new",
    "/console/applications/{id}/rollouts/new",
    "/console/instances/{id}/runs/compare",
}
# What a page with a search shows of rows and of acts on them.
SEARCHED = ("instances", "runs", "audit", "users")


@pytest.mark.features("bulk")
def test_all_pages_but_forms_declare_their_fields() -> None:
    assert {each.path for each in SHOWN if each.query is None} == OPEN


async def test_a_page_refuses_a_field_that_it_does_not_know(visitor: httpx.AsyncClient) -> None:
    await each_holds(
        partial(_refuses_the_field, visitor),
        ((page,) for page in SHOWN if page.query is not None),
        named=lambda page: page.path,
    )


async def _refuses_the_field(visitor: httpx.AsyncClient, page: PageRoute) -> None:
    assert page.query is not None
    declared = sorted(page.query)
    name = declared[0] + "z" if declared else "statuss"
    answer = await visitor.get(f"{_PARAMETER.sub(UNKNOWN, page.path)}?{name}=Failed")
    text = unescape(answer.text)
    assert (answer.status_code, f"{name!r} is unknown" in text) == (400, True)
    assert not declared or len(declared[0]) == 1 or f"Did you mean '{declared[0]}'?" in text


@pytest.mark.parametrize("section", SEARCHED)
async def test_a_search_with_an_unknown_field_shows_an_error_and_no_rows(
    api: Api, visitor: httpx.AsyncClient, section: str
) -> None:
    await api.launch(await api.application())
    base = f"/console/organizations/{api.organization}/{section}"
    whole = await visitor.get(base)
    assert "<tbody" in whole.text or 'class="feed"' in whole.text
    for query in ("colour:red", "statuss:failed roll:Guest", "isx:disabled"):
        answer = await visitor.get(base, params={"q": query})
        assert answer.status_code == 400
        assert "There is no field" in unescape(answer.text)
        assert "<tbody" not in answer.text
        assert 'class="feed"' not in answer.text
        assert 'name="act"' not in answer.text, "nothing to do with all of them"


async def test_values_that_do_not_exist_select_nothing(api: Api, visitor: httpx.AsyncClient) -> None:
    await api.launch(await api.application())
    home = f"/console/organizations/{api.organization}"
    for address in (
        "/instances?status=faild", "/instances?application=x", "/instances?environment=x", "/instances?q=status:faild",
        "/schedules?kind=x", "/approvals?view=x",
    ):  # fmt: skip
        answer = await visitor.get(home + address)
        assert (answer.status_code, 'name="act"' in answer.text) == (400, False), address


@pytest.mark.features("bulk")
async def test_a_file_and_a_bulk_run_of_such_a_search_are_refused(api: Api, visitor: httpx.AsyncClient) -> None:
    home = f"/console/organizations/{api.organization}"
    for section in ("instances", "runs", "audit"):
        answer = await visitor.get(f"{home}/{section}/export", params={"q": "colour:red"})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    form = await visitor.get(f"{home}/bulk/new", params={"act": "destroy", "all": "1", "q": "colour:red"})
    assert "There is no field colour" in unescape(form.text)


async def test_pages_without_a_session_take_what_others_add(api: Api) -> None:
    async with browser(api) as visitor:
        assert (await visitor.get("/console/signIn?utm_source=mail")).status_code == 200
