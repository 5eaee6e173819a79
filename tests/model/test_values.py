import base64
import json
import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.errors import LaunchbayError
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.scalars import settled
from launchbay.model.types import (
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    OBJECT,
    STRING,
    UNIT,
    ListType,
    MapType,
    PinKind,
    PinType,
    Primitive,
    Signature,
    Type,
    TypeSyntaxError,
    parse_pin_type,
    parse_type,
)
from launchbay.model.values import CoercionError, JsonLimitExceeded, coerce, coerce_text, parse_json, size_of
from tests.support.manifests import MANIFESTS

PRIMITIVES = [STRING, INT, BOOL, DOUBLE, OBJECT, UNIT, BYTES]
KEYS = [STRING, INT, BOOL, DOUBLE, OBJECT, BYTES]
TYPES: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from(PRIMITIVES),
    lambda inner: inner.map(ListType) | st.builds(MapType, st.sampled_from(KEYS), inner),
    max_leaves=4,
)
NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.-]{0,8}", fullmatch=True)
NAMED_TYPES = st.dictionaries(NAMES, TYPES, max_size=3)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
ANYTHING = (
    JSON_VALUES | st.floats() | st.integers() | st.binary() | st.dictionaries(st.integers(), st.none(), max_size=2)
)


def same(left: Any, right: Any) -> bool:
    """Compare values and, unlike ==, their kinds: 1, 1.0 and True are three."""
    return bool(left == right) and repr(left) == repr(right)


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


# Types


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("string", STRING),
        (" int ", INT),
        ("list<string>", ListType(STRING)),
        ("map<object>", MapType(STRING, OBJECT)),
        ("map<string,object>", MapType(STRING, OBJECT)),
        ("map < string ,\n map<string, string > >", MapType(STRING, MapType(STRING, STRING))),
        ("list<list<map<int,bytes>>>", ListType(ListType(MapType(INT, BYTES)))),
    ],
)
def test_types_are_parsed(text: str, type_: Type) -> None:
    assert parse_type(text) == type_


@given(TYPES)
def test_the_canonical_text_of_a_type_is_parsed_to_the_same_type(type_: Type) -> None:
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("  ", 2),
        ("strin", 0),
        ("String", 0),
        ("list", 4),
        ("list<", 5),
        ("list<>", 5),
        ("list<strin>", 5),
        ("list<string", 11),
        ("list<string,int>", 11),
        ("map<string,>", 11),
        ("map<unit,int>", 4),
        ("map<list<int>,int>", 4),
        ("map<string,int,int>", 14),
        ("string int", 7),
        ("int>", 3),
        ("int=", 3),
    ],
)
def test_what_is_no_type_is_refused_with_the_offset(text: str, offset: int) -> None:
    with pytest.raises(TypeSyntaxError) as caught:
        parse_type(text)
    assert caught.value.offset == offset
    assert isinstance(caught.value, LaunchbayError)
    assert f"at character {offset + 1} of" in str(caught.value)


def test_the_nesting_of_types_is_bounded() -> None:
    parse_type("list<" * limits.TYPE_DEPTH + "int" + ">" * limits.TYPE_DEPTH)
    for depth in (limits.TYPE_DEPTH + 1, 50_000):
        with pytest.raises(TypeSyntaxError, match="more than 16 levels"):
            parse_type("list<" * depth + "int" + ">" * depth)


@given(st.text(alphabet="listmapngue<>,()= =>\té", max_size=40))
def test_any_text_is_a_type_and_pin_type_and_signature_or_refused_as_declared(text: str) -> None:
    for parse, whole in ((parse_type, text), (parse_pin_type, text), (parse_pin_type, f"send-command({text})")):
        try:
            parse(whole)
        except TypeSyntaxError as error:
            offset = error.offset
        else:
            offset = 0
        assert 0 <= offset <= len(whole)


# Signatures and pin types


def parse_signature(text: str) -> Signature | None:
    return parse_pin_type(f"receive-command({text})").signature


