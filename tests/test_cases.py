"""Cases in one test: all of them are checked, and those that failed are named."""

import pytest

from tests.support.cases import each_holds, hold


def is_even(number: int) -> None:
    assert number % 2 == 0, "odd"


def test_each_case_that_fails_is_named_with_its_reason() -> None:
    with pytest.raises(AssertionError) as failed:
        hold(is_even, [(2,), (3,), (4,), (5,)])
    first, *cases = str(failed.value).splitlines()
    assert first == "2 of 4 cases failed:"
    assert [case for case in cases if "odd" in case] == ["3: AssertionError: odd", "5: AssertionError: odd"]


def test_an_error_of_any_kind_is_a_failure_and_no_cases_are_one_too() -> None:
    with pytest.raises(AssertionError, match="TypeError"):
        hold(is_even, [("x", "y")])
    with pytest.raises(AssertionError, match="there are no cases"):
        hold(is_even, [])
    hold(is_even, [(2,)])


def test_a_case_that_calls_fail_is_a_failure_with_the_name_that_it_was_given() -> None:
    with pytest.raises(AssertionError, match="the case of 7: Failed: no") as failed:
        hold(lambda _: pytest.fail("no"), [(7,)], named=lambda number: f"the case of {number}")
    assert isinstance(failed.value.__cause__, pytest.fail.Exception)


async def test_coroutines_are_checked_in_the_same_way() -> None:
    async def check(number: int) -> None:
        is_even(number)

    await each_holds(check, [(2,)])
    with pytest.raises(AssertionError, match=r"^1 of 2 cases failed:\n3: AssertionError: odd"):
        await each_holds(check, [(2,), (3,)])
