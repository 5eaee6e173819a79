"""How people and programs read: pages as a parser sees them, lists page by page, commands and tools."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from tests.support.service import Caller, accepted

_VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "use", "rect", "line"}
_ASIDE = {"sr", "only-phone"}  # for readers of other devices


@dataclass
class Node:
    """An element of a page. What is found in it is kept: a parsed page doesn't change."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)
    _found: dict[Any, list["Node"]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def walk(self) -> Iterator["Node"]:
        """Yield this element and all inside of it, in the order of the page."""
        left = [self]
        while left:
            yield (node := left.pop())
            left += [child for child in reversed(node.children) if isinstance(child, Node)]

    def all(self, tag: str = "", css: str = "", **attributes: str) -> list["Node"]:
        """Return the elements inside with a tag, a class and attributes, `aria_label=` for `aria-label`."""
        key = (tag, css, *attributes.items())
        if key not in self._found:
            self._found[key] = self._search(tag, css, attributes)
        return [*self._found[key]]

    def _search(self, tag: str, css: str, attributes: dict[str, str]) -> list["Node"]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.walk()
            if (not tag or each.tag == tag)
            and (not css or css in each.classes)
            and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str = "", css: str = "", **attributes: str) -> "Node":
        """Return the first one. Raises Unreadable where there is none."""
        found = self.all(tag, css, **attributes)
        if not found:
            raise Unreadable(f"no <{tag or '*'}> {css} {attributes}")
        return found[0]

    @cached_property
    def text(self) -> str:
        """What people see, with one space between words."""
        return " ".join("".join(self._pieces()).split())

    def _pieces(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in {"script", "style"} and not child.classes & _ASIDE:
                yield from child._pieces()

    @cached_property
    def links(self) -> list[str]:
        return [each.attributes.get("href", "") for each in self.all("a")]

    def id_after(self, part: str) -> str | None:
        """Return the ID after a part of the path of a link inside, such as `jobs`."""
        for link in self.links:
            if found := re.search(rf"/{part}/([0-9a-f]{{24}})", link):
                return found[1]
        return None

    def filled(self, name: str) -> str | list[str] | None:
        """Return what a field of a form has: its text, the value that is chosen, or all that are ticked."""
        fields = [each for each in self.walk() if each.attributes.get("name") == name]
        if not fields:
            raise Unreadable(f"no field {name}")
        first = fields[0]
        if first.tag == "select":
            return next(
                (each.attributes["value"] for each in first.all("option") if "selected" in each.attributes), None
            )
        if first.tag == "textarea":
            return "".join(each for each in first.children if isinstance(each, str)).strip()
        if first.attributes.get("type") in {"checkbox", "radio"}:
            return [each.attributes["value"] for each in fields if "checked" in each.attributes]
        return first.attributes.get("value", "")

    def choices(self, name: str) -> list[str]:
        """Return the words of all options of a field."""
        return [each.text for each in self.one("select", name=name).all("option")]

    @property
    def stamps(self) -> list[str]:
        """The times inside, to the second."""
        return [each.attributes["datetime"] for each in self.all("time")]

    @property
    def status(self) -> tuple[str, str]:
        """The kind and the words of the first status inside."""
        shown = self.one("span", "st")
        return " ".join(sorted(shown.classes - {"st", "plain", "pill"})), shown.text


class Unreadable(AssertionError):
    """A page has another structure than it had."""


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("document")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self.open) - 1, 0, -1):
            if self.open[place].tag == tag:
                del self.open[place:]
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


@lru_cache(maxsize=2_000)
def parsed(text: str) -> Node:
    """Return a page as a tree."""
    tree = _Tree()
    tree.feed(text)
    return tree.open[0]


def table_of(page: Node, label: str) -> list[dict[str, Node]]:
    """Return the rows of the table in the region with a label, by the heads of its columns. No table: no rows."""
    regions = page.all(role="region", aria_label=label)
    if not regions:
        return []
    heads = [re.sub(r"[↑↓]", "", each.text).strip() for each in regions[0].one("thead").all("th")]
    return [
        dict(zip(heads, (each for each in row.children if isinstance(each, Node)), strict=False))
        for row in regions[0].one("tbody").all("tr")
    ]


@dataclass
class Console:
    """Somebody signed in to the console. Read pages are kept."""

    client: httpx.AsyncClient

    async def page(self, path: str, query: dict[str, str] | None = None) -> Node:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
        return parsed(answer.text)

    async def pages(self, path: str, query: dict[str, str] | None = None) -> list[Node]:
        """Return a page of a list and all that follow it."""
        found = [await self.page(path, query)]
        while following := found[-1].all("a", rel="next"):
            parts = urlsplit(following[0].attributes["href"])
            found.append(await self.page(parts.path or path, dict(parse_qsl(parts.query, keep_blank_values=True))))
            assert len(found) < 200, f"{path} has no end"
        return found

    async def rows(self, path: str, label: str, query: dict[str, str] | None = None) -> list[dict[str, Node]]:
        """Return the rows of a table on all pages of a list."""
        return [row for page in await self.pages(path, query) for row in table_of(page, label)]


async def listed(caller: Caller, path: str, **query: Any) -> tuple[list[Any], int | None]:
    """Return all items of a list of the API, page by page, and the number that its first page names, if it does."""
    answer = await caller.get(path, **query)
    found, total = accepted(answer), answer.headers.get("launchbay-total-count")
    while link := re.search(r'<([^>]+)>; rel="next"', answer.headers.get("link", "")):
        answer = await caller.client.get(urljoin(str(answer.url), link[1]))
        found += accepted(answer)
        assert len(found) < 100_000, f"{path} has no end"
    return found, None if total is None else int(total)
