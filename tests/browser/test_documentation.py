"""The documentation at `/docs/…` in a browser: everybody can read it, a phone shows it, and nothing else is asked."""

import json
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.support.browser import AXE, RUN_AXE, Site

NARROW_PX = 360
PLACES = (
    "index",
    "get-started/concepts",
    "cookbook/two-tiers",
    "howto/install-package",
    "reference/settings",
    "reference/manifest/workflows",
    "troubleshooting",
    "search?q=stuck",
    "search?q=zzxqy",
)


@pytest.mark.slow
def test_the_pages_are_readable_for_everybody_in_both_themes(page: Page, site: Site) -> None:
    asked: set[str] = set()
    page.context.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    found = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for place in PLACES:
            page.goto(f"/docs/{place}")
            page.evaluate(AXE.read_text("utf-8"))
            violations = page.evaluate(RUN_AXE, {})
            if violations:
                found[f"{place}, {theme}"] = violations
    assert found == {}, json.dumps(found, indent=1)
    assert asked == {urlsplit(site.url).netloc}


@pytest.mark.slow
def test_a_phone_shows_the_pages_without_scrolling_sideways(page: Page) -> None:
    page.set_viewport_size({"width": NARROW_PX, "height": 740})
    wide = {}
    for place in PLACES:
        page.goto(f"/docs/{place}")
        if (width := page.evaluate("document.documentElement.scrollWidth")) > NARROW_PX:
            wide[place] = width
    assert wide == {}
    page.goto("/docs/cookbook/two-tiers")
    page.get_by_role("link", name="In this part").click()
    page.get_by_role("navigation", name="In this part").get_by_role("link", name="Scale a tier").click()
    assert page.title().startswith("Scale a tier")


@pytest.mark.slow
def test_a_command_is_copied_without_its_prompt(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/docs/cookbook/index")
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("launchbay validate shop.yml\nlaunchbay ")


@pytest.mark.slow
def test_a_search_leads_to_the_section(page: Page) -> None:
    page.goto("/docs/index")
    page.get_by_role("searchbox", name="Search the documentation").fill("409")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="409: conflict").click()
    assert page.url.endswith("/docs/troubleshooting#409-conflict-or-instancebusy")
