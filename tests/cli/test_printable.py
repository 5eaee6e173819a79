"""Texts of others do not command one's terminal."""

from hypothesis import given
from hypothesis import strategies as st

from launchbay.cli.output import printable
from tests.cli.shell import Shell


@given(st.text())
def test_what_is_printed_moves_no_cursor(text: str) -> None:
    shown = printable(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in shown)
    assert not any(0x7F <= ord(letter) < 0xA0 for letter in shown)


def test_ordinary_texts_stay_as_they_are() -> None:
    assert printable("Grüße, 世界\n\t– ok") == "Grüße, 世界\n\t– ok"
    assert printable("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


def test_an_error_that_quotes_what_was_typed_quotes_no_colours(cli: Shell) -> None:
    cli.good("application", "create", "quoting")
    instance = cli.good("launch", "quoting").strip()
    cli.good("instance", "wait", instance)
    told = cli.bad(9, "run", instance, "\x1b[31mred")
    assert "\x1b" not in told
    assert "red" in told
