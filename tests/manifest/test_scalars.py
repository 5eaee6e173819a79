import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import InvalidManifest
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain


def data_of(text: str) -> Any:
    return plain(read(text.encode()))


def refusal_of(text: str) -> Any:
    with pytest.raises(InvalidManifest) as caught:
        read(text.encode())
    (finding,) = caught.value.findings
    return finding


NOT_CORE = (
    "no on yes Off y 012 -012 00 1:30 2001-12-14 1_000 0b11 0o8 0xG 01.5 1.12.0 1.2.3.4 + . 1e e3 .e3 0o 0x nULL tRue "
    "-0x1F = <<"
)


@pytest.mark.parametrize(
    "text",
    NOT_CORE.split(),
)
def test_what_the_core_schema_does_not_name_is_a_string(text: str) -> None:
    assert data_of(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("0", 0), ("-0", 0), ("42", 42), ("+7", 7), ("-3", -3), ("0o17", 15), ("0x1F", 31)],
        *[("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))],
        *[("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("-.5", -0.5), ("1e3", 1000.0), ("1.5E-2", 0.015), ("3.10", 3.1)],
        *[("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False)],
        *[("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None)],
    ],
)
def test_core_schema_scalars_have_their_values_and_types(text: str, value: object) -> None:
    read_value = data_of(f"a: {text}")["a"]
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "1" * 5000, "0x" + "f" * 17, "0o" + "7" * 22]
)
def test_integers_beyond_64_bits_are_refused_with_their_place(text: str) -> None:
    found = refusal_of(f"a: 1\nb: {text}")
    assert (found["code"], found["line"], found["column"]) == ("ImpossibleValue", 2, 4)
    assert "Quote it" in found["message"]


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", ".NaN", "1e999", "-12e4567"])
def test_floats_that_json_cannot_carry_are_refused(text: str) -> None:
    found = refusal_of(f"a: {text}")
    assert (found["code"], found["line"], found["column"]) == ("ImpossibleValue", 1, 4)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_integer_is_read_back(number: int) -> None:
    assert data_of(f"- {number}\n- {number:#x}" if number >= 0 else f"- {number}\n- {number}") == [number, number]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_double_is_read_back(number: float) -> None:
    assert math.copysign(1, data_of(f"- {number!r}")[0]) == math.copysign(1, number)
    assert data_of(f"- {number!r}") == [number]
