"""Bytes of a command, as they come, become lines."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.machines.remote_commands import LineSplitter, OutputBuffer
from tests.machines.errands import context


def lines_of(*pieces: bytes) -> list[str]:
    found: list[str] = []
    lines = LineSplitter("stdout", lambda _, line: found.append(line), context().redaction_stream())
    for piece in pieces:
        lines(piece)
    lines.close()
    return found


def test_a_line_is_handed_over_when_it_is_whole() -> None:
    found: list[str] = []
    lines = LineSplitter("stderr", lambda stream, line: found.append(f"{stream} {line}"), context().redaction_stream())
    lines(b"one\ntw")
    assert found == ["stderr one"]
    lines(b"o\nthree")
    assert found == ["stderr one", "stderr two"]
    lines.close()
    lines.close()
    assert found == ["stderr one", "stderr two", "stderr three"]


def test_of_a_line_that_is_written_over_the_last_state_counts() -> None:
    assert lines_of(b"10 %\r50 %\r100 %\n", b"windows\r\n") == ["100 %", "windows"]


def test_a_line_without_end_goes_in_pieces() -> None:
    found = lines_of(b"x" * (2 * limits.LOG_LINE_CHARS + 5))
    assert list(map(len, found)) == [limits.LOG_LINE_CHARS, limits.LOG_LINE_CHARS, 5]


@given(st.text(alphabet="ab\n\N{EURO SIGN}\N{GRINNING FACE}", max_size=80), st.lists(st.integers(0, 200), max_size=8))
def test_it_does_not_matter_where_the_pieces_are_cut(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(places)]
    expected = text.split("\n")
    assert lines_of(*pieces) == (expected if expected[-1] else expected[:-1])


@given(st.lists(st.binary(max_size=50)), st.integers(0, 100))
def test_no_more_is_kept_than_may_be(pieces: list[bytes], most: int) -> None:
    kept = OutputBuffer(most)
    for piece in pieces:
        kept(piece)
    assert kept.data == b"".join(pieces)[:most]
