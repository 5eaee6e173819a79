import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.machines.dry_run import fits


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "a\nb", True),
        ("a*c", "abbc", True),
        ("a**c", "ac", True),
        ("a*c", "abd", False),
        ("?", "a", True),
        ("?", "", False),
        ("?", "ab", False),
        ("[a]", "a", False),
        ("[[ -f x ]]*", "[[ -f x ]] && exit", True),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "a", False),
        ("exec*", "execrun", True),
    ],
)
def test_only_stars_and_question_marks_are_special(pattern: str, text: str, *, expected: bool) -> None:
    assert fits(pattern, text) is expected


@given(st.text(), st.text())
def test_a_text_fits_itself_and_what_is_around_it(text: str, more: str) -> None:
    assert fits(text.replace("*", "?"), text)
    assert fits(f"*{text.replace('*', '?')}*", f"{more}{text}{more}")
