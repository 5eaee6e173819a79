"""Virtual time: hours pass in no time, in order, and never while somebody works."""

import asyncio
import time

import pytest

from launchbay.manifest_tests.virtual_time import START, Deadlock, VirtualClock, VirtualLoop, run


def test_hours_pass_in_no_time_and_in_order() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[str, float]]:
        events: list[tuple[str, float]] = []

        async def after(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            events.append((name, loop.time()))

        await asyncio.gather(after("late", 7200), after("soon", 0.5), after("next", 3600))
        return events

    began_s = time.monotonic()
    events = run(work)
    assert [name for name, _ in events] == ["soon", "next", "late"]
    assert [at for _, at in events] == pytest.approx([0.5, 3600, 7200])
    assert time.monotonic() - began_s < 60


def test_the_clock_follows_the_loop() -> None:
    async def work(loop: VirtualLoop) -> tuple[float, float]:
        clock = VirtualClock(loop)
        assert clock.now() == START
        await asyncio.sleep(90)
        return (clock.now() - START).total_seconds(), clock.monotonic_s()

    assert run(work) == pytest.approx((90, 90))


def test_time_stands_still_while_a_thread_works() -> None:
    async def work(loop: VirtualLoop) -> float:
        async with asyncio.timeout(0.01):
            await asyncio.to_thread(time.sleep, 0.1)
        return loop.time()

    assert run(work) == 0


def test_a_timeout_comes_true() -> None:
    async def work(_: VirtualLoop) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()

    run(work)


def test_a_standstill_is_told_and_does_not_hang() -> None:
    async def work(_: VirtualLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(work)
