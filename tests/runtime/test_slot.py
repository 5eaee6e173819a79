"""When a job may leave its worker: where nothing is cut in two."""

import asyncio

import pytest

from launchbay.runtime.slot import Slot, current_slot, interruptible, interruptible_sleep, uninterruptible
from tests.support.eventually import eventually


class Leaving:
    """A slot that is the current one, and how often its job was told to go."""

    def __init__(self) -> None:
        self.times = 0
        self.slot = Slot(on_evicted=self._count)
        current_slot.set(self.slot)

    def _count(self) -> None:
        self.times += 1


async def test_a_job_that_neither_waits_nor_begins_anything_may_come_to_its_end() -> None:
    leaving = Leaving()
    async with uninterruptible():
        leaving.slot.drain()
    assert leaving.times == 0


async def test_no_effect_begins_after_the_stop() -> None:
    leaving = Leaving()
    leaving.slot.drain()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), uninterruptible():
            pytest.fail("it has begun")
    assert leaving.times == 1


async def test_what_belongs_to_an_effect_is_done_after_the_stop_too() -> None:
    leaving = Leaving()
    async with uninterruptible():
        leaving.slot.drain()
        async with uninterruptible():
            pass
        assert leaving.times == 0


async def test_a_pause_amid_an_effect_is_a_place_to_leave_unless_another_effect_is_under_way() -> None:
    leaving = Leaving()
    began, ends = asyncio.Event(), asyncio.Event()

    async def another() -> None:
        async with uninterruptible():
            began.set()
            await ends.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(another())
        await began.wait()
        async with uninterruptible():
            leaving.slot.drain()
            with interruptible():
                assert leaving.times == 0
                ends.set()
                await eventually(lambda: leaving.times)
            await interruptible_sleep(0)
    assert leaving.times == 1, "it is told once"


async def test_without_a_worker_nothing_is_counted() -> None:
    current_slot.set(None)
    async with uninterruptible():
        await interruptible_sleep(0)
