"""Many small cases in one test: collecting, scheduling and reporting a test takes longer than most of them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import pytest

MOST_SHOWN = 20
_FAILURES = (Exception, pytest.fail.Exception)

Case = tuple[object, ...]


def hold(check: Callable[..., None], cases: Iterable[Case], named: Callable[..., object] | None = None) -> None:
    """Check all cases, given as arguments. Raises AssertionError that names those that failed, and why.

    `named` gives the name of a case; without it the case is its name.
    """
    failed, checked = [], list(cases)
    for case in checked:
        try:
            check(*case)
        except _FAILURES as error:
            failed.append((case, error))
    _report(failed, len(checked), named)


async def each_holds(
    check: Callable[..., Awaitable[None]], cases: Iterable[Case], named: Callable[..., object] | None = None
) -> None:
    """Check all cases as `hold` does, one after another, with a coroutine function."""
    failed, checked = [], list(cases)
    for case in checked:
        try:
            await check(*case)
        except _FAILURES as error:
            failed.append((case, error))
    _report(failed, len(checked), named)


def _report(failed: Sequence[tuple[Case, BaseException]], count: int, named: Callable[..., object] | None) -> None:
    assert count, "there are no cases"
    if not failed:
        return
    lines = [
        f"{named(*case) if named else ', '.join(map(str, case))}: {type(error).__name__}: {error}"
        for case, error in failed[:MOST_SHOWN]
    ]
    # The first one is shown in full, with its lines.
    raise AssertionError("\n".join([f"{len(failed)} of {count} cases failed:", *lines])) from failed[0][1]
