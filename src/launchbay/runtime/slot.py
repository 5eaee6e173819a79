"""The place of a running job in its worker: when it may be lent to others, and when the job may leave the worker.

A worker runs so many jobs at the same time. One that waits for a person, perhaps for days, needs no share of that, and
would keep others from running. So waiting is done inside of `lent_slot()`, which tells whoever counts.

A worker that is asked to stop hands its jobs to others. A job leaves where nothing is cut in two: while it only waits
(`resting()`), or where it would begin its next effect (`effect()`). What has begun may come to its end first.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar


def _nothing() -> None:
    """What follows where nobody wants to know."""


class Slot:
    """The place of one job, which may do several things beside each other.

    It counts as lent from the first of them that waits to the last. `on_left` is called once, after `leave`, as soon as
    the job has no effect under way and waits, with something or before its next effect.
    """

    def __init__(
        self,
        on_released: Callable[[], None] = _nothing,
        on_reacquired: Callable[[], None] = _nothing,
        on_evicted: Callable[[], object] = _nothing,
    ) -> None:
        self._on_released = on_released
        self._on_reacquired = on_reacquired
        self._on_evicted = on_evicted
        self._released_count = 0
        self._interruptible_count = 0
        self._uninterruptible_count = 0
        self._is_draining = False
        self._is_evicted = False

    @contextmanager
    def released(self) -> Iterator[None]:
        """Give the place back for the time of the block, which only waits."""
        self._released_count += 1
        if self._released_count == 1:
            self._on_released()
        try:
            with self.interruptible():
                yield
        finally:
            self._released_count -= 1
            if self._released_count == 0:
                self._on_reacquired()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Say that what is done in the block can be broken off at any time and done again."""
        pauses_effect = _is_uninterruptible.get()
        self._interruptible_count += 1
        self._uninterruptible_count -= pauses_effect
        self._evict_if_possible()
        try:
            yield
        finally:
            self._interruptible_count -= 1
            self._uninterruptible_count += pauses_effect

    async def enter_uninterruptible(self) -> None:
        """Count an effect; while the worker stops, wait for the end of the job in this worker instead."""
        if self._is_draining:
            with self.interruptible():
                await asyncio.Event().wait()
        self._uninterruptible_count += 1

    def exit_uninterruptible(self) -> None:
        """Count its end."""
        self._uninterruptible_count -= 1
        self._evict_if_possible()

    def drain(self) -> None:
        """Let the job begin nothing more here, and go as soon as nothing is cut in two by that."""
        self._is_draining = True
        self._evict_if_possible()

    def evict(self) -> None:
        """Let the job go now, whatever it does."""
        if not self._is_evicted:
            self._is_evicted = True
            self._on_evicted()

    def _evict_if_possible(self) -> None:
        if self._is_draining and self._interruptible_count and not self._uninterruptible_count:
            self.evict()


current_slot: ContextVar[Slot | None] = ContextVar("the running job's slot", default=None)
_is_uninterruptible: ContextVar[bool] = ContextVar(
    "whether an effect of the running job is under way here", default=False
)


@contextmanager
def slot_released() -> Iterator[None]:
    """Give the running job's place back for the time of the block; without a worker there is none to give."""
    slot = current_slot.get()
    if slot is None:
        yield
        return
    with slot.released():
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Say that the block only waits, too shortly to lend the place for it."""
    slot = current_slot.get()
    if slot is None:
        yield
        return
    with slot.interruptible():
        yield


async def interruptible_sleep(seconds: float) -> None:
    """Let time pass; meanwhile the job may leave its worker."""
    with interruptible():
        await asyncio.sleep(seconds)


@asynccontextmanager
async def uninterruptible() -> AsyncIterator[None]:
    """Enclose what shall not be cut in two when the worker stops: a step's attempt with its record.

    One inside of another is a part of it. Does not return, until it is cancelled, in a worker that stops.
    """
    slot = current_slot.get()
    if slot is None or _is_uninterruptible.get():
        yield
        return
    await slot.enter_uninterruptible()
    within = _is_uninterruptible.set(True)
    try:
        yield
    finally:
        _is_uninterruptible.reset(within)
        slot.exit_uninterruptible()
