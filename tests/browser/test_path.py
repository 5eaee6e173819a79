"""The console and the documentation below a path, behind a proxy that knows no other path of the host."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import EMAIL, PASSWORD, WALK_S, Site, fresh_name, opened, ready, running_site, watch
from tests.support.proxies import PREFIX, nginx, running_proxy
from tests.support.servers import free_ports
from tests.support.showcase import World, made

# Every address on this host that an element leads to, whatever its attribute is called.
_ADDRESSES = """() => [...document.querySelectorAll('*')].flatMap(each => [...each.attributes]
    .filter(({name, value}) => /^[/][^/]/.test(value) && !['value', 'content', 'data-copy', 'd'].includes(name))
    .map(({name, value}) => `${name}=${value}`))"""

OUTSIDE = re.compile(rf"[^=]+=(?!{PREFIX}(/|$))")


@pytest.fixture(scope="module")
def below() -> Iterator[Site]:
    """A server behind nginx. Its `url` is that of the proxy, with the path."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-path-"))
    [port] = free_ports(1)
    address = f"https://localhost:{port}{PREFIX}"
    try:
        with (
            running_site(directory, BASE_URL=address, TRUSTED_PROXIES="127.0.0.1") as site,
            running_proxy(nginx, port, site.url.removeprefix("http://"), below_path=True),
        ):
            yield Site(address, site.api, site.organization)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def world(below: Site) -> World:
    return made(below)


@pytest.fixture
def context(below: Site, browser: Browser) -> Iterator[BrowserContext]:
    """A profile that fails the test if anything leaves the path, or isn't there."""
    opened_context = browser.new_context(base_url=below.url, ignore_https_errors=True)
    opened_context.set_default_timeout(30_000)
    astray: list[str] = []
    opened_context.on(
        "request",
        lambda request: None if request.url.startswith((f"{below.url}/", "data:")) else astray.append(request.url),
    )
    seen = watch(opened_context)
    yield opened_context
    seen.assert_quiet()
    opened_context.close()
    assert astray == []


@pytest.fixture
def page(context: BrowserContext, below: Site) -> Page:
    """A page of the administrator, who came to the path itself and signed in there."""
    page = context.new_page()
    page.goto(f"{below.url}/")
    page.get_by_label("Email address").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(lambda url: "/console" in url and "/signIn" not in url)
    return page


@pytest.mark.timeout(WALK_S)
def test_no_page_has_an_address_outside_the_path(page: Page, below: Site, world: World) -> None:
    found: dict[str, list[str]] = {}
    missing: list[str] = []
    page.context.on("response", lambda answer: missing.append(answer.url) if answer.status in {404, 502} else None)
    for name, path in {
        **world.paths,
        "docs": "/docs",
        "manual": "/docs/index",
        "search": "/docs/search?q=proxy",
    }.items():
        opened(page, below.url + path)
        if strays := [each for each in page.evaluate(_ADDRESSES) if OUTSIDE.match(each)]:
            found[name] = strays[:5]
    assert found == {}
    assert [each for each in missing if "/static/" in each] == []


def test_forms_scripts_and_live_pages_work_below_the_path(page: Page, below: Site) -> None:
    application = below.application("launch: { steps: [ { rest: { action: wait, parameters: { delay: 3 } } } ] }\n")
    page.goto(f"{below.url}/console/applications/{application}/manifest")
    ready(page)
    page.goto(f"{below.url}/console/applications/{application}/launch")
    name = fresh_name("below").replace(" ", "-")
    page.get_by_label("Name", exact=True).first.fill(name)
    page.get_by_role("button", name=re.compile("^Launch")).first.click()
    expect(page).to_have_url(re.compile(rf"{PREFIX}/console/instances/[0-9a-f]{{24}}"))
    # Without loading the page again.
    expect(page.get_by_text("Running", exact=True).first).to_be_visible(timeout=60_000)

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Command palette").or_(page.locator("#palette [name=q]")).first.fill(name)
    expect(page.locator("#palette-list")).to_contain_text(name)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"{PREFIX}/console/instances/[0-9a-f]{{24}}"))

    before = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    page.wait_for_load_state("networkidle")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") != before
    cookies = page.context.cookies()
    assert cookies
    for cookie in cookies:  # browsers want the path `/` of those with the prefix; then the name has ours
        assert cookie["path"].startswith(PREFIX) or cookie["name"].endswith(PREFIX.replace("/", "~")), cookie

    page.goto(f"{below.url}/console/organizations/{below.organization}/instances")
    page.locator("[data-row-menu]").first.click()
    expect(page.get_by_role("link", name="Set expiry")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#account-menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Launchbay")).to_be_visible()
    assert urlsplit(page.url).path == f"{PREFIX}/console/signIn"
