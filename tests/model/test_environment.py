from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import BadRequest
from launchbay.limits import ENVIRONMENT_ENTRIES
from launchbay.model.environment import Marker, Property, validate_markers, validate_properties

types = st.recursive(
    st.sampled_from(["object", "string", "int", "bool"]),
    lambda inner: inner.map("list<{}>".format) | inner.map("map<string,{}>".format),
    max_leaves=4,
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def refused(*entries: Property) -> tuple[str, ...]:
    with pytest.raises(BadRequest) as caught:
        validate_properties(entries)
    assert caught.value.code == "InvalidProperties"
    return caught.value.messages


@pytest.mark.parametrize(
    ("type_", "given_value", "kept"),
    [
        ("string", "a", "a"),
        ("int", 42, 42),
        ("int", "42", 42),
        ("int", 42.0, 42),
        ("bool", "true", True),
        ("object", None, None),
        ("object", {"b": [1, None], "a": 0.5}, {"b": [1, None], "a": 0.5}),
        ("list<string>", ["a", 1], ["a", "1"]),
        ("map<string,int>", {"a": "1"}, {"a": 1}),
        ("map<string, list<map<string,int>>>", {"a": [{"b": 1}]}, {"a": [{"b": 1}]}),
        ("list< int >", [1], [1]),
    ],
)
def test_a_value_becomes_its_type_where_nothing_is_lost(type_: str, given_value: Any, kept: Any) -> None:
    [checked] = validate_properties([Property("p", given_value, type_)])
    assert checked.value == kept
    assert type(checked.value) is type(kept)
    assert checked.type == type_.strip()


@pytest.mark.parametrize(
    ("type_", "given_value"),
    [
        ("int", "many"),
        ("int", 1.5),
        ("int", True),
        ("int", 2**64),
        ("bool", 1),
        ("string", None),
        ("string", ["a"]),
        ("list<string>", "a"),
        ("list<int>", [1, "x"]),
        ("map<string,int>", {"a": None}),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_propertys_name(type_: str, given_value: Any) -> None:
    [sentence] = refused(Property("size", given_value, type_))
    assert sentence.startswith("The value of property 'size' doesn't match its type. Expected ")


@pytest.mark.parametrize("type_", ["", "integer", "list", "list<>", "map<string,int", "double", "unit", "list<bytes>"])
def test_a_type_that_the_reference_does_not_allow_is_refused(type_: str) -> None:
    [sentence] = refused(Property("size", 1, type_))
    assert sentence.startswith("The type of property 'size' is invalid. ")


def test_a_value_is_never_repeated_in_a_refusal() -> None:
    assert "hunter2" not in " ".join(refused(Property("p", "hunter2", "int"), Property("q", {"x": "hunter2"}, "bool")))


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "a\nb", "a\x00", "x" * 256])
def test_a_bad_name_is_refused(name: str) -> None:
    assert "Use 1 to 255 characters" in refused(Property(name, 1, "int"))[0]
    with pytest.raises(BadRequest, match="Use 1 to 255 characters"):
        validate_markers([Marker(name)])


def test_a_name_that_stands_twice_is_refused_once() -> None:
    twice = [Marker("a"), Marker("b"), Marker("a"), Marker("a")]
    with pytest.raises(BadRequest) as caught:
        validate_markers(twice)
    assert caught.value.messages == ("Duplicate marker 'a'. Keep one.",)
    assert refused(Property("p", 1, "int"), Property("p", 1, "int")) == ("Duplicate property 'p'. Keep one.",)


def test_there_is_a_bound_on_their_number() -> None:
    names = [Marker(f"m{number}") for number in range(ENVIRONMENT_ENTRIES + 1)]
    assert validate_markers(names[:-1]) == names[:-1]
    with pytest.raises(BadRequest, match="at most 1000 of one kind"):
        validate_markers(names)


def test_a_long_list_of_problems_is_cut_with_their_number() -> None:
    sentences = refused(*(Property(f"p{number}", "x", "int") for number in range(50)))
    assert len(sentences) == 21
    assert sentences[-1] == "30 more errors aren't shown."


@given(types, json_values)
def test_what_was_checked_once_stays_as_it_is(type_: str, value: Any) -> None:
    try:
        checked = validate_properties([Property("p", value, type_)])
    except BadRequest:
        return
    assert validate_properties(checked) == checked


@pytest.mark.parametrize("value", [1, 1.0, True])
def test_a_string_is_not_made_of_another_value(value: object) -> None:
    with pytest.raises(BadRequest, match="Expected a string, not a value of another type; put it in quotes"):
        validate_properties([Property("p", value, "string")])
    assert validate_properties([Property("p", "1", "string")]) == [Property("p", "1", "string")]


@pytest.mark.parametrize("type_", ["int ", " int", "map<string>", "list<map<int>>"])
def test_types_have_one_form(type_: str) -> None:
    with pytest.raises(BadRequest, match=r"The type of property 'p' is invalid\. Write '"):
        validate_properties([Property("p", None, type_)])
    assert validate_properties([Property("p", {"a": 1}, "map<string, int>")])[0].value == {"a": 1}
