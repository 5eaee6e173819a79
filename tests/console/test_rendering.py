"""How values read on pages."""

import re
from datetime import UTC, datetime, timedelta

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from launchbay.console.rendering import (
    display_value,
    excerpt,
    first_and_last,
    format_duration,
    format_remaining,
    piece,
    templates,
    web_address,
)
from launchbay.console.request import flash_cookie, message_with_warnings, read_flash, safe_path
from launchbay.model.failures import FailureGroup, Reason
from tests.support.cases import hold

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["https://example.org/a?b=c", "http://127.0.0.1:8080", "HTTPS://EXAMPLE.ORG"])
def test_web_addresses_are_links(text: str) -> None:
    assert f'href="{text}"' in display_value(text)


NO_LINKS = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "https://",
    "//evil.example",
    "http://a b",
    " https://a",
    "https://[",
    7,
    None,
    ["https://example.org"],
]


@pytest.mark.parametrize("value", NO_LINKS)
def test_nothing_else_is_a_link(value: object) -> None:
    assert web_address(value) is None
    assert "href" not in display_value(value)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
OUR_TAGS = ("<code>", "</code>", '<pre class="value" tabindex="0">', "</pre>", '<span class="quiet">empty</span>')


@given(JSON)
def test_no_value_brings_a_tag_of_its_own(value: object) -> None:
    inner = display_value(value)
    for tag in OUR_TAGS:
        inner = inner.replace(tag, "")
    if web_address(value) is None:
        assert "<" not in inner


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, ""),
        (0, "0 ms"),
        (99, "99 ms"),
        (22.435000000000002, "22 ms"),
        (100, "0.1 s"),
        (1_500, "1.5 s"),
        (59_900, "60 s"),
        (90_000, "1 min"),
        (3_600_000, "1 h"),
        (93_784_000, "1 d 2 h"),
    ],
)
def test_spans_have_their_two_largest_units(milliseconds: float | None, words: str) -> None:
    assert format_duration(milliseconds) == words


def test_times_are_told_from_now() -> None:
    assert format_remaining(NOW + timedelta(minutes=90), NOW) == "in 1 h 30 min"
    assert format_remaining(NOW - timedelta(minutes=3), NOW) == "3 min ago"
    assert format_remaining(NOW - timedelta(seconds=8.4), NOW) == "8 s ago"
    assert format_remaining(NOW - timedelta(seconds=0.4), NOW) == "just now"


@pytest.mark.parametrize("path", ["/console", "/console/instances/x?a=b", "/console?x=1"])
def test_a_page_of_the_console_may_follow_a_sign_in(path: str) -> None:
    assert safe_path(path) == path


@given(st.text())
def test_nothing_else_follows_a_sign_in(path: str) -> None:
    assert safe_path(path) == "/console" or path.startswith("/console")


FOREIGN = [
    "//evil.example",
    "/consolexyz",
    "https://evil.example/console",
    "/console/\\evil",
    "/console/\r\nSet-Cookie: a=b",
]


@pytest.mark.parametrize("path", FOREIGN)
def test_foreign_addresses_do_not_follow_a_sign_in(path: str) -> None:
    assert safe_path(path) == "/console"


def test_a_flash_message_is_only_for_its_session() -> None:
    cookie = flash_cookie("one", "Done.", secure=True)
    value = cookie.partition("=")[2].partition(";")[0]
    assert read_flash("one", value) == "Done."
    assert read_flash("two", value) is None
    assert read_flash("one", value[:-1] + "x") is None
    assert "Secure" in cookie
    assert "HttpOnly" in cookie


def test_a_flash_message_counts_the_warnings_that_it_cannot_show() -> None:
    long = "Think twice about it. " * 20
    said = message_with_warnings("Saved.", [f"{number} {long}" for number in range(4)])
    assert said.startswith("Saved. Warning: 0 Think twice")
    assert said.endswith("Think twice… And 2 more.")
    assert said.count("Warning: ") == 2
    assert len(said) <= 400
    assert message_with_warnings("Saved.", ["Odd."]) == "Saved. Warning: Odd."
    assert message_with_warnings("", ["Odd."]) == "Warning: Odd."
    assert message_with_warnings("Saved. " * 90, ["x" * 900])[-7:] == "xxxxxx…"
    assert message_with_warnings(long, []) == long


def test_equal_times_of_a_failure_are_one() -> None:
    def words(first_min: int, last_min: int) -> str:
        first, last = NOW - timedelta(minutes=first_min), NOW - timedelta(minutes=last_min)
        return first_and_last(FailureGroup("", Reason("", ""), "", first, last, []), NOW)

    assert words(3, 3) == "3 min ago"
    assert words(90, 3) == "First 1 h 30 min ago, last 3 min ago"


