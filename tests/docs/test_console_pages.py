"""Every page of the console has its pictures in the documentation."""

import pytest
from PIL import Image

from generators.console_gallery import FOLDER, GALLERY, SCHEMES, WIDTHS, Shown, file_name
from launchbay.console.app import ROUTES
from tests.docs.pages import DOCS

# What leads elsewhere at once, and what is a part of a page.
_NO_PAGES = {"/console", "/console/instances/{id}/events", "/console/organizations/{id}/explanation"}
# What is no row of the console's table: a page of the API's server, and what stands for all refusals.
_BESIDE = {"/refreshToken", "/console/{anything}"}
_MOST_BYTES = 6_000_000


def test_every_page_of_the_console_is_in_the_gallery() -> None:
    pages = {page.path for page in ROUTES if page.method == "GET"} - _NO_PAGES
    assert {shown.path for shown in GALLERY} == pages | _BESIDE


@pytest.mark.parametrize("shown", GALLERY, ids=lambda shown: str(shown.name))
def test_a_page_has_a_picture_of_each_kind(shown: Shown) -> None:
    text = (DOCS / "reference" / "console-pages.md").read_text("utf-8")
    for scheme in SCHEMES:
        for width in WIDTHS:
            name = file_name(shown, scheme, width)
            assert f"(../{FOLDER}/{name})" in text
            with Image.open(DOCS / FOLDER / name) as picture:
                assert picture.format == "PNG"
                assert picture.width == {"wide": 1180, "narrow": 390}[width]


def test_the_pictures_are_small_and_there_is_none_of_a_page_that_is_gone() -> None:
    found = {path.name: path.stat().st_size for path in (DOCS / FOLDER).iterdir()}
    assert set(found) == {
        file_name(shown, scheme, width) for shown in GALLERY for scheme in SCHEMES for width in WIDTHS
    }
    assert sum(found.values()) <= _MOST_BYTES
