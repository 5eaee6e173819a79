"""The documentation at `/docs`: API, pages, pictures, entries and search; all public."""

import asyncio
import re
from collections.abc import Callable
from functools import cache
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, NamedTuple
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from launchbay import documentation
from launchbay.auth.throttle import address_block
from launchbay.console.assets import Stored, icon
from launchbay.console.rendering import HEADERS, render
from launchbay.console.request import PageRequest, PageRoute
from launchbay.console.shell import Appearance, read_appearance
from launchbay.documentation import Listed, Page, Part
from launchbay.errors import NotFound
from launchbay.fairness.turns import CHUNK_TURN_S, REST_AFTER_JOB

PATH = "/docs"
_START = "index"
_OF_THE_API = ("api", "openapi")
_PICTURE = ".svg"
_DEEPEST_IN_CONTENTS = 3
_HTML = "text/html; charset=utf-8"
_COMMAND = re.compile(r"^\$ (.*(?:(?<=\\)\n.*)*)", re.MULTILINE)  # with the lines that continue it


class _Neighbors(NamedTuple):
    """The part of the menu with a page, and its neighbors there."""

    part: Part
    before: Listed | None
    after: Listed | None


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")  # the pages are our own
    parser.add_render_rule("fence", lambda _, tokens, index, *__: _code(tokens[index]))
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table class="plain">\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _code(token: Token) -> str:
    copied = "\n".join(line.removeprefix("$ ") for line in token.content.splitlines())
    if token.info.startswith("console"):  # without what the commands print
        copied = "\n".join(_COMMAND.findall(token.content)) or copied
    return _code_box(token.content, copied)


def _code_box(text: str, copied: str) -> Markup:
    button = Markup('<button type="button" class="copy" data-copy="{}" aria-label="Copy">{}</button>')
    template = Markup('<div class="code-box">{}<pre tabindex="0"><code>{}</code></pre></div>\n')
    return template.format(button.format(copied, icon("copy")), text)


@cache
def rendered(path: str) -> Markup:
    """Return a page as HTML, with anchors and links within this server."""
    page = documentation.pages()[path]
    tokens = _markdown().parse(page.text)
    anchors = iter(page.sections)
    for number, token in enumerate(tokens):
        if token.type == "th_open" and not tokens[number + 1].content:
            token.tag = tokens[number + 2].tag = "td"  # an empty head names nothing for readers without sight
        elif token.type == "heading_open":
            token.attrSet("id", next(anchors).anchor)
        elif token.type == "inline":
            token.children = _with_links(path, token.children or [])
            if [child.type for child in token.children] == ["image"]:  # scrolls where its words would be too small
                tokens[number - 1].attrs |= {"class": "scroll", "tabindex": "0"}
        if token.attrs.pop("style", None) == "text-align:right":  # which the policy of the page forbids
            token.attrSet("class", "end")
    return Markup(_markdown().renderer.render(tokens, _markdown().options, {}))  # noqa: S704 - of the package's own files


def _with_links(path: str, tokens: list[Token]) -> list[Token]:
    """Return a line's parts; a link to a missing file becomes text."""
    kept: list[Token] = []
    is_dropped = False
    for token in tokens:
        if token.type == "link_open":
            target = _target(path, str(token.attrGet("href")))
            is_dropped = target is None
            if target is not None:
                token.attrSet("href", target)
        elif token.type == "image":
            target = _target(path, str(token.attrGet("src")))
            if target is None:
                continue
            token.attrSet("src", target)
        if not (is_dropped and token.type in {"link_open", "link_close"}):
            kept.append(token)
    return kept


def _target(path: str, link: str) -> str | None:
    if link.startswith(("#", "https:", "http:", "mailto:")):
        return link
    name, _, anchor = link.partition("#")
    file = normpath(str(PurePosixPath(path).parent / name))
    found = file.removesuffix(".md")
    if found not in documentation.pages() and not (file.endswith(_PICTURE) and _picture(file) is not None):
        return None
    return f"{PATH}/{quote(found)}" + (f"#{anchor}" if anchor else "")


def _picture(path: str) -> bytes | None:
    """Return a picture of the documentation, or None if it doesn't exist."""
    root = (documentation.folder() / "images").resolve()
    file = (documentation.folder() / path).resolve()
    return file.read_bytes() if file.is_relative_to(root) and file.suffix == _PICTURE and file.is_file() else None


def _neighbors(path: str) -> _Neighbors | None:
    listed = [(part, entry) for part in documentation.menu() for entry in part.pages]
    numbers = {entry.path: number for number, (_, entry) in enumerate(listed)}
    at = numbers.get(path)
    if at is None:  # the index of its folder lists it
        index = numbers.get(str(PurePosixPath(path).with_name(_START)))
        return None if index is None else _Neighbors(listed[index][0], listed[index][1], None)
    before = listed[at - 1][1] if at else None
    after = listed[at + 1][1] if at + 1 < len(listed) else None
    return _Neighbors(listed[at][0], before, after)


