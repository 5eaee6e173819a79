import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.actions.output import decode_output, parse_json_output

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
        st.none() | st.integers() | st.text("äb"), lambda inner: st.lists(inner) | st.dictionaries(st.text("äb"), inner)
    )
)
def test_sound_json_is_parsed_unchanged(value: Any) -> None:
    assert parse_json_output(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[Infinity]", "nonsense", "[" * 100_000, nested(limits.JSON_DEPTH + 1), "9" * 5000],
    ids=lambda text: text[:10],
)
def test_what_is_no_json_or_too_deep_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json_output(text)


def test_the_deepest_json_that_may_be_kept_is_parsed() -> None:
    parse_json_output(nested(limits.JSON_DEPTH))
