"""Every page of the console has its picture in the documentation."""

from PIL import Image

from generators.console_gallery import FOLDER, GALLERY, Shown, file_name
from launchbay.app.features import PAGES
from tests.support.cases import hold
from tests.support.documentation import DOCS
from tests.support.showcase import NO_PAGES

# Not in the console's routes: a page of the API, and the page of all errors.
_OUTSIDE = {"/refreshToken", "/console/{anything}"}
WIDE_PX = 1440
_MOST_BYTES = 40_000 * len(GALLERY)


def test_every_page_of_the_console_is_in_the_gallery() -> None:
    pages = {page.path for page in PAGES if page.method == "GET"} - NO_PAGES
    assert {shown.path for shown in GALLERY} == pages | _OUTSIDE


def test_a_page_has_its_picture() -> None:
    hold(_has_its_picture, ((each,) for each in GALLERY), named=lambda shown: str(shown.name))


def _has_its_picture(shown: Shown) -> None:
    text = (DOCS / "reference" / "console-pages.md").read_text("utf-8")
    assert f"(../{FOLDER}/{file_name(shown)})" in text
    with Image.open(DOCS / FOLDER / file_name(shown)) as picture:
        assert picture.format == "PNG"
        assert picture.width == WIDE_PX


def test_the_pictures_are_small_and_each_belongs_to_a_page() -> None:
    found = {path.name: path.stat().st_size for path in (DOCS / FOLDER).iterdir()}
    assert set(found) == {file_name(shown) for shown in GALLERY}
    assert sum(found.values()) <= _MOST_BYTES
