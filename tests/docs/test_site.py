"""The documentation as a site (`make docs`): every page is in it, and no link of it leads nowhere."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from docsite.build import BUILD, EVIDENCE, ROOT, configuration, placed


def entries(nav: Any) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from entries(value)


def test_every_page_is_in_the_menu() -> None:
    menu = set(entries(tomllib.loads(configuration())["project"]["nav"]))
    all_pages = {place.as_posix() for place in placed().values()}
    listed_by_another_page = {page for page in all_pages if page.startswith(("decisions/", "evidence/"))} - {EVIDENCE}
    assert all_pages - listed_by_another_page <= menu
    assert menu - all_pages == {"decisions/index.md"}


@pytest.mark.slow
def test_the_site_is_built_without_a_broken_link_and_asks_nobody_else() -> None:
    build = subprocess.run(
        [sys.executable, "docsite/build.py"], capture_output=True, text=True, cwd=ROOT, check=False, timeout=110
    )
    assert build.returncode == 0, build.stdout + build.stderr
    pages = list((BUILD / "html").rglob("*.html"))
    assert len(pages) > len(placed())
    foreign = ("fonts.googleapis", "cdn.", "unpkg", "gstatic")
    assert [page.name for page in pages if any(host in page.read_text("utf-8") for host in foreign)] == []
