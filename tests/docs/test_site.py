"""The documentation as a site (`make docs`): every page is in it, and no link of it leads nowhere."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

from docsite.build import BUILD, ROOT, placed


def entries(nav: Any) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from entries(value)


def test_every_page_is_in_the_menu() -> None:
    menu = set(entries(tomllib.loads((ROOT / "docsite" / "zensical.toml").read_text())["project"]["nav"]))
    pages = {place.as_posix() for place in placed().values() if place.parts[0] != "decisions"}
    assert pages <= menu
    assert menu - pages == {"decisions/index.md", "changes.md"}


def test_the_site_is_built_without_a_broken_link_and_asks_nobody_else() -> None:
    build = subprocess.run(
        [sys.executable, "docsite/build.py"], capture_output=True, text=True, cwd=ROOT, check=False, timeout=110
    )
    assert build.returncode == 0, build.stdout + build.stderr
    pages = list((BUILD / "html").rglob("*.html"))
    assert len(pages) > len(placed())
    foreign = ("fonts.googleapis", "cdn.", "unpkg", "gstatic")
    assert [page.name for page in pages if any(host in page.read_text("utf-8") for host in foreign)] == []
