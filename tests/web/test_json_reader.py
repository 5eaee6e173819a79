import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import MalformedBody
from launchbay.limits import JSON_BODY_BYTES, JSON_CONTAINERS, JSON_DEPTH
from launchbay.web.json_reader import read_json

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('ab[]{}\\"\n', max_size=4), inner, max_size=5),
    max_leaves=30,
)


@given(JSON_VALUES, st.booleans())
def test_what_another_writer_wrote_is_read_back_as_it_was(value: object, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=200) | st.text('[]{}",:\\u0d8\n1e-', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_and_nothing_else_happens(data: bytes) -> None:
    with contextlib.suppress(MalformedBody):
        read_json(data)


@given(JSON_VALUES, st.text("abé", max_size=3))
def test_a_key_that_stands_twice_is_refused_wherever_it_is(value: object, key: str) -> None:
    quoted = json.dumps(key)
    data = f'[{json.dumps(value)}, {{"z": 1, {quoted}: 1, "inner": {json.dumps(value)}, {quoted}: 2}}]'
    with pytest.raises(MalformedBody, match="Duplicate key"):
        read_json(data.encode())


def test_the_second_of_two_equal_keys_is_named_with_line_and_column() -> None:
    data = b'{\n  "a": {"b": 1},\n  "b": "a",\n  "\\u0061": 2\n}'
    with pytest.raises(MalformedBody, match=r'Duplicate key "a" .*\(line 4, column 3\)'):
        read_json(data)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"a": "1e999",\n "b": [11e999, 1e999]}', "line 2, column 8"),
        (b'{"a": "NaN",\n "b": NaN}', "line 2, column 7"),
        (b'["\\ud83d\\ude00",\n "\\ud83d"]', "line 2, column 2"),
        (b'["\\\\u0000",\n {"\\u0000": 1}]', "line 2, column 3"),
    ],
)
def test_what_is_refused_is_found_beside_what_only_looks_like_it(data: bytes, place: str) -> None:
    with pytest.raises(MalformedBody, match=place):
        read_json(data)


def test_far_down_a_long_text_the_place_is_left_out() -> None:
    with pytest.raises(MalformedBody, match=r"Duplicate key \"a\" in a JSON object; remove one of them\.$"):
        read_json(b'{"a": 1, "b": "' + b"x" * 100_000 + b'", "a": 2}')


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    with pytest.raises(MalformedBody, match="line 1, column 2"):
        read_json(b"\xef\xbb\xbf{")


def test_the_same_key_in_two_objects_is_fine() -> None:
    assert read_json(b'{"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]}') == {"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"{", r"not valid JSON.*line 1, column 2"),
        (b'{\n "a": }', r"not valid JSON.*line 2, column 7"),
        (b"{} x", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b"[1,]", "not valid JSON"),
        (b"[01]", "not valid JSON"),
        (b'["\x01"]', "not valid JSON"),
        (b"{}\xef\xbb\xbf", "not valid JSON"),
        (b'{"a": "\xff"}', "isn't UTF-8"),
        (b'"\xed\xa0\x80"', "isn't UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "isn't UTF-8"),
        (b"[NaN]", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "1e999"),
        (b"[-1e999]", "-1e999"),
        (b"[9223372036854775808]", "9223372036854775808"),
        (b"[-9223372036854775809]", "-9223372036854775809"),
        (b"[" + b"9" * 5000 + b"]", "5000 characters"),
        (b'["\\u0000"]', "NUL"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'["\\ud800"]', "surrogate"),
        (b'["\\udc00\\ud800"]', "surrogate"),
        (b'{"\\uDFFF": 1}', "surrogate"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_said(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedBody, match=complaint):
        read_json(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"[9223372036854775807, -9223372036854775808]", [2**63 - 1, -(2**63)]),
        (b'["\\ud83d\\ude00"]', ["\U0001f600"]),
        (b'["\\\\u0000"]', ["\\u0000"]),
        (b' \r\n\t{"a" : 1.5e3} \n', {"a": 1500.0}),
    ],
)
def test_what_only_looks_suspicious_is_read(data: bytes, value: object) -> None:
    assert read_json(data) == value


def test_nesting_is_read_up_to_the_bound_and_no_deeper() -> None:
    assert read_json(b"[" * JSON_DEPTH + b"]" * JSON_DEPTH)
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        depth = JSON_DEPTH + 1
        with pytest.raises(MalformedBody, match="more than 64 levels"):
            read_json(opening * depth + b"1" + closing * depth)


def test_brackets_inside_strings_and_beside_each_other_are_no_nesting() -> None:
    assert read_json(json.dumps(["[" * 500, '{"\\"[' * 500, "\\", *[[]] * 500]).encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [b"[", b'{"a":', b'["', b"1,", b'{"a":1,"a":', b'"\\ud800",', b"{},", b"9", b'"\\"[{', b"1e5,"]
)
def test_a_whole_megabyte_of_mischief_is_dealt_with_quickly(unit: bytes) -> None:
    bodies = [(b"[" + unit * JSON_BODY_BYTES)[: JSON_BODY_BYTES - 2] + ending for ending in (b"0]", b"")]
    started = time.process_time()
    for body in bodies:
        with pytest.raises(MalformedBody):
            read_json(body + b"x")
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 65 + b'"' + b'\\"' * 60_000,
        b"[" * 65 + b'"' * 120_001,
        b'["' + b'\\"' * 60_000 + b'"]',
        b"[" * 65 + b'"' + b"\\" * 120_001,
        b"[" + b"[]," * 60_000 + b"[]]",
    ],
    ids=["unterminated", "quotes", "terminated", "backslashes", "arrays"],
)
def test_the_time_to_check_the_depth_is_linear(data: bytes) -> None:
    begun = time.process_time()

    with contextlib.suppress(MalformedBody):
        read_json(data)

    # In quadratic time the first one needs 40 s.
    assert time.process_time() - begun < 5


def test_brackets_in_long_strings_and_across_pieces_are_counted_right() -> None:
    value: list[Any] = [["[{" * 3_000, "\\" * 500, '"' * 700]] * 300
    for _ in range(JSON_DEPTH - 2):
        value = [value]
    assert read_json(json.dumps(value).encode()) == value
    with pytest.raises(MalformedBody, match="nested"):
        read_json(json.dumps([value]).encode())


def test_a_body_of_nothing_but_arrays_is_refused() -> None:
    with pytest.raises(MalformedBody, match="more than 400000 arrays"):
        read_json(b"[" + b"[]," * JSON_CONTAINERS + b"[]]")
    assert read_json(b'["' + b"[" * (JSON_CONTAINERS + 1) + b'"]')
