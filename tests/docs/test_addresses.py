"""Addresses of pages and their headings stay: those that the documentation once had still lead to the same text."""

import re
from functools import cache
from pathlib import Path

from launchbay.documentation import MOVED, pages
from launchbay.features.documentation.pages import rendered
from tests.support.cases import hold

# Every page and every heading, before the pages moved to where they are. New ones needn't be here.
ADDRESSES = Path(__file__).with_name("addresses.txt").read_text("utf-8").splitlines()


@cache
def anchors(page: str) -> frozenset[str]:
    return frozenset(re.findall(r'\sid="([^"]+)"', rendered(page)))


def test_an_address_that_a_page_had_leads_to_a_page_with_its_headings() -> None:
    hold(_leads_to_its_headings, ((each,) for each in sorted({address.partition("#")[0] for address in ADDRESSES})))


def _leads_to_its_headings(page: str) -> None:
    target = MOVED.get(page, page)
    assert target in pages()
    wanted = {address.partition("#")[2] for address in ADDRESSES if address.startswith(f"{page}#")}
    assert wanted - anchors(target) == set()


def test_an_address_leads_there_in_one_step() -> None:
    assert {old for old, new in MOVED.items() if new in MOVED} == set()
