"""`python -m tests.support.screenshots [NAME …]` takes the pictures of the console's pages for the documentation.

Every page of `generators/console_gallery.py`, or the named ones, in light colors and at the width of a screen.
"""

import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from generators.console_gallery import FOLDER, GALLERY, Shown, file_name
from tests.support.browser import CHROMIUM, EMAIL, FLAGS, PASSWORD, Site, running_site, sign_in
from tests.support.showcase import showcase

PICTURES = Path(__file__).parents[2] / "docs" / FOLDER
WIDTH, HEIGHT, TALLEST = 1440, 700, 1600
_COLOURS = 96
_EXACT = 32
_LONG = {"instance": 2}  # pages whose end matters too


def main(names: list[str]) -> None:
    """Take the pictures of these pages, of all without names."""
    assert CHROMIUM is not None, "install Debian's package chromium"
    directory = Path(tempfile.mkdtemp(prefix="launchbay-pictures-"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    try:
        with running_site(directory, STOP_GRACE_S="1") as site, sync_playwright() as playwright:
            site.api.timeout = httpx.Timeout(60)
            addresses = showcase(site)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for shown in GALLERY:
                if not names or shown.name in names:
                    _take(browser, site, shown, addresses[shown.name])
            browser.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# Lines of a log that are out of view are drawn too.
_DRAW_ALL = "document.querySelectorAll('.log li').forEach(each => { each.style.contentVisibility = 'visible'; })"
_signed_in: dict[str, object] = {}


def _take(browser: Browser, site: Site, shown: Shown, address: str) -> None:
    if shown.name not in {"sign-in", "refresh-token"} and not _signed_in:
        first = browser.new_context(base_url=site.url)
        sign_in(first.new_page(), EMAIL, PASSWORD)
        _signed_in.update(first.storage_state())
        first.close()
    context = browser.new_context(
        base_url=site.url,
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="light",
        reduced_motion="reduce",
        storage_state=None if shown.name in {"sign-in", "refresh-token"} else _signed_in,  # type: ignore[arg-type]  # as it was given
    )
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(address, wait_until="load")
        for host in page.locator("[data-editor]:not([data-script]), [data-graph]").all():
            host.and_(page.locator("[data-ready]")).wait_for(state="attached")
        if shown.name in _PREPARED:
            _PREPARED[shown.name](page)
            page.evaluate("scrollTo(0, 0)")  # what sticks to the top stays there
        page.evaluate(_DRAW_ALL)
        page.wait_for_timeout(250)
        tallest = TALLEST * _LONG.get(shown.name, 1)
        tall = min(tallest, page.evaluate("document.documentElement.scrollHeight"))
        picture = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": tall})
        (PICTURES / file_name(shown)).write_bytes(_small(picture))
    finally:
        context.close()


def _difference(page: Page) -> None:
    page.get_by_label("Visitors at once").fill("50")
    page.get_by_role("button", name="Show difference").click()
    page.locator("#preview table").wait_for()
    page.evaluate("document.activeElement.blur()")


def _preview(page: Page) -> None:
    page.get_by_label("Visitors at once").fill("50")
    page.locator("#preview dl").wait_for()
    page.locator("summary", has_text="payments").click()
    page.evaluate("document.activeElement.blur()")


def _opened(page: Page) -> None:
    page.locator("#side .rows li").first.wait_for()


_PREPARED: dict[str, Callable[[Page], None]] = {
    "configuration": _difference,
    "launch": _preview,
    "instance": _opened,
}


def _small(picture: bytes) -> bytes:
    """Return a picture with few colours: those of its areas exactly, and others that stand for the rest."""
    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    counted = cast("list[tuple[int, tuple[int, int, int]]]", image.getcolors(image.width * image.height) or [])
    exact = [channel for _, colour in sorted(counted, reverse=True)[:_EXACT] for channel in colour]
    rest = image.quantize(_COLOURS - _EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette((exact + rest)[: 3 * _COLOURS])
    out = io.BytesIO()
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
