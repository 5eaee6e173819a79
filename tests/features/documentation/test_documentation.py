"""The documentation at `/docs/…`: every page, its links, its search, and the links of errors to it."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from launchbay import documentation
from launchbay.app.features import ENDPOINTS
from launchbay.console.assets import NAMES, content
from launchbay.documentation import pages, search
from launchbay.features.documentation.pages import _stored, rendered
from tests.support.cases import hold
from tests.support.pages import browser
from tests.support.service import Api

PAGE_BYTES = 60 * 1024


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """Nothing runs: pages are what these tests look at."""
    return idle_service


@pytest.fixture
async def guest(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session."""
    async with browser(api) as client:
        yield client


def test_every_link_of_a_page_leads_to_a_page_and_a_heading() -> None:
    hold(_leads_to_pages_and_headings, ((path,) for path in sorted(pages())))


def _leads_to_pages_and_headings(path: str) -> None:
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
    assert 'href="/docs/howto/recurring-schedules" aria-label="Help: Recurring schedules"' in schedules.text
    changes = await visitor.get(f"/console/organizations/{api.organization}/changes")
    assert 'href="/docs/howto/change-safely" aria-label="Help: Change safely"' in changes.text
    services = await visitor.get(f"/console/organizations/{api.organization}/services")
    assert 'href="/docs/reference/services"' in services.text


async def test_the_book_opens_the_home_of_the_documentation(visitor: httpx.AsyncClient, api: Api) -> None:
    for path in ("", "/schedules", "/users"):
        page = (await visitor.get(f"/console/organizations/{api.organization}{path}")).text
        books = re.findall(r'<a [^>]*href="([^"]*)"[^>]*><svg[^>]*><use href="[^"]*#i-book"', page)
        assert set(books) == {"/docs/index"}, path


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
    none = await guest.get("/docs/search", params={"q": '"><zzxqy>yqxzz</zzxqy>'})
    assert none.status_code == 200
    assert "No page has any of these words" in none.text
    assert "<zzxqy>" not in none.text
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


async def sent_bytes(guest: httpx.AsyncClient, path: str, encoding: str) -> int:
    """Ask for a page, and return the bytes of its body on the wire."""
    async with guest.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
        assert answer.status_code == 200, path
        assert answer.headers.get("content-encoding", "identity") == ("gzip" if encoding == "gzip" else "identity"), (
            path
        )
        return len(b"".join([part async for part in answer.aiter_raw()]))


@pytest.mark.slow  # it renders all pages
async def test_every_page_is_sent_compressed_in_at_most_60_kilobytes(guest: httpx.AsyncClient) -> None:
    operations = [f"api/{endpoint.operation_id}" for endpoint in ENDPOINTS]
    sizes = {path: await sent_bytes(guest, f"/docs/{path}", "gzip") for path in (*pages(), *operations)}
    sizes[""] = await sent_bytes(guest, "/docs", "gzip")
    assert {path: size for path, size in sizes.items() if size > PAGE_BYTES} == {}
    whole = {path: await sent_bytes(guest, f"/docs/{path}".rstrip("/"), "identity") for path in ("", *operations)}
    index = whole.pop("")  # it lists all operations
    assert index <= 80 * 1024
    assert {path: size for path, size in whole.items() if size > PAGE_BYTES} == {}


@pytest.mark.parametrize(
    "path", ["/docs", "/docs/howto/secrets", "/docs/api/launch_application", "/docs/images/concepts.svg"]
)
async def test_the_tag_of_a_page_is_that_of_its_encoding(guest: httpx.AsyncClient, path: str) -> None:
    tags = []
    for encoding in ("gzip, br", "identity", "gzip;q=0"):
        answer = await guest.get(path, headers={"Accept-Encoding": encoding})
        assert "Accept-Encoding" in answer.headers["vary"]
        asked_again = {"Accept-Encoding": encoding, "If-None-Match": answer.headers["etag"]}
        again = await guest.get(path, headers=asked_again)
        assert (again.status_code, again.content) == (304, b"")
        tags.append(answer.headers["etag"])
    assert tags[0] != tags[1] == tags[2]


async def test_files_of_pages_are_compressed_except_the_font(guest: httpx.AsyncClient) -> None:
    for name in NAMES:
        answer = await guest.get(f"/console/static/{name}", headers={"Accept-Encoding": "gzip"})
        assert answer.content == content(name), name
        assert (answer.headers.get("content-encoding") == "gzip") is (not name.endswith(".woff2")), name


async def test_the_api_has_the_frame_of_the_documentation(guest: httpx.AsyncClient) -> None:
    answer = await guest.get("/docs")
    for endpoint in ENDPOINTS:
        assert f'id="{endpoint.operation_id}"><span class="verb' in answer.text, "where links to it led before"
        assert f'href="/docs/api/{endpoint.operation_id}"' in answer.text
    one = await guest.get("/docs/api/launch_application", headers={"Cookie": "launchbay_theme=dark"})
    for page in (answer, one):
        assert 'href="/docs/index"' in page.text
        assert 'action="/docs/search"' in page.text
        assert '<body class="docs">' in page.text
        assert "unsafe" not in page.headers["content-security-policy"]
    assert 'data-theme="dark"' in one.text
    command = unescape(re.findall(r'data-copy="([^"]*)"', one.text)[0])
    assert "-X POST -H 'Content-Type: application/json'" in command
    assert '"$LAUNCHBAY/api/1/applications/{appId}/launch"' in command
    assert (await guest.get("/docs/api/no_such_operation")).status_code == 404


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
    assert dark.headers["vary"] == "Cookie, Accept-Encoding"


async def test_no_cookie_makes_the_server_keep_more_pages(guest: httpx.AsyncClient) -> None:
    for number in range(20):
        answer = await guest.get("/docs/howto/secrets", headers={"Cookie": f"launchbay_theme=made-up-{number}"})
        assert "made-up" not in answer.text
    assert len([path for path, _ in _stored if path == "howto/secrets"]) <= 3


async def test_searches_of_one_address_take_turns(guest: httpx.AsyncClient, api: Api) -> None:
    turns = api.parts.turns
    answers = asyncio.gather(*(guest.get("/docs/search", params={"q": "a b c d e f g h i j"}) for _ in range(8)))
    async with asyncio.timeout(20):
        while not any(each.startswith("search ") for each in turns.active()):
            await asyncio.sleep(0)
        assert {each.status_code for each in await answers} == {200}


def test_a_word_that_is_repeated_is_looked_for_once() -> None:
    assert search("launch " * 1000) == search("launch")


@pytest.mark.parametrize("typed", ["pgbouncer's", "PgBouncer’s", "'pgbouncer'"])
def test_a_search_finds_a_word_with_an_apostrophe(typed: str) -> None:
    assert search(typed) == search("pgbouncer") != []