_CALLS_WITH_CONSTANTS = re.compile(r"""\b(?:icon|glyph|asset)\((?:["'][\w./-]+["'](?:, "[^"]*")?)\)""")


def test_icons_with_constant_names_are_drawn_when_the_template_is_compiled() -> None:
    hold(_draws_its_icons, ((each,) for each in templates.list_templates(["html"])))


def _draws_its_icons(name: str) -> None:
    assert templates.loader is not None
    text, _, _ = templates.loader.get_source(templates, name)
    assert _CALLS_WITH_CONSTANTS.findall(re.sub(r"\| glyph\(", "|", text)) == []
    compiled = templates.compile(text, raw=True)
    for symbol in re.findall(r'"([\w-]+)" \| icon }}', text):
        assert f"#i-{symbol}" in compiled


def test_what_pages_share_is_rendered_once_for_the_same_values() -> None:
    values = {"home": "/console/organizations/1", "section": "runs", "approvals": 1, "runs": 0, "on_phone": False}
    everything = piece("navigation.html", **values, hidden=frozenset())
    assert piece("navigation.html", **values, hidden=frozenset()) is everything
    less = piece("navigation.html", **values, hidden=frozenset({"webhooks"}))
    assert ("/webhooks" in everything, "/webhooks" in less) == (True, False)
    assert 'href="/console/organizations/1/runs" aria-current="page"' in everything


def test_what_pages_share_sees_no_other_value() -> None:
    with pytest.raises(jinja2.UndefinedError, match="hidden"):
        piece("navigation.html", home="/console", section="", approvals=0, runs=0, on_phone=False)


@pytest.mark.parametrize(
    ("message", "text", "shown"),
    [
        ("Line 2, column 3: no.", "a\nb c\n", "2  b c\n     ^"),
        ("Line 1, column 1: no.", "a\r\nb", "1  a\n   ^"),
        ("Line 1, column 101: no.", "x" * 100 + "y" * 100, "1  " + "x" * 30 + "y" * 30 + "\n" + " " * 33 + "^"),
        ("Line 9, column 1: no.", "a", ""),
        ("The text is too long.", "a", ""),
    ],
)
def test_a_mistake_in_a_text_is_shown_with_its_line_and_a_sign_at_its_column(
    message: str, text: str, shown: str
) -> None:
    assert excerpt(message, text) == shown


class Shouted(str):
    """A text of another class, as enumerations are."""


class Element:
    def __html__(self) -> str:
        return "<hr>"


SHOWN = [
    ("<b>", "&lt;b&gt;"),
    ("'\"&", "&#39;&#34;&amp;"),
    ("plain", "plain"),
    (Markup("<b>"), "<b>"),
    (Element(), "<hr>"),
    (Shouted("<b>"), "&lt;b&gt;"),
    (["<b>"], "[&#39;&lt;b&gt;&#39;]"),
    (7, "7"),
    (True, "True"),
    (None, "None"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_template_shows_a_value_as_jinja_does(value: object, text: str) -> None:
    assert templates.from_string("{{ value }}").render(value=value) == text
    assert jinja2.Environment(autoescape=True).from_string("{{ value }}").render(value=value) == text


def test_what_macros_and_blocks_return_is_escaped_once() -> None:
    shown = templates.from_string(
        "{% macro bold(x) %}<b>{{ x }}{{ caller() if caller is defined }}</b>{% endmacro %}"
        "{% set kept %}<i>{{ value }}</i>{% endset %}{{ kept }}{{ bold(value) }}"
        "{% call bold(1) %}{{ value }}{% endcall %}"
        "{% for each in [value] %}{{ bold(each.upper()) }}{% endfor %}"
    )
    once = "&lt;"
    assert shown.render(value="<") == f"<i>{once}</i><b>{once}</b><b>1{once}</b><b>{once}</b>"


def test_no_template_turns_escaping_off() -> None:
    with pytest.raises(AssertionError, match="escaping"):
        templates.from_string("{% autoescape false %}{{ value }}{% endautoescape %}")


def test_what_a_page_shows_is_no_markup_before_it_is_joined() -> None:
    # Making one of each value took a third of rendering.
    found = list(templates.from_string("{{ name }}{{ number }}").root_render_func(_values(name="a", number=1)))
    assert found == ["a", "1"]
    assert {type(each) for each in found} == {str}


def _values(**given: object) -> jinja2.runtime.Context:
    return templates.from_string("").new_context(given)