async def show(request: PageRequest) -> Response:
    """Show a page or a picture."""
    path = request.path("path").strip("/").removesuffix(".md").removesuffix(".html")
    if path in _OF_THE_API:
        return RedirectResponse(PATH, 301)
    if not path or path in documentation.MOVED:
        return RedirectResponse(f"{PATH}/{documentation.MOVED.get(path, _START)}", 301)
    if path.endswith(_PICTURE):
        picture = _picture(path)
        if picture is None:
            raise NotFound("Picture not found.")
        headers = {**HEADERS, "Content-Type": "image/svg+xml", "Cache-Control": "max-age=3600"}
        return Stored.of(picture).answer(request.http.headers, headers)
    page = documentation.pages().get(path)
    if page is None:
        raise NotFound("Page not found.", f"Search for it at {PATH}/search.")
    return await _answer(request, path, lambda: _shown(page))


async def show_api(request: PageRequest) -> Response:
    """List the operations of the API."""
    families = request.deps.api_calls
    return await _answer(request, "", lambda: _values("API", families=families()))


async def show_operation(request: PageRequest) -> Response:
    """Show an operation: parameters, responses, a command to try."""
    name = request.path("operation")
    family, call = next(
        (
            (family, call)
            for family, calls in request.deps.api_calls().items()
            for call in calls
            if call["operation"]["operationId"] == name
        ),
        (None, None),
    )
    if call is None:
        raise NotFound("Page not found.", f"The operations of the API are at {PATH}.")
    values = {"families": request.deps.api_calls(), "family": family, "call": call}
    code = _code_box(call["curl"], call["curl"])
    return await _answer(request, f"api/{name}", lambda: _values(name, code=code, **values))


# Themes are few, so what is stored is bounded by the pages of the package and the operations.
_stored: dict[tuple[str, str], Stored] = {}


async def _answer(request: PageRequest, path: str, values: Callable[[], dict[str, Any]]) -> Response:
    """Return a page, which is the same for everybody who chose this theme."""
    theme = read_appearance(request.http.headers.get("cookie", ""), secure=request.is_secure).theme
    found = _stored.get((path, theme))
    if found is None:
        found = await asyncio.to_thread(_store, path, theme, values)  # which takes up to a second
    headers = {**HEADERS, "Content-Type": _HTML, "Cache-Control": "private, no-cache", "Vary": "Cookie"}
    return found.answer(request.http.headers, headers)


def _store(path: str, theme: str, values: Callable[[], dict[str, Any]]) -> Stored:
    text = render(
        "documentation/templates/documentation.html",
        {"appearance": Appearance(theme=theme), "problems": (), **values()},
    )
    found = _stored[path, theme] = Stored.of(text.encode())
    return found


def _shown(page: Page) -> dict[str, Any]:
    contents = [section for section in page.sections[1:] if section.level <= _DEEPEST_IN_CONTENTS]
    return _values(page.title, page=page, text=rendered(page.path), contents=contents, place=_neighbors(page.path))


async def find(request: PageRequest) -> Response:
    """Search the pages for words."""
    words = (request.query("q") or "")[: documentation.QUERY_CHARS]
    who = f"search {address_block(request.address)}"
    end_turn = await request.app.turns.begin(who, CHUNK_TURN_S, rest=REST_AFTER_JOB)
    try:
        hits = await asyncio.to_thread(documentation.search, words)
        return await request.page(
            "documentation/templates/documentation.html", **_values("Search", words=words, hits=hits)
        )
    finally:
        end_turn()


async def explain(request: PageRequest) -> Response:
    """Redirect to the entry with a name, or search for it."""
    name = request.path("name")
    found = documentation.explained(name)
    if len(found) == 1:
        return RedirectResponse(f"{PATH}/{found[0].place}", 303, HEADERS)
    return RedirectResponse(f"{PATH}/search?q={quote(name)}", 303, HEADERS)


def _values(title: str, **values: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"page": None, "words": "", "hits": (), "text": "", "contents": (), "place": None}
    shown |= {"families": {}, "family": None, "call": None, **values}
    return {"title": documentation.plain(title), "menu": documentation.menu(), **shown}


# The same for everybody, so they are no pages of the console: they need no session and have no menu of an organization.
routes = (
    PageRoute("GET", PATH, show_api, public=True),
    PageRoute("GET", f"{PATH}/api/{{operation}}", show_operation, public=True),
    PageRoute("GET", f"{PATH}/search", find, public=True),
    PageRoute("GET", f"{PATH}/codes/{{name}}", explain, public=True),
    PageRoute("GET", f"{PATH}/{{path:path}}", show, public=True),
)
