"""The output of a command on its way into the log: whole lines, bounded pieces, and no secret over a cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.machines.remote_commands import LineSplitter, OutputBuffer
from launchbay.model.redaction import REDACTED, RedactionStream, SecretEncodings
from tests.support.contexts import context

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


@given(
    st.lists(
        st.sampled_from(["a", "\r", "\n", "\N{EURO SIGN}", f"it is {SECRET}!", "x" * limits.LOG_LINE_CHARS]),
        max_size=12,
    ),
    st.integers(0, 12),
    st.lists(st.integers(0, 20_000), max_size=4),
    st.lists(st.integers(0, 20_000), max_size=4),
)
def test_another_process_continues_where_the_log_ends(
    texts: list[str], logged: int, cuts: list[int], other_cuts: list[int]
) -> None:
    data = "".join(texts).encode()

    def log_of(position: str, cuts: list[int], most: int) -> tuple[list[str], str]:
        """Log at most so many lines, and return them with the position that was noted with the last one."""
        found: list[str] = []
        positions = [position]

        def note(position: str) -> None:
            if len(found) <= most:
                positions.append(position)

        redaction = RedactionStream(SecretEncodings([SECRET]), REDACTED)
        lines = LineSplitter("stdout", lambda _, line: found.append(line), redaction, position, note)
        begin = lines.received
        for cut in sorted({*(begin + cut for cut in cuts if begin + cut < len(data)), len(data)}):
            lines(data[lines.received : cut])
        lines.close()
        return found[:most], positions[-1]

    whole, _ = log_of("", [], 1_000_000)
    first, position = log_of("", cuts, logged)
    rest, _ = log_of(position, other_cuts, 1_000_000)
    assert first + rest == whole


@given(st.lists(st.binary(max_size=50)), st.integers(0, 100))
def test_no_more_is_kept_than_may_be(pieces: list[bytes], most: int) -> None:
    kept = OutputBuffer(most)
    for piece in pieces:
        kept(piece)
    assert kept.data == b"".join(pieces)[:most]
