"""What holds on every page: nothing stored runs, everybody can use it, secrets are covered, a phone shows it."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from playwright.sync_api import Error, Page, expect

from launchbay.app.features import PAGES
from tests.support.browser import AXE, RUN_AXE, WALK_S, Site, opened
from tests.support.showcase import NO_PAGES, World, made

NARROW_PX = 360
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


@pytest.mark.slow
@pytest.mark.timeout(WALK_S)
def test_nothing_stored_runs_on_any_page_and_axe_finds_nothing_in_light_and_dark(page: Page, world: World) -> None:
    """Opening the pages takes most of the time, so both look at them in one walk."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed; frontend/packages installs it.")
    outside: list[str] = []
    page.context.on("request", lambda request: outside.append(request.url) if "evil.example" in request.url else None)
    axe, known = AXE.read_text("utf-8"), set[str]()
    found: dict[str, Any] = {}
    for name, path in world.paths.items():
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        opened(page, path)
        page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        page.evaluate(axe)
        # What is around the page is as it was on another one, except for what differs: once is enough.
        shell: dict[str, str] = page.evaluate(_SHELL)
        context = {"exclude": [[part] for part, text in shell.items() if text in known]}
        violations = page.evaluate(_RUN_AXE_IN, [context, {}])
        # The two differ in their colours alone.
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        # Colors on their way from light to dark are no finding.
        page.evaluate("Promise.allSettled(document.getAnimations().map(each => each.finished))")
        violations += page.evaluate(_RUN_AXE_IN, [context, {"runOnly": ["color-contrast"]}])
        known.update(shell.values())
        if violations:
            found[name] = violations
        assert page.evaluate("window.__ran") is None, name
        assert page.locator(_PLANTED).count() == 0, name
        text = page.inner_text("body")
        assert re.search(r"(?<![0-9a-f])1337(?![0-9a-f])", text) is None, name  # an ID may contain it
        assert "the-hidden-word" not in text or name in {"manifest", "versions", "version"}, name
    assert found == {}, json.dumps(found, indent=1)
    assert outside == []


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


@pytest.mark.slow
@pytest.mark.timeout(WALK_S)
def test_no_page_has_a_stray_space_an_unrendered_value_or_a_wrong_number_word(page: Page, world: World) -> None:
    found: set[tuple[str, str, str]] = set()
    for name, path in world.paths.items():
        for block in _Blocks(page.request.get(path).text()).found:
            text = re.sub(r"\s+", " ", block)
            found |= {
                (name, fault, text[max(0, at.start() - 60) : at.end() + 30])
                for fault, pattern in FAULTS.items()
                for at in re.finditer(pattern, text)
            }
    assert not found, "\n".join(map(str, sorted(found)))


# The elements that go furthest beyond the edge; what scrolls in another element may be innocent.
WIDE = """most => {
    const right = each => Math.round(each.getBoundingClientRect().right);
    return [...document.querySelectorAll("*")]
        .filter(each => right(each) > most)
        .sort((one, other) => right(other) - right(one))
        .slice(0, 12).map(each => [right(each), getComputedStyle(each).position, each.outerHTML.slice(0, 120)]);
}"""


def test_no_page_is_wider_than_a_phone(page: Page, world: World) -> None:
    page.set_viewport_size({"width": NARROW_PX, "height": 740})
    wide = {}
    for name, path in world.paths.items():
        opened(page, path)
        page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        # Menus are placed in the window once they have opened. All at once move each other, so they are placed again.
        fits = "most => { dispatchEvent(new Event('resize')); return document.documentElement.scrollWidth <= most; }"
        try:
            page.wait_for_function(fits, arg=NARROW_PX, timeout=2_000)
        except Error:
            width = page.evaluate("document.documentElement.scrollWidth")
            wide[name] = width, page.evaluate(WIDE, NARROW_PX)
    assert not wide, json.dumps(wide, indent=1)


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
