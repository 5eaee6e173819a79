"""The inventory of components, on a page that only the tests have: themes, density, phones, forced colors."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, FileSystemLoader
from playwright.sync_api import Page

from launchbay.console.assets import Glyph
from launchbay.console.forms import Forms
from launchbay.console.rendering import HEADERS, templates
from launchbay.console.shell import Appearance
from tests.support.browser import AXE, RUN_AXE

HERE = Path(__file__).parent
WIDTHS = (320, 390, 768, 1024, 1440, 1920)
ADDRESS = "/console/inventory"
Show = Callable[[Appearance], None]


def inventory(appearance: Appearance) -> str:
    """Render the page as nobody sees it: without a session."""
    assert templates.loader is not None
    overlay = templates.overlay(loader=ChoiceLoader([templates.loader, FileSystemLoader(HERE)]))
    values: dict[str, Any] = {
        "actor": None,
        "organization": None,
        "appearance": appearance,
        "flash": None,
        "forms": Forms(),
        "now": datetime.now(UTC),
    }
    return overlay.get_template("inventory.html").render(values)


@pytest.fixture
def show(page: Page) -> Show:
    """Open the inventory with an appearance, under the policy of all pages."""

    def opened(appearance: Appearance) -> None:
        page.unroute_all()
        page.route(
            f"**{ADDRESS}",
            lambda route: route.fulfill(
                body=inventory(appearance), headers={**HEADERS, "Content-Type": "text/html; charset=utf-8"}
            ),
        )
        page.goto(ADDRESS)
        page.evaluate("document.fonts.ready")

    return opened


@pytest.mark.parametrize("density", ["comfortable", "compact"])
def test_axe_finds_nothing_in_both_themes(page: Page, show: Show, density: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed; frontend/packages installs it.")
    found = {}
    for theme in ("light", "dark"):
        show(Appearance(theme=theme, density=density))
        page.evaluate(AXE.read_text("utf-8"))
        found[theme] = page.evaluate(RUN_AXE, {})
    assert found == {"light": [], "dark": []}, json.dumps(found, indent=1)


def test_the_page_is_as_wide_as_the_screen(page: Page, show: Show) -> None:
    show(Appearance())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_compact_rows_are_lower(page: Page, show: Show) -> None:
    heights = {}
    for density in ("comfortable", "compact"):
        show(Appearance(density=density))
        heights[density] = page.locator("tbody tr").first.bounding_box()["height"]  # type: ignore[index]  # it is visible
    assert heights["comfortable"] - heights["compact"] == pytest.approx(8, abs=1)


@pytest.mark.parametrize("forced", ["none", "active"])
def test_nine_glyphs_have_nine_shapes(page: Page, show: Show, forced: Any) -> None:
    page.emulate_media(forced_colors=forced, reduced_motion="reduce")
    show(Appearance(theme="light"))
    # In gray, as they look to somebody who sees no colors.
    page.evaluate("document.documentElement.style.filter = 'grayscale(1)'")
    glyphs = page.locator(".pill > svg.g")
    pictures = {glyphs.nth(at).screenshot() for at in range(len(Glyph))}
    assert len(pictures) == len(Glyph)


def test_the_font_is_our_own(page: Page, show: Show) -> None:
    show(Appearance())
    assert page.evaluate("document.fonts.check('16px Inter')")
    assert page.evaluate("[...document.fonts].map(font => font.status)") == ["loaded"]


def test_a_dialog_opens_from_its_button_and_gives_the_focus_back(page: Page, show: Show) -> None:
    show(Appearance())
    opener = page.get_by_role("button", name="Open a dialog")
    opener.click()
    assert page.locator("#sample").evaluate("dialog => dialog.open")
    page.keyboard.press("Escape")
    assert opener.evaluate("button => button === document.activeElement")