def test_signatures_have_arguments_and_with_arrows_results() -> None:
    assert parse_signature("string a, map<string,object> b") == Signature({"a": STRING, "b": MapType(STRING, OBJECT)})
    assert parse_signature("string a => int b") == Signature({"a": STRING}, {}, {"b": INT})
    assert parse_signature("string a, map<object> b => string c => string d, int e") == Signature(
        {"a": STRING, "b": MapType(STRING, OBJECT)}, {"c": STRING}, {"d": STRING, "e": INT}
    )


@pytest.mark.parametrize("text", ["", "()", "( )", "=>", "( => )", "(=>=>)"])
def test_empty_signatures_are_legal(text: str) -> None:
    assert parse_signature(text) == Signature()


def test_results_without_arguments_are_legal() -> None:
    assert parse_signature("(=> string own)") == Signature({}, {}, {"own": STRING})


def test_the_order_of_arguments_means_nothing() -> None:
    assert parse_signature("int a, bool b") == parse_signature("bool b, int a")
    assert hash(parse_pin_type("send-command(int a, bool b)")) == hash(parse_pin_type("send-command(bool b, int a)"))
    assert parse_signature("int a => int b") != parse_signature("int b => int a")


@given(st.builds(Signature, NAMED_TYPES, NAMED_TYPES, NAMED_TYPES))
def test_the_canonical_text_of_a_signature_is_parsed_to_the_same(signature: Signature) -> None:
    assert parse_signature(str(signature)) == signature
    pin_type = PinType(PinKind.SEND_COMMAND, signature=signature)
    assert parse_pin_type(str(pin_type)) == pin_type


@given(st.sampled_from(PinKind).filter(lambda kind: not kind.is_command), TYPES)
def test_the_canonical_text_of_a_pin_type_is_parsed_to_the_same(kind: PinKind, type_: Type) -> None:
    assert parse_pin_type(str(PinType(kind, type_))) == PinType(kind, type_)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        (" signal(int)", 1),
        ("configuration", 13),
        ("configuration()", 14),
        ("configuration(int", 17),
        ("configuration(int) x", 19),
        ("publish-signal(int a)", 19),
        ("receive-command(string)", 22),
        ("receive-command(string a,)", 25),
        ("receive-command(string a, int a)", 31),
        ("receive-command(=>=>=>)", 20),
        ("receive-command(string a => int)", 31),
    ],
)
def test_what_is_no_pin_type_is_refused_with_the_offset(text: str, offset: int) -> None:
    with pytest.raises(TypeSyntaxError) as caught:
        parse_pin_type(text)
    assert caught.value.offset == offset


def test_kinds_know_their_other_end() -> None:
    assert [kind for kind in PinKind if kind.is_need] == [PinKind.CONSUME_SIGNAL, PinKind.SEND_COMMAND]
    assert PinKind.CONFIGURATION.complement is None
    assert all(kind.complement.complement is kind for kind in PinKind if kind.complement)


def test_every_pin_type_of_the_manifests_is_parsed() -> None:
    kinds = tuple(f"{kind.value}(" for kind in PinKind)
    found = {text for path in MANIFESTS for text in texts_of(plain(read(path.read_bytes()))) if text.startswith(kinds)}
    assert len(found) > 40
    for text in found:
        assert parse_pin_type(str(parse_pin_type(text))) == parse_pin_type(text)


# Coercion


