"""Which values of two runs differ, and which nobody can tell."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from launchbay.model.masked_comparison import ValueDifference, compare_masked
from launchbay.model.redaction import MaskedValues, Redactor

SECRET = "correct horse"
MOST_BYTES = 300
_MASK = "*" * 8


def compared(one: Any, other: Any, *, are_cut: bool = False) -> tuple[list[str], list[str]]:
    """Return the names of what differs, and of what may."""
    found = compare_masked(MaskedValues(one, are_cut), MaskedValues(other, are_cut))
    return [each.name for each in found.differences], found.uncertain


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), ([0], [False]), ({"a": 1}, {"a": True}), (None, "")])
def test_values_of_other_types_differ(one: object, other: object) -> None:
    assert compared({"x": one, "y": 2}, {"x": other, "y": 2})[0] in (["x"], ["x.a"])
    assert compared({"x": one, "y": 2}, {"x": one, "y": 2}) == ([], [])


def test_a_missing_value_differs() -> None:
    found = compare_masked(MaskedValues({"a": {"b": 1}}), MaskedValues({"a": {}, "c": 2}))
    assert found.differences == [ValueDifference("a.b", 1, None), ValueDifference("c", None, 2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_MASK, _MASK),
        (_MASK, "shown"),
        (f"Bearer {_MASK}", f"Bearer {_MASK}"),
        (f"a{_MASK}z", "abcz"),
        (f"{_MASK}-{_MASK}", f"{_MASK}+{_MASK}"),
        (_MASK, 7),
        (_MASK, {"a": 1}),
        ([1, _MASK], [1, _MASK]),
        ([{"a": _MASK}], [{"a": _MASK}]),
    ],
)
def test_masked_values_may_differ(one: object, other: object) -> None:
    assert compared({"x": one}, {"x": other}) == ([], ["x"])
    assert compared({"x": other}, {"x": one}) == ([], ["x"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"Bearer {_MASK}", f"Basic {_MASK}"),
        (f"a{_MASK}z", "abcy"),
        (f"abc{_MASK}", "ab"),
        (f"{_MASK}xyz", "yz"),
        (_MASK, None),
        (_MASK, True),
        ([1, _MASK], [2, _MASK]),
        ([_MASK], [_MASK, 1]),
    ],
)
def test_what_is_shown_beside_a_mask_may_already_differ(one: object, other: object) -> None:
    assert compared({"x": one}, {"x": other}) == (["x"], [])
    assert compared({"x": other}, {"x": one}) == (["x"], [])


def test_the_names_of_masked_values_in_maps_are_those_of_the_maps() -> None:
    assert compared({"a": {"password": _MASK, "b": 1}}, {"a": {"password": _MASK, "b": 2}}) == (["a.b"], ["a.password"])


def test_a_name_may_be_there_as_one_that_is_masked() -> None:
    """A run masks its own secrets only, so equal maps show different names after a secret has changed."""
    former, later = Redactor([{"password": SECRET}]), Redactor([{"password": "wrong horse"}])
    one, other = [each.value({"m": {f"x-{SECRET}-1": 1}}) for each in (former, later)]
    assert compared(one, other) == ([], [f"m.x-{_MASK}-1", f"m.x-{SECRET}-1"])
    assert compared(other, one) == ([], [f"m.x-{SECRET}-1", f"m.x-{_MASK}-1"])
    assert compared(one, {"m": {"y": 1}}) == (["m.y"], [f"m.x-{_MASK}-1"])


@pytest.mark.parametrize("value", [1, {"a": 1}])
def test_equal_values_under_a_masked_name_may_be_those_of_two_names(value: object) -> None:
    former, later = Redactor([{"password": SECRET}]), Redactor([{"password": "wrong horse"}])
    one, other = former.value({"m": {f"x-{SECRET}": value}}), later.value({"m": {"x-wrong horse": value}})
    assert one == other == {"m": {f"x-{_MASK}": value}}
    assert compared(one, other) == ([], [f"m.x-{_MASK}"])
    assert compare_masked(MaskedValues(one), MaskedValues(other)).equal == 0


_SECRET_NAMES = st.dictionaries(st.sampled_from(["a", f"k-{SECRET}", "k-wrong horse", "k-"]), st.integers(0, 1))


@given(_SECRET_NAMES, _SECRET_NAMES)
@example({f"k-{SECRET}": 0}, {"k-wrong horse": 0})
def test_maps_with_masked_names_are_never_called_equal_or_different_wrongly(
    one: dict[str, int], other: dict[str, int]
) -> None:
    former, later = Redactor([{"password": SECRET}]), Redactor([{"password": "wrong horse"}])
    differing, uncertain = compared(former.value({"m": one}), later.value({"m": other}))
    assert not (one == other and differing)
    assert one == other or differing or uncertain


def test_what_is_cut_is_compared_as_far_as_both_show_it() -> None:
    assert compared({"x": "abc…"}, {"x": "abcde…"}, are_cut=True) == ([], ["x"])
    assert compared({"x": "abc…"}, {"x": "abd…"}, are_cut=True) == (["x"], [])
    assert compared({"x": "abc…"}, {"x": "ab"}, are_cut=True) == (["x"], [])
    assert compared({"x": [1, "… (1 of 3)"]}, {"x": [1, 2, "… (2 of 3)"]}, are_cut=True) == ([], ["x"])
    assert compared({"x": [1, 2, "… (2 of 3)"]}, {"x": [1]}, are_cut=True) == (["x"], [])
    assert compared({"a": 1, "…": "1 of 3"}, {"a": 1, "b": 2, "…": "2 of 3"}, are_cut=True) == ([], ["b", "…"])
    assert compared({"m": {"a": 1, "…": "1 of 3"}}, {"m": {"a": 2}}, are_cut=True) == (["m.a"], ["m.…"])


def test_an_ellipsis_in_values_that_are_not_cut_is_just_text() -> None:
    assert compared({"x": "abc…", "…": "1 of 2"}, {"x": "abcd…", "…": "1 of 3"}) == (["x", "…"], [])
    assert compared({"x": ["… (1 of 3)"]}, {"x": ["… (1 of 4)"]}) == (["x"], [])


_TEXTS = st.text("ab…*", max_size=4) | st.sampled_from([SECRET, f"Bearer {SECRET}", "x" * 200, "x" * 150 + "y" * 60])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "password", "…"]), inner),
    max_leaves=8,
)
_MAPS = st.dictionaries(st.sampled_from(["a", "b", "c", "token"]), _VALUES, max_size=4)


@given(_MAPS, _MAPS, st.sets(st.sampled_from(["a", "b", "c", "token"])))
@example({"a": "x" * 200, "b": 1}, {"a": "x" * 200, "b": "y" * 200}, set())  # which cuts `a` at another place
def test_equal_values_never_differ_and_others_are_never_called_equal(
    one: dict[str, Any], other: dict[str, Any], shared: set[str]
) -> None:
    """Whatever is masked, and however much of it is kept."""
    other = {**other, **{name: one[name] for name in shared & one.keys()}}
    redactor = Redactor([{"password": SECRET}])
    found = compare_masked(redactor.bounded(one, MOST_BYTES), redactor.bounded(other, MOST_BYTES))
    differing = {each.name.partition(".")[0] for each in found.differences}
    uncertain = {name.partition(".")[0] for name in found.uncertain}
    for name in one.keys() | other.keys():
        is_equal = name in one and name in other and repr(one[name]) == repr(other[name])
        assert not (is_equal and name in differing), name
        assert is_equal or name in differing | uncertain or "…" in uncertain, name
