"""What holds on every page: nothing stored runs, everybody can use it, secrets are covered, a phone shows it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from launchbay.app.features import PAGES
from tests.support.browser import AXE, RUN_AXE, WALK_S, Site, Watched, opened, watch
from tests.support.showcase import NO_PAGES, World, made

NARROW_PX = 360
WIDE_PX = 1280
# What the corpus would have put into a page. Our own glyphs and icons have a class.
_PLANTED = "a[href^='javascript' i], iframe, main img[src=x], main svg:not([class]), main [onload]"
# The parts around a page, with their HTML.
_SHELL = """() => Object.fromEntries(['aside.side', 'nav.tabbar', 'dialog#palette', 'dialog#keys'].flatMap(each =>
    document.querySelector(each) ? [[each, document.querySelector(each).outerHTML]] : []))"""
_RUN_AXE_IN = RUN_AXE.replace("options =>", "([context, options]) =>").replace("axe.run(document", "axe.run(context")
_FOCUSED = """() => {
    const control = document.activeElement;
    if (control === document.body) return ['', ''];
    const name = control.id || control.textContent.trim().slice(0, 30) || control.getAttribute('aria-label');
    return [name, getComputedStyle(control).outlineStyle];
}"""


@pytest.fixture(scope="module")
def world(site: Site) -> World:
    """One of everything, with hostile texts in it."""
    return made(site)


def test_no_page_is_missing_from_these_tests(world: World) -> None:
    shown = {path.partition("?")[0] for path in world.paths.values()}
    patterns = {page.path: re.sub(r"\{\w+\}", "[^/]+", page.path) for page in PAGES if page.method == "GET"}
    missing = {path for path, pattern in patterns.items() if not any(re.fullmatch(pattern, each) for each in shown)}
    assert missing <= NO_PAGES, missing - NO_PAGES


# What only a fault of a template or a value that nobody rendered shows. "0 of 1 components" is right.
FAULTS = {
    "a space before a mark": r"\S (?:,|;|\.(?=\s|$)|:(?=\s|$))",
    "empty brackets": r"(?<!\w)\(\s*\)",
    "a value of a program": r"\b(?:undefined|NaN|(?<!or )null)\b|\bNone\b(?=[,.]? \w)|\[object Object\]",
    "nothing of nothing": r"\b0 of 0\b",
    "one of many": r"(?<![\d.,:−])(?<!of )\b1 (?:instances|runs|steps|components|versions|lines|days)\b",
    "a doubled word": r"(?i)\b(the|a|an|is|of|to|in|and|for|with|by|on|at|it|are|has|was) \1\b",
}
_INLINE = {"a", "abbr", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "small", "span", "strong", "time", "label"}
_UNREAD = {"script", "style", "template", "svg", "code", "pre", "textarea", "select", "option", "dialog"}
_VOID = {"input", "br", "hr", "img", "link", "meta", "use", "rect", "source", "col"}


class _Blocks(HTMLParser):
    """The words of each block of a page, without what manifests, logs and people wrote."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = [""]
        self._inside: list[bool] = []  # of each open element: whether it is skipped
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        css = set((dict(attrs).get("class") or "").split())
        is_skipped = tag in _UNREAD or bool(css & {"sr", "code", "log", "only-phone"})
        if is_skipped or tag in _VOID:
            self.found[-1] += "\u2026"
        if tag not in _INLINE or "push" in css:
            self.found.append("")
        if tag not in _VOID:
            self._inside.append(is_skipped)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Leave out what has no content, such as the parts of a drawing."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID and self._inside:
            self._inside.pop()
        if tag not in _INLINE:
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if not any(self._inside):
            self.found[-1] += data


# The elements that go furthest beyond the edge; what scrolls in another element may be innocent.
WIDE = """most => {
    const right = each => Math.round(each.getBoundingClientRect().right);
    return [...document.querySelectorAll("*")]
        .filter(each => right(each) > most)
        .sort((one, other) => right(other) - right(one))
        .slice(0, 12).map(each => [right(each), getComputedStyle(each).position, each.outerHTML.slice(0, 120)]);
}"""
# Menus are placed in the window once they have opened. All at once move each other, so they are placed again.
_FITS = "most => { dispatchEvent(new Event('resize')); return document.documentElement.scrollWidth <= most; }"


@dataclass
class Walk:
    """What was wrong on the pages, by their names; they are opened once, since that takes most of the time."""

    watched: Watched
    wide: dict[str, Any] = field(default_factory=dict)
    violations: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Any] = field(default_factory=dict)
    wrong: set[tuple[str, str, str]] = field(default_factory=set)
    outside: list[str] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def see(self, page: Page, name: str, path: str) -> None:
        """Look at a page as it is sent, in the width of a phone, and in that of a desktop in light and dark."""
        page.set_viewport_size({"width": NARROW_PX, "height": 740})
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        answer = opened(page, path)
        assert answer is not None
        self._read(name, answer.text())
        page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        self._measure(page, name)
        page.set_viewport_size({"width": WIDE_PX, "height": 720})
        self._audit(page, name)
        self._look(page, name)

    def _read(self, name: str, html: str) -> None:
        for block in _Blocks(html).found:
            text = re.sub(r"\s+", " ", block)
            self.wrong |= {
                (name, fault, text[max(0, at.start() - 60) : at.end() + 30])
                for fault, pattern in FAULTS.items()
                for at in re.finditer(pattern, text)
            }

    def _measure(self, page: Page, name: str) -> None:
        try:
            page.wait_for_function(_FITS, arg=NARROW_PX, timeout=2_000)
        except Error:
            width = page.evaluate("document.documentElement.scrollWidth")
            self.wide[name] = width, page.evaluate(WIDE, NARROW_PX)

    def _audit(self, page: Page, name: str) -> None:
        if not AXE.exists():
            return
        page.evaluate(AXE.read_text("utf-8"))
        # What is around the page is as it was on another one, except for what differs: once is enough.
        shell: dict[str, str] = page.evaluate(_SHELL)
        context = {"exclude": [[part] for part, text in shell.items() if text in self._known]}
        violations = page.evaluate(_RUN_AXE_IN, [context, {}])
        # The two differ in their colours alone.
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        # Colors on their way from light to dark are no finding.
        page.evaluate("Promise.allSettled(document.getAnimations().map(each => each.finished))")
        violations += page.evaluate(_RUN_AXE_IN, [context, {"runOnly": ["color-contrast"]}])
        self._known.update(shell.values())
        if violations:
            self.violations[name] = violations

    def _look(self, page: Page, name: str) -> None:
        text = page.inner_text("body")
        seen = {
            "a script ran": page.evaluate("window.__ran") is not None,
            "an element was planted": page.locator(_PLANTED).count() > 0,
            "an expression was computed": re.search(r"(?<![0-9a-f])1337(?![0-9a-f])", text),  # an ID may contain it
            "a secret is shown": "the-hidden-word" in text and name not in {"manifest", "versions", "version"},
        }
        if found := [what for what, is_so in seen.items() if is_so]:
            self.stored[name] = found


