"""What tests wait with: it returns what it saw, and says what it saw last if that never came."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.clock import without_waiting
from tests.support.eventually import eventually, eventually_blocking


def counted(seen: list[int]) -> int:
    seen.append(len(seen))
    return len(seen)


@without_waiting
async def test_what_was_seen_is_returned_once_it_is_as_wanted() -> None:
    seen: list[int] = []

    async def look() -> int:
        return counted(seen)

    assert await eventually(look, lambda found: found > 3) == 4
    assert await eventually(lambda: counted(seen), lambda found: found > 7) == 8
    assert eventually_blocking(lambda: counted(seen), lambda found: found > 9) == 10


@without_waiting
async def test_a_failure_says_what_was_seen_last_and_with_what() -> None:
    wanted = "Running"
    with pytest.raises(AssertionError, match=r"after 5 s there is still 'Failed', wanted = 'Running'"):
        await eventually(lambda: "Failed", lambda found: found == wanted, within_s=5)
    with pytest.raises(AssertionError, match=r"after 0 s there is still 'Failed'"):
        eventually_blocking(lambda: "Failed", lambda found: found == wanted, within_s=0)


@without_waiting
async def test_errors_that_are_named_count_as_seen_and_all_others_come_at_once() -> None:
    answers: Iterator[object] = iter([OSError("refused"), OSError("refused"), "here"])

    def look() -> object:
        found = next(answers)
        if isinstance(found, OSError):
            raise found
        return found

    assert await eventually(look, despite=OSError) == "here"
    with pytest.raises(StopIteration):
        eventually_blocking(look, despite=OSError)
    with pytest.raises(AssertionError, match="still ZeroDivisionError"):
        await eventually(lambda: 1 // 0, despite=ZeroDivisionError)


@without_waiting
async def test_a_look_that_hangs_is_ended_and_one_that_gives_up_says_so() -> None:
    with pytest.raises(AssertionError, match="the first look has not ended"):
        await eventually(asyncio.Event().wait)

    async def given_up() -> None:
        raise TimeoutError("The pool is empty.")

    with pytest.raises(TimeoutError, match="The pool is empty"):
        await eventually(given_up)
