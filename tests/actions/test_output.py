"""Output of commands in a step's log: bounded in lines a second, in lines and in bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.actions.output import LiveLog, decode_output, parse_json_output
from tests.support.contexts import SteppedClock

ANY_TEXT = st.text(st.characters())  # lone surrogates and NUL too
JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def texts_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for element in value for text in texts_of(element)]
    if isinstance(value, dict):
        return [text for key, element in value.items() for text in (key, *texts_of(element))]
    return []


@given(
    st.binary(),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "utf-7", "hex", "idna", "punycode", "nonsense", "", "a\x00b"]),
)
def test_any_bytes_in_any_charset_become_a_text_that_can_be_kept(data: bytes, charset: str) -> None:
    text = decode_output(data, charset)

    assert "\x00" not in text
    assert text.encode("utf-8").decode("utf-8") == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_a_sound_text_stays_as_it_is(text: str) -> None:
    assert decode_output(text.encode()) == text


@given(JSON_DATA)
def test_parsed_json_can_be_kept(value: Any) -> None:
    parsed = parse_json_output(json.dumps(value))

    assert all("\x00" not in text and text.encode("utf-8") for text in texts_of(parsed) if text)


@given(
    st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text("äb"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("äb"), inner),
    )
)
def test_sound_json_is_parsed_unchanged(value: Any) -> None:
    assert parse_json_output(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        "[1e400]",
        "18446744073709551616",
        "nonsense",
        "[" * 100_000,
        nested(limits.JSON_DEPTH + 1),
        "9" * 5000,
    ],
    ids=lambda text: text[:10],
)
def test_what_is_no_json_or_too_deep_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json_output(text)


def test_the_deepest_json_that_may_be_kept_is_parsed() -> None:
    parse_json_output(nested(limits.JSON_DEPTH))


@pytest.fixture
def lines() -> list[str]:
    return []


def made(lines: list[str], clock: SteppedClock | None = None) -> LiveLog:
    return LiveLog(lambda _, text, __: lines.append(text), clock or SteppedClock())


def test_lines_have_their_host_and_errors_are_marked(lines: list[str]) -> None:
    live = made(lines)
    live.for_host("10.0.0.1")("stdout", "one")
    live.for_host("10.0.0.2")("stderr", "two")
    live.close()
    assert lines == ["[10.0.0.1] one", "[10.0.0.2 stderr] two"]


def test_a_burst_passes_and_then_so_many_lines_a_second(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_LOG_LINES_AT_ONCE", 5)
    monkeypatch.setattr(limits, "STEP_LOG_LINES_PER_S", 2.0)
    clock = SteppedClock()
    take = made(lines, clock).for_host("h")
    for number in range(8):
        take("stdout", str(number))
    clock.passed_s += 1.0
    for number in range(8, 12):
        take("stdout", str(number))
    assert lines == [*(f"[h] {n}" for n in range(5)), "(3 lines of output omitted from this log)", "[h] 8", "[h] 9"]


@pytest.mark.parametrize(("bound", "most"), [("STEP_LOG_LINES", 3), ("STEP_LOG_BYTES", 30)])
def test_after_so_much_in_all_nothing_more_is_written_but_counted(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(limits, bound, most)
    live = made(lines)
    for _ in range(10):
        live.for_host("h")("stdout", "123456")
    live.close()
    assert lines == ["[h] 123456"] * 3 + ["(7 lines of output omitted from this log)"]


def test_one_line_is_counted_as_one(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_LOG_LINES", 0)
    live = made(lines)
    live.for_host("h")("stdout", "x")
    live.close()
    live.close()
    assert lines == ["(1 line of output omitted from this log)"]