@pytest.fixture(scope="module")
def walk(site: Site, browser: Browser, signed_in: Any, world: World) -> Iterator[Walk]:
    """What a walk over all pages has found."""
    context = browser.new_context(base_url=site.url, storage_state=signed_in)
    walked = Walk(watch(context))
    note = walked.outside.append
    context.on("request", lambda request: note(request.url) if "evil.example" in request.url else None)
    page = context.new_page()
    for name, path in world.paths.items():
        walked.see(page, name, path)
    yield walked
    context.close()


@pytest.mark.timeout(WALK_S)
def test_nothing_stored_runs_on_any_page_and_no_secret_is_shown(walk: Walk) -> None:
    assert walk.stored == {}
    assert walk.outside == []
    walk.watched.assert_quiet()


@pytest.mark.timeout(WALK_S)
def test_axe_finds_nothing_on_any_page_in_light_and_dark(walk: Walk) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed; frontend/packages installs it.")
    assert walk.violations == {}, json.dumps(walk.violations, indent=1)


@pytest.mark.timeout(WALK_S)
def test_no_page_has_a_stray_space_an_unrendered_value_or_a_wrong_number_word(walk: Walk) -> None:
    assert not walk.wrong, "\n".join(map(str, sorted(walk.wrong)))


@pytest.mark.timeout(WALK_S)
def test_no_page_is_wider_than_a_phone(walk: Walk) -> None:
    assert not walk.wide, json.dumps(walk.wide, indent=1)


def test_a_phone_shows_the_current_tab_and_the_log_of_an_instance_in_its_width(page: Page, world: World) -> None:
    page.set_viewport_size({"width": NARROW_PX, "height": 740})
    opened(page, f"{world.paths['instance']}/settings")
    assert page.get_by_label("Instance", exact=True).evaluate(
        "tabs => tabs.querySelector('[aria-current]').getBoundingClientRect().right <= innerWidth"
    )
    opened(page, world.paths["instance"])
    texts = page.locator("ol.log > li > span")
    texts.first.wait_for()
    assert texts.first.evaluate("text => text.getBoundingClientRect().width") > NARROW_PX / 2


# Whether what hangs below an opener is where a pointer reaches it: inside the window, and cut off by nothing around it.
_IS_REACHED = """list => {
    const {left, top, right, bottom} = list.getBoundingClientRect();
    const corners = [[left + 8, top + 8], [right - 8, top + 8], [left + 8, bottom - 8], [right - 8, bottom - 8]];
    return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight &&
        corners.every(corner => list.contains(document.elementFromPoint(...corner)));
}"""


@pytest.mark.parametrize("width", [NARROW_PX, 1440])
def test_every_menu_is_in_the_window_and_escape_gives_the_focus_back(page: Page, world: World, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    for name in ("instances", "runs", "instance", "audit", "components"):
        opened(page, world.paths[name])
        for summary in page.locator("details.menu > summary:visible").all():
            summary.focus()
            page.keyboard.press("Enter")
            page.wait_for_function(f"list => ({_IS_REACHED})(list)", arg=summary.locator("+ *").element_handle())
            page.keyboard.press("Escape")
            expect(summary).to_be_focused()


def test_every_control_is_reached_by_keyboard_and_shows_it(page: Page, world: World) -> None:
    opened(page, world.paths["launch"])
    seen: set[str] = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        control, outline = page.evaluate(_FOCUSED)
        if not control:
            break  # the last control was left
        assert outline != "none", control
        seen.add(control)
    for control in ("Launch", "Cancel", "environmentId", "lifetime", "parameter:input.who"):
        assert control in seen


def test_a_menu_that_grows_while_it_is_open_stays_in_the_window(page: Page, world: World) -> None:
    page.set_viewport_size({"width": NARROW_PX, "height": 740})
    opened(page, world.paths["runs"])
    menu = page.locator("details.menu.facet").last
    menu.locator("summary").click()
    listed = menu.locator(":scope > :not(summary)")
    listed.evaluate(
        "each => { each.prepend(Object.assign(document.createElement('b'), {textContent: 'wide '.repeat(9)})); }"
    )
    page.wait_for_function(
        "list => (at => at.left >= 0 && at.right <= innerWidth && at.width > 250)(list.getBoundingClientRect())",
        arg=listed.element_handle(),
    )
