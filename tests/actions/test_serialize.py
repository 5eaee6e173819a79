import csv
import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.actions.builtin import Serialize
from launchbay.errors import ActionFailed
from tests.actions.contexts import run

pytestmark = pytest.mark.anyio

TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)
YAML_TEXTS = st.text("ab: -#'\"\n{}[]&*!|>%@`0123noyes", max_size=20)
YAML_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | YAML_TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(YAML_TEXTS, inner),
)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"))


async def serialized(value: Any, wanted: Any = "JSON") -> str:
    outputs = await run(Serialize(), input=value, format=wanted)
    assert list(outputs) == ["serialized"]
    return str(outputs["serialized"])


@given(DATA)
async def test_json_reads_back_as_the_same_data(value: Any) -> None:
    assert json.loads(await serialized(value, "JSON")) == value


async def test_json_keeps_order_and_letters_and_is_the_default() -> None:
    assert await run(Serialize(), input={"b": "ü", "a": [1, None]}) == {"serialized": '{"b":"ü","a":[1,null]}'}


@given(YAML_DATA)
async def test_yaml_reads_back_as_the_same_data(value: Any) -> None:
    assert yaml.safe_load(await serialized(value, "YAML")) == value


async def test_yaml_is_in_block_style_without_anchors_and_keeps_order() -> None:
    shared = ["x" * 200, "no"]

    text = await serialized({"string": "http://h", "array": shared, "again": shared}, "yaml")

    assert text == f"string: http://h\narray:\n- {'x' * 200}\n- 'no'\nagain:\n- {'x' * 200}\n- 'no'\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", "b", "c"], "a,b,c"),
        ([["n1=http://n1:2380", "n2=http://n2:2380"]], "n1=http://n1:2380,n2=http://n2:2380"),
        ([["only"]], "only"),
        (["only"], "only"),
        ([["a", 1], ["b", 2]], "a,1\nb,2"),
        (["x", ["b", 2]], "x\nb,2"),
        (["a,b", 'say "hi"', "two\nlines", ""], '"a,b","say ""hi""","two\nlines",'),
        ([1, 2.5, True, None, {"k": [1]}], '1,2.5,true,,"{""k"":[1]}"'),
        ([{"a": 1, "b": 2}, {"b": 3, "c": "x"}], "a,b,c\n1,2,\n,3,x"),
        ({"a": 1, "b": "x"}, "a,b\n1,x"),
        ("text", "text"),
        (7, "7"),
        ([], ""),
        ([[]], ""),
        (None, '""'),
    ],
)
async def test_csv_is_one_row_for_a_list_and_rows_for_lists(value: Any, text: str) -> None:
    assert await serialized(value, "CSV") == text


@given(st.lists(st.lists(CELLS, min_size=1), min_size=1))
async def test_csv_reads_back_as_the_same_rows(rows: list[list[str]]) -> None:
    text = await serialized(rows, "csv")

    assert list(csv.reader(io.StringIO(text, newline=""))) == rows


@pytest.mark.parametrize("wanted", ["XML", "", [], {"a": 1}, 3])
async def test_an_unknown_format_fails_with_the_known_ones(wanted: Any) -> None:
    with pytest.raises(ActionFailed, match="'format' is wrong: expected JSON, YAML or CSV") as failed:
        await serialized(1, wanted)

    assert not failed.value.retryable


async def test_a_missing_input_is_named() -> None:
    with pytest.raises(ActionFailed, match="'input' is missing"):
        await run(Serialize(), format="JSON")


@pytest.mark.parametrize("wanted", ["JSON", "CSV"])
async def test_what_has_no_form_in_json_fails(wanted: str) -> None:
    with pytest.raises(ActionFailed, match="'input' cannot be written as"):
        await serialized([float("nan"), object()], wanted)


@pytest.mark.parametrize("wanted", ["JSON", "YAML", "CSV"])
async def test_a_text_beyond_the_bound_fails_instead_of_being_kept(wanted: str) -> None:
    with pytest.raises(ActionFailed, match=str(limits.EXPRESSION_TEXT_CHARS)):
        await serialized("x" * (limits.EXPRESSION_TEXT_CHARS + 1), wanted)
