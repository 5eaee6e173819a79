"""Duties go on, whatever happens in one of their rounds."""

import asyncio
from collections.abc import Awaitable, Callable

from launchbay.engine.worker import PeriodicTask, run_periodically
from launchbay.errors import Unavailable


async def attended(round_: Callable[[], Awaitable[object]], for_s: float, interval_s: float = 0.01) -> float:
    """Attend a duty for a time and return how long its end took."""
    stop = asyncio.Event()
    attending = asyncio.create_task(run_periodically(PeriodicTask("test", interval_s, round_), stop))
    await asyncio.sleep(for_s)
    stop.set()
    begun = asyncio.get_running_loop().time()
    await asyncio.wait_for(attending, 2)
    return asyncio.get_running_loop().time() - begun


async def test_a_round_that_fails_is_followed_by_the_next() -> None:
    rounds: list[int] = []

    async def fail() -> None:
        rounds.append(1)
        raise (Unavailable("away"), ValueError("a defect"))[len(rounds) % 2]

    await attended(fail, 1)
    assert len(rounds) > 4


async def test_a_round_that_found_work_is_followed_by_the_next_at_once() -> None:
    rounds: list[int] = []

    async def work() -> bool:
        rounds.append(1)
        return len(rounds) < 50

    await attended(work, 0.1, interval_s=60)
    assert len(rounds) == 50


async def test_a_duty_with_endless_work_still_stops() -> None:
    async def endless() -> bool:
        return True

    assert await attended(endless, 0.05) < 0.5


async def test_a_stop_does_not_wait_for_the_interval() -> None:
    async def nothing() -> None:
        return None

    assert await attended(nothing, 0.05, interval_s=60) < 0.5
