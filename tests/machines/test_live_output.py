"""The output of a command on its way into the log: whole lines, bounded pieces, and no secret over a cut."""

import pytest

from launchbay import limits
from launchbay.machines.remote_commands import LineSplitter
from launchbay.model.redaction import REDACTED, RedactionStream, SecretEncodings

SECRET = "correct horse battery"


def told(*chunks: bytes) -> list[str]:
    found: list[str] = []
    lines = LineSplitter(
        "stdout", lambda _, line: found.append(line), RedactionStream(SecretEncodings([SECRET]), REDACTED)
    )
    for chunk in chunks:
        lines(chunk)
    lines.close()
    return found


def test_lines_come_whole_however_they_were_sent() -> None:
    assert told(b"on", b"e\ntw", b"o\n", b"thr\xc3", b"\xa9e") == ["one", "two", "thrée"]


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_in_two_chunks_is_covered(cut: int) -> None:
    text = f"it is {SECRET}!\n".encode()
    assert told(text[: 6 + cut], text[6 + cut :]) == [f"it is {REDACTED}!"]


@pytest.mark.parametrize("before", range(limits.LOG_LINE_CHARS - len(SECRET) - 2, limits.LOG_LINE_CHARS + 2))
def test_a_secret_where_a_long_line_is_cut_into_pieces_is_covered(before: int) -> None:
    shown = "".join(told(b"." * before + SECRET.encode() + b"." * 5_000))
    assert shown == "." * before + REDACTED + "." * 5_000


def test_a_line_without_an_end_is_told_while_it_grows() -> None:
    found: list[str] = []
    lines = LineSplitter(
        "stdout", lambda _, line: found.append(line), RedactionStream(SecretEncodings([SECRET]), REDACTED)
    )
    lines(b"." * 3 * limits.LOG_LINE_CHARS)
    assert len(found) == 2
    lines(b"\nnext\n")
    assert found[-1] == "next"