@pytest.mark.parametrize(
    ("type_", "value", "coerced"),
    [
        (INT, "42", 42),
        (INT, " -7\n", -7),
        (INT, 3.0, 3),
        (INT, "3.0", 3),
        (INT, str(2**63 - 1), 2**63 - 1),
        (DOUBLE, 3, 3.0),
        (DOUBLE, "1.5e3", 1500.0),
        (DOUBLE, 2**62, float(2**62)),
        (BOOL, "true", True),
        (BOOL, "False", False),
        (STRING, 7, "7"),
        (STRING, True, "true"),
        (STRING, 1.5, "1.5"),
        (STRING, "", ""),
        (UNIT, None, None),
        (UNIT, {}, None),
        (UNIT, "", None),
        (BYTES, "aGVs\nbG8=\n", "aGVsbG8="),
        (OBJECT, None, None),
        (OBJECT, (1, "x"), [1, "x"]),
        (ListType(INT), ["1", 2, 3.0], [1, 2, 3]),
        (MapType(STRING, ListType(BOOL)), {"a": ["true"]}, {"a": [True]}),
        (MapType(INT, STRING), {"07": 1, "8": "x"}, {"7": "1", "8": "x"}),
        (MapType(OBJECT, OBJECT), {"a": {"b": None}}, {"a": {"b": None}}),
    ],
)
def test_values_are_coerced_where_nothing_is_lost(type_: Type, value: object, coerced: object) -> None:
    assert same(coerce(type_, value), coerced)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (
            INT,
            [
                "",
                "x",
                "1.5",
                "1e3",
                "0x1F",
                "4 2",
                "٤",
                1.5,
                math.inf,
                math.nan,
                True,
                None,
                [1],
                {},
                2**63,
                "9" * 5000,
            ],
        ),
        (INT, [str(2**63), float(2**63), -(2**63) - 1]),
        (
            DOUBLE,
            [
                "1e-400",
                "9007199254740993",
                "9007199254740993.0",
                "",
                "x",
                "nan",
                "inf",
                "1e999",
                "1_0",
                math.nan,
                math.inf,
                True,
                None,
                [],
                2**53 + 1,
                2**2000,
            ],
        ),
        (BOOL, ["", "yes", "1", 1, 0, 1.0, None, []]),
        (STRING, [None, [], {}, math.nan, 2**63]),
        (UNIT, [0, False, "x", [], {"a": 1}]),
        (BYTES, ["a", "a===", "$$$$", "é", b"aGk=", None, 7]),
        (OBJECT, [b"x", {1: 2}, math.inf, [2**63], {"a": object()}, {None: 1}]),
        (ListType(INT), ["1", 1, None, {"0": 1}, [1, "x"], [None]]),
        (MapType(STRING, INT), [[], None, "{}", {"a": "x"}, {1: 1}]),
        (MapType(INT, INT), [{"x": 1}, {"1": 1, "01": 2}]),
    ],
)
def test_values_that_would_lose_something_are_refused(type_: Type, values: list[object]) -> None:
    for value in values:
        with pytest.raises(CoercionError):
            coerce(type_, value)


def test_the_refusal_names_type_place_and_kind_but_never_the_value() -> None:
    with pytest.raises(CoercionError) as caught:
        coerce(parse_type("list<map<int>>"), [{}, {}, {"fine": 1, "key": "hunter2"}])
    assert caught.value.path == "[2].key"
    assert str(caught.value) == "Expected an integer (int) at [2].key, not other text."
    with pytest.raises(CoercionError, match=re.escape("Expected map<string,int>, not a list.")):
        coerce(MapType(STRING, INT), ["hunter2"])
    with pytest.raises(CoercionError) as caught:
        coerce(OBJECT, {"odd key": [{"a": math.nan}]})
    assert caught.value.path == "['odd key'][0].a"


@given(TYPES, ANYTHING)
def test_coercion_gives_a_settled_json_value_or_refuses_as_declared(type_: Type, value: object) -> None:
    for function in (coerce, coerce_text):
        try:
            coerced = function(type_, value)
        except CoercionError:
            continue
        json.dumps(coerced, allow_nan=False)
        assert same(coerce(type_, coerced), coerced)


@given(JSON_VALUES)
def test_objects_are_kept_as_they_are(value: object) -> None:
    assert same(coerce(OBJECT, value), value)


