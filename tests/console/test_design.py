"""The design tokens and the inventory: contrast of all pairs, one place for colors, every macro shown."""

import re
from pathlib import Path

import pytest

from launchbay.console.assets import Glyph, content, shown_status
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus, StepStatus
from tests.support.cases import hold
from tests.support.templates import template_texts

ROOT = Path(__file__).parents[2]
STYLES = ROOT / "frontend/source/styles"
TEMPLATES = template_texts()
TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (STYLES / "tokens.css").read_text("utf-8")
    )
}
TEXT, CONTROL = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
STATUSES = ("ok", "busy", "wait", "fail", "idle")
GROUNDS = ("page", "surface", "raised", "hover", "sunken")
PAIRS = [
    *((ink, ground, TEXT) for ink in ("text", "text-2", "text-3", "accent") for ground in GROUNDS),
    *((ink, ground, TEXT) for ink in STATUSES for ground in ("surface", "page", "hover", f"{ink}-soft")),
    *(("text", f"{kind}-soft", TEXT) for kind in (*STATUSES, "accent")),
    *((ink, ground, TEXT) for ink in ("text-2", "text-3") for ground in ("fail-soft", "wait-soft", "idle-soft")),
    *((f"syn-{kind}", ground, TEXT) for kind in ("key", "str", "num", "com", "mark") for ground in ("surface", "add")),
    *((f"syn-{kind}", ground, TEXT) for kind in ("key", "str", "num", "com") for ground in ("del", "fail-soft")),
    ("accent", "accent-soft", TEXT),
    ("accent-2", "accent-soft", TEXT),
    ("text-3", "accent-soft", TEXT),
    ("on-accent", "accent", TEXT),
    ("on-accent", "accent-2", TEXT),
    ("text", "add", TEXT),
    ("text", "del", TEXT),
    ("text", "found", TEXT),
    *(("control", ground, CONTROL) for ground in ("surface", "page")),
    *(("focus", ground, CONTROL) for ground in GROUNDS),
]


def luminance(color: str) -> float:
    """Return the relative luminance as WCAG defines it."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_a_pair_of_tokens_has_enough_contrast_in_both_themes() -> None:
    hold(_has_enough_contrast, PAIRS)


def _has_enough_contrast(ink: str, ground: str, least: float) -> None:
    for theme in (0, 1):
        assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= least, ("light", "dark")[theme]


def test_only_the_tokens_name_a_color() -> None:
    for path in STYLES.glob("*.css"):
        if path.name != "tokens.css":
            text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
            assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)|\brgba?\(|\bhsla?\(|light-dark\(", text) == [], path.name


def test_no_template_has_styles_or_scripts_of_its_own() -> None:
    for name, text in TEMPLATES.items():
        assert re.findall(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", text) == [], name
        if name not in {"layout.html", "documentation/templates/documentation.html"}:
            assert 'rel="stylesheet"' not in text, name


def test_every_glyph_is_a_shape_of_its_own() -> None:
    sprite = content("icons.svg").decode()
    shapes = dict(re.findall(r'<symbol id="(g-[\w-]+)"[^>]*>(.*?)</symbol>', sprite))
    assert set(shapes) == {f"g-{glyph}" for glyph in Glyph}
    assert len(set(shapes.values())) == len(Glyph)


def test_every_icon_that_a_template_names_is_in_the_sprite() -> None:
    sprite = content("icons.svg").decode()
    known = set(re.findall(r'<symbol id="i-([\w-]+)"', sprite))
    named = {
        name
        for text in TEMPLATES.values()
        for name in re.findall(r'icon\("([\w-]+)"\)|#i-([\w-]+)"', text)
        for name in name
    }
    assert named - {""} <= known


@pytest.mark.parametrize("status", [*InstanceStatus, *JobStatus, *StepStatus], ids=str)
def test_every_status_has_its_glyph_and_its_words(status: str) -> None:
    kind, words = shown_status(status)
    if status.lower() != "requested":
        assert kind != Glyph.QUEUED, f"{status} looks as if nothing had happened"
    assert words not in {"Executing", "Requested"}


DEFINED = set(re.findall(r"{% macro (\w+)\(", TEMPLATES["parts.html"]))


def components_in(text: str) -> set[str]:
    return set(re.findall(r"parts\.(\w+)\(", text))


def test_the_inventory_shows_every_component() -> None:
    shown = components_in((ROOT / "tests/browser/inventory.html").read_text("utf-8"))
    shown_inside = {"bar", "dialog_head", "marks", "named_column"}
    assert DEFINED - shown == shown_inside
    assert shown <= DEFINED


def test_pages_use_every_component() -> None:
    pages = [text for name, text in TEMPLATES.items() if name != "parts.html"]
    assert set().union(*map(components_in, pages)) == DEFINED
