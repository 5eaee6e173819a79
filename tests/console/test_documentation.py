"""The documentation at `/docs/…`: every page, its links, its search, and the links of errors to it."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from launchbay import documentation
from launchbay.console.pages.documentation import _kept, rendered
from launchbay.documentation import pages, search
from tests.support.pages import browser
from tests.support.service import Api


@pytest.fixture
async def guest(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session."""
    async with browser(api) as client:
        yield client


@pytest.mark.parametrize("path", sorted(pages()))
def test_every_link_of_a_page_leads_to_a_page_and_a_heading(path: str) -> None:
    text = rendered(path)
    anchors = set(re.findall(r'<h\d id="([^"]+)"', text))
    assert {section.anchor for section in pages()[path].sections} == anchors
    assert ' style="' not in text  # the policy of the page forbids it
    for link in re.findall(r'<a href="([^"]+)"', text):
        target, _, anchor = unescape(link).partition("#")
        if target.startswith(("https:", "http:", "mailto:")):
            continue
        name = target.removeprefix("/docs/") or path
        if name.endswith(".svg"):
            continue
        assert name in pages(), link
        assert not anchor or anchor in {section.anchor for section in pages()[name].sections}, link


async def test_the_menu_of_a_page_leads_to_the_documentation_about_it(visitor: httpx.AsyncClient, api: Api) -> None:
    schedules = await visitor.get(f"/console/organizations/{api.organization}/schedules")
    assert schedules.text.count('href="/docs/howto/recurring-schedules"') >= 2, "in the menu and the bar"
    changes = await visitor.get(f"/console/organizations/{api.organization}/changes")
    assert 'href="/docs/howto/change-safely" aria-label="Help: Change safely"' in changes.text
    services = await visitor.get(f"/console/organizations/{api.organization}/services")
    assert 'href="/docs/reference/services"' in services.text


async def test_a_page_has_its_menu_its_contents_and_its_neighbors(guest: httpx.AsyncClient) -> None:
    answer = await guest.get("/docs/howto/secrets")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert 'aria-current="page">Keep secrets<' in answer.text
    assert 'rel="prev"' in answer.text
    assert 'rel="next"' in answer.text
    assert 'data-copy="' in answer.text
    assert "docs/howto/secrets.md" in answer.text
    assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?|png|svg)"', answer.text)


def test_a_diagram_can_be_scrolled_with_the_keyboard_and_numbers_stand_below_each_other() -> None:
    assert '<p class="scroll" tabindex="0"><img src="/docs/images/life-cycle.svg"' in rendered("get-started/concepts")
    assert '<td class="end">' in rendered("explain/architecture")


def copied_of(page: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'data-copy="([^"]*)"', rendered(page))]


def test_copying_a_command_leaves_out_prompt_and_output() -> None:
    copied = copied_of("howto/install-package")
    assert copied
    assert not [each for each in copied if each.startswith("$ ")]
    token = next(each for each in copied_of("howto/automation-tokens") if "token create" in each)
    assert "--scope 'CreateInstance: [/applications/*]'" in token  # on the line that continues the command
    assert "expiresAt" not in token


async def test_a_search_lists_sections_and_no_result_says_so(guest: httpx.AsyncClient) -> None:
    found = await guest.get("/docs/search", params={"q": "recurring cron"})
    assert '<a href="/docs/howto/recurring-schedules#' in found.text
    none = await guest.get("/docs/search", params={"q": '"><script>alert(1)</script>'})
    assert none.status_code == 200
    assert "No page has any of these words" in none.text
    assert "<script>alert" not in none.text
    most = await guest.get("/docs/search", params={"q": "rotate zzxqy key"})
    assert "No page has all of these words" in most.text
    assert '<a href="/docs/howto/rotate-the-key#' in most.text


async def test_an_error_links_to_its_explanation(guest: httpx.AsyncClient) -> None:
    problem = (await guest.get("/api/1/organizations")).json()
    assert problem["docs"] == "/docs/codes/NotAuthenticated"
    answer = await guest.get(problem["docs"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs/reference/errors#notauthenticated")
    several = await guest.get("/docs/codes/409")
    assert several.headers["location"] == "/docs/search?q=409"


async def test_old_addresses_lead_to_the_pages(guest: httpx.AsyncClient) -> None:
    for old, new in documentation.MOVED.items():
        answer = await guest.get(f"/docs/{old}")
        assert (answer.status_code, answer.headers["location"]) == (301, f"/docs/{new}"), old
    assert (await guest.get("/docs/")).headers["location"] == "/docs/index"
    assert (await guest.get("/docs/api")).headers["location"] == "/docs"
    assert (await guest.get("/docs/reference/errors.html")).status_code == 200
    assert (await guest.get("/docs/reference/errors.md")).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["nowhere", "images/nowhere.svg", "images/%2e%2e/errors.svg", "images/..%2f..%2fLICENSE", "decisions/0031-x"],
)
async def test_what_does_not_exist_is_a_page_that_says_so(guest: httpx.AsyncClient, path: str) -> None:
    assert (await guest.get(f"/docs/{path}")).status_code == 404


async def test_the_page_of_the_api_stays_and_leads_to_the_documentation(guest: httpx.AsyncClient) -> None:
    assert 'href="/docs/index"' in (await guest.get("/docs")).text


async def test_a_page_is_sent_again_only_after_a_change(guest: httpx.AsyncClient) -> None:
    first = await guest.get("/docs/howto/secrets")
    assert first.headers["cache-control"] == "private, no-cache"
    tag = first.headers["etag"]
    for condition in (tag, f'"other", W/{tag}', "*"):
        again = await guest.get("/docs/howto/secrets", headers={"If-None-Match": condition})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "default-src 'none'" in again.headers["content-security-policy"]
    assert (await guest.get("/docs/howto/secrets", headers={"If-None-Match": '"other"'})).text == first.text
    dark = await guest.get("/docs/howto/secrets", headers={"Cookie": "launchbay_theme=dark"})
    assert 'data-theme="dark"' in dark.text
    assert dark.headers["etag"] != tag
    assert dark.headers["vary"] == "Cookie"


async def test_no_cookie_makes_the_server_keep_more_pages(guest: httpx.AsyncClient) -> None:
    for number in range(20):
        answer = await guest.get("/docs/howto/secrets", headers={"Cookie": f"launchbay_theme=made-up-{number}"})
        assert "made-up" not in answer.text
    assert len([path for path, _ in _kept if path == "howto/secrets"]) <= 3


async def test_searches_of_one_address_take_turns(guest: httpx.AsyncClient, api: Api) -> None:
    turns = api.parts.quotas.turns
    answers = asyncio.gather(*(guest.get("/docs/search", params={"q": "a b c d e f g h i j"}) for _ in range(8)))
    async with asyncio.timeout(20):
        while not any(each.startswith("search ") for each in turns.active()):
            await asyncio.sleep(0)
        assert {each.status_code for each in await answers} == {200}


def test_a_word_that_is_repeated_is_looked_for_once() -> None:
    assert search("launch " * 1000) == search("launch")