@given(st.binary())
def test_base64_is_kept(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert coerce(BYTES, text) == text


@pytest.mark.parametrize(
    ("type_", "value"),
    [(OBJECT, {"a": [1]}), (ListType(OBJECT), [{"a": 1}]), (MapType(STRING, ListType(INT)), {"a": [1]})],
)
def test_what_comes_out_shares_nothing_with_what_went_in(type_: Type, value: Any) -> None:
    before = json.dumps(value)
    coerced = coerce(type_, value)
    inner = coerced["a"] if "a" in coerced else coerced[0]
    inner.clear()
    coerced.clear()
    assert json.dumps(value) == before


def test_the_depth_of_values_is_bounded() -> None:
    value: Any = 1
    for _ in range(limits.JSON_DEPTH):
        value = [value]
    assert coerce(OBJECT, value) == value
    with pytest.raises(CoercionError, match="more than 64 levels"):
        coerce(OBJECT, [value])
    with pytest.raises(CoercionError, match="more than 64 levels"):
        coerce(ListType(OBJECT), {"a": value}["a"] and [value])
    for _ in range(5000):
        value = [value]
    with pytest.raises(CoercionError, match="more than 64 levels"):
        coerce(OBJECT, value)


# Texts of the API


@pytest.mark.parametrize(
    ("type_", "text", "coerced"),
    [
        (STRING, "42", "42"),
        (STRING, '{"a": 1}', '{"a": 1}'),
        (INT, "42", 42),
        (BOOL, "true", True),
        (DOUBLE, "1", 1.0),
        (UNIT, "null", None),
        (UNIT, "", None),
        (BYTES, "aGk=", "aGk="),
        (ListType(STRING), '["a", 1]', ["a", "1"]),
        (MapType(STRING, INT), ' {"a": "1"} ', {"a": 1}),
        (DOUBLE, "1e-30", 1e-30),
        (DOUBLE, "0e-400", 0.0),
        (OBJECT, '{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        (OBJECT, ' [1, "1.10", 1e3]', [1, "1.10", 1000.0]),
        (OBJECT, "12", 12),
        (OBJECT, "1.1", 1.1),
        (OBJECT, "true", True),
        (OBJECT, "-0", "-0"),
        (OBJECT, " 12", " 12"),
        (OBJECT, "1.10", "1.10"),
        (OBJECT, "1e3", "1e3"),
        (OBJECT, "null", None),
        (OBJECT, '"x"', '"x"'),
        (OBJECT, "plain text", "plain text"),
        (OBJECT, "", ""),
        (OBJECT, "{oops", "{oops"),
        (OBJECT, "NaN", "NaN"),
        (OBJECT, "12345678901234567890123", "12345678901234567890123"),
        (ListType(INT), ["1"], [1]),
        (INT, 42, 42),
        (OBJECT, {"a": "1"}, {"a": "1"}),
    ],
)
def test_parameters_of_the_api_are_texts_or_values(type_: Type, text: object, coerced: object) -> None:
    assert same(coerce_text(type_, text), coerced)


@pytest.mark.parametrize(
    ("type_", "text", "sentence"),
    [
        (ListType(STRING), "a", "a string that is not JSON"),
        (ListType(STRING), "", "a string that is not JSON"),
        (ListType(STRING), '{"a": 1}', "a map"),
        (ListType(INT), '["x"]', r"at \[0\]"),
        (ListType(DOUBLE), "[NaN]", "not JSON"),
        (OBJECT, '{"a": 1, "a": 2}', "a duplicate key"),
        (OBJECT, "[" * 65 + "]" * 65, "more than 64 levels"),
        (OBJECT, "[" * 100_000 + "]" * 100_000, "more than 64 levels"),
        (OBJECT, "[99999999999999999999]", "64 bits"),
        (OBJECT, "[1e999]", "double"),
        (OBJECT, "[1e-400]", "double"),
        (OBJECT, '["\\u0000"]', "NUL"),
        (OBJECT, '["\\ud800"]', "surrogate"),
        (MapType(STRING, OBJECT), '{"\\udfff": 1}', "surrogate"),
    ],
)
def test_texts_that_hold_no_fitting_json_are_refused(type_: Type, text: str, sentence: str) -> None:
    with pytest.raises(CoercionError, match=sentence):
        coerce_text(type_, text)


@given(JSON_VALUES)
def test_json_texts_are_read_back(value: object) -> None:
    assert same(parse_json(json.dumps(value)), value)
    if isinstance(value, dict | list):
        assert same(coerce_text(OBJECT, json.dumps(value)), value)


@given(st.text(alphabet='[]{}",:0123e.-tfnul\\ ', max_size=30))
def test_any_text_is_json_or_refused_as_declared(text: str) -> None:
    try:
        value = parse_json(text)
    except ValueError:
        return
    assert same(value, json.loads(text))


def test_long_texts_take_linear_time() -> None:
    start = time.process_time()
    for type_, text in (
        (INT, "9" * 10**6),
        (DOUBLE, "9" * 10**6),
        (OBJECT, "9" * 10**6),
        (ListType(INT), "[" + "1," * 10**5 + "1]"),
    ):
        try:
            coerce_text(type_, text)
        except CoercionError:
            continue
    assert time.process_time() - start < 10  # in quadratic time, a million digits take minutes


def test_json_beyond_the_bounds_is_told_from_what_is_no_json() -> None:
    with pytest.raises(JsonLimitExceeded):
        parse_json('{"a":1,"a":1}')
    with pytest.raises(ValueError, match=r"\(Expecting value at line 2, column 3\)") as caught:
        parse_json('{"a":\n  x}')
    assert not isinstance(caught.value, JsonLimitExceeded)


def test_primitives_are_compared_by_name() -> None:
    assert parse_type("int") == Primitive("int")
    assert len({parse_type("list<int>"), ListType(INT), parse_type("map<int>"), parse_type("map<string,int>")}) == 2


@pytest.mark.parametrize(
    ("value", "size"),
    [
        pytest.param(None, 64, id="null"),
        pytest.param("four", 68, id="text"),
        pytest.param([1, 2], 3 * 64, id="list"),
        pytest.param({"ab": ["c"]}, 3 * 64 + 3, id="map"),
    ],
)
def test_the_size_of_a_value_counts_each_value_and_its_characters(value: object, size: int) -> None:
    assert size_of(value, limits.MIB) == size


def test_the_size_of_a_value_is_above_the_bound_if_it_has_more() -> None:
    cyclic: list[object] = []
    cyclic.append(cyclic)
    for value in (cyclic, [0] * 100_000, {str(n): n for n in range(1_000)}, "x" * 2_000):
        assert size_of(value, 1_000) > 1_000


_NESTED = st.recursive(
    ANYTHING | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(_NESTED)
def test_a_copy_in_c_is_the_same_as_one_by_one(value: object) -> None:
    def copied(convert: Callable[[], object]) -> str:
        try:
            return repr(convert())
        except CoercionError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launchbay.model.values._is_plain", lambda _: False)
        slow = copied(lambda: coerce(OBJECT, value))
    assert copied(lambda: coerce(OBJECT, value)) == slow


def test_a_copy_shares_nothing_with_the_value() -> None:
    inner = {"a": [1]}
    value = [inner, inner]
    copy = coerce(OBJECT, value)
    assert copy == value
    assert len({id(inner), *map(id, copy)}) == 3


def test_a_value_of_maps_costs_little_more_than_its_encoding() -> None:
    maps = [{"a": number} for number in range(30_000)]
    encoding = _shortest_ns(lambda: msgspec.json.encode(maps))
    assert _shortest_ns(lambda: size_of(maps, 16 * limits.MIB)) < 20 * encoding  # one by one, it was 70 times
    assert _shortest_ns(lambda: settled(maps)) < 20 * encoding


def _shortest_ns(work: Callable[[], object]) -> int:
    found = []
    for _ in range(5):
        begun = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - begun)
    return min(found)
