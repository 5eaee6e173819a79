"""One server and one browser for all of these tests; each test has a browser profile of its own.

Both end with the last of these tests (`scope="package"`): Playwright keeps an event loop running in this thread, and no
test that comes after could run one of its own.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.browser import CHROMIUM, FLAGS, Site, Watched, running_site, sign_in, watch

TIMEOUT_MS = 30_000
expect.set_options(timeout=TIMEOUT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    """The server."""
    # Outside of pytest's own directory: every pytest that starts closes that to PostgreSQL's account.
    directory = Path(tempfile.mkdtemp(prefix="launchbay-browser-"))
    try:
        with running_site(directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        pytest.skip("There is no chromium on this machine; install Debian's package chromium.")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def signed_in(site: Site, browser: Browser) -> Any:
    """The cookies of the administrator, who signed in once."""
    context = browser.new_context(base_url=site.url)
    page = context.new_page()
    sign_in(page)
    kept = context.storage_state()
    context.close()
    return kept


@pytest.fixture
def context(site: Site, browser: Browser, signed_in: Any) -> Iterator[BrowserContext]:
    """A profile in which the administrator is signed in."""
    opened = browser.new_context(base_url=site.url, storage_state=signed_in)
    opened.set_default_timeout(TIMEOUT_MS)
    yield opened
    opened.close()


@pytest.fixture
def watched(context: BrowserContext) -> Watched:
    """What goes wrong in the pages of the profile, seen from their first line on."""
    return watch(context)


@pytest.fixture
def page(context: BrowserContext, watched: Watched) -> Iterator[Page]:
    """A page of the administrator's; a script that breaks, or anything that the policy stops, fails the test."""
    yield context.new_page()
    watched.assert_quiet()


@pytest.fixture
def stranger(site: Site, browser: Browser) -> Iterator[Page]:
    """A page of somebody who has not signed in."""
    opened = browser.new_context(base_url=site.url)
    opened.set_default_timeout(TIMEOUT_MS)
    seen = watch(opened)
    yield opened.new_page()
    seen.assert_quiet()
    opened.close()
