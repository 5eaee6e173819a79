"""The documentation as a site (`make docs`): every page is in it, and no link of it leads nowhere."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from docsite.build import BUILD, ROOT, configuration, placed
from launchbay import __version__

ADDRESSES = Path(__file__).with_name("addresses.txt")  # of pages before they moved
MENU_ENTRIES = 9  # of a group
LISTED_ELSEWHERE = ("contribute/decisions/", "contribute/evidence/", "reference/api/", "reference/cli/")


def entries(nav: Any) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from entries(value)


def levels(nav: Any, name: str = "tabs") -> Iterator[tuple[str, int]]:
    """Yield each group of the menu with the number of its entries."""
    yield name, len(nav)
    for entry in nav:
        for title, value in entry.items():
            if not isinstance(value, str):
                yield from levels(value, title)


def broken_links(site: Path) -> Iterator[str]:
    """Yield the links of a built site that lead to no file, or to no element of it."""
    texts = {page: page.read_text("utf-8") for page in sorted(site.rglob("*.html"))}
    ids = {page: set(re.findall(r'\sid="?([^"\s>]+)', text)) for page, text in texts.items()}
    for page, text in texts.items():
        if page.name == "404.html":
            continue  # its links begin at the root of the server
        for link in re.findall(r'<a\s[^>]*?href="([^"]*)"', text):
            target, _, anchor = unescape(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (page.parent / unquote(target)).resolve() if target not in {"", "."} else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and file in ids and unquote(anchor) not in ids[file]):
                yield f"{page.relative_to(site)}: {link}"


def test_a_broken_link_of_the_site_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#x">b</a> <a href="c.html">c</a> <a href="b.html#y">b</a>', "utf-8"
    )
    (tmp_path / "b.html").write_text(
        '<h1 id="x">b</h1> <a href="a.html">a</a> <a href="https://x.example">x</a>', "utf-8"
    )
    assert list(broken_links(tmp_path)) == ["a.html: c.html", "a.html: b.html#y"]


def test_every_page_is_in_the_menu() -> None:
    menu = set(entries(tomllib.loads(configuration())["project"]["nav"]))
    all_pages = {place.as_posix() for place in placed().values()}
    listed_by_another_page = {page for page in all_pages if page.startswith(LISTED_ELSEWHERE)}
    assert all_pages - listed_by_another_page <= menu
    assert menu - all_pages == {"contribute/decisions/index.md"}
    assert {page for page in all_pages if page.endswith("/index.md")} <= menu


def test_a_group_of_the_menu_is_read_at_a_glance() -> None:
    groups = dict(levels(tomllib.loads(configuration())["project"]["nav"]))
    assert len(groups) > 10
    assert {name: count for name, count in groups.items() if count > MENU_ENTRIES} == {}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_site_is_built_without_a_broken_link_and_asks_nobody_else() -> None:
    build = subprocess.run(
        [sys.executable, "docsite/build.py"], capture_output=True, text=True, cwd=ROOT, check=False, timeout=300
    )
    assert build.returncode == 0, build.stdout + build.stderr
    pages = list((BUILD / "html").rglob("*.html"))
    assert len(pages) > len(placed())
    assert list(broken_links(BUILD / "html")) == []
    foreign = ("fonts.googleapis", "cdn.", "unpkg", "gstatic")
    assert [page.name for page in pages if any(host in page.read_text("utf-8") for host in foreign)] == []
    upgrade = (BUILD / "html" / "howto" / "upgrade.html").read_text("utf-8")
    assert f"<title>Upgrade - Launchbay {__version__}</title>" in upgrade
    assert "To change this page, edit <code>docs/howto/upgrade.md</code>" in upgrade
    assert 'href="../copy.css"' in upgrade
    assert re.findall(r"<a [^>]*href=[^>]*></a>", upgrade) == []  # a tab stop without a name
    assert re.findall(r'<input class="md-option"(?! tabindex="-1")', upgrade) == []
    moved = (BUILD / "html" / "guarantees.html").read_text("utf-8")
    assert 'url=explain/guarantees.html"' in moved
    once = {line.partition("#")[0] for line in ADDRESSES.read_text("utf-8").splitlines()}
    assert [page for page in sorted(once) if not (BUILD / "html" / f"{page}.html").exists()] == []
    index = json.loads((BUILD / "html" / "search.json").read_text("utf-8"))["items"]
    locations = [item["location"] for item in index]
    assert not [place for place in locations if place.startswith("contribute/")]
    assert [item["location"] for item in index if "To change this page" in item["text"]] == []
    assert "reference/errors.html#invalidparameters" in locations
    assert any(place.startswith("troubleshooting.html#stuck") for place in locations)
