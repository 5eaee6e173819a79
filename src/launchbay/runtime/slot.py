"""The slot of a running job in its worker: when other jobs may use it, and when the job may leave the worker.

A worker runs a limited number of jobs at a time. A job that waits, perhaps days for a person, must not occupy a slot:
it waits inside `slot_released()`.

A worker that stops hands its jobs over to others. A job leaves only where no effect is interrupted: while it waits
(`interruptible()`), or before its next effect (`uninterruptible()`). A running effect may finish first.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass


def _do_nothing() -> None:
    """Ignore an event of the slot."""


@dataclass(slots=True, eq=False)
class Slot:
    """The slot of one job, whose steps may run in parallel.

    It is released while at least one of them waits. After `drain`, `on_evicted` is called once, as soon as the job runs
    no effect and waits, for anything or before its next effect.
    """

    on_released: Callable[[], None] = _do_nothing
    on_reacquired: Callable[[], None] = _do_nothing
    on_evicted: Callable[[], object] = _do_nothing
    _released_count: int = 0
    _interruptible_count: int = 0
    _uninterruptible_count: int = 0
    _is_draining: bool = False
    _is_evicted: bool = False

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the slot during the block, which only waits."""
        self._released_count += 1
        if self._released_count == 1:
            self.on_released()
        try:
            with self.interruptible():
                yield
        finally:
            self._released_count -= 1
            if self._released_count == 0:
                self.on_reacquired()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Mark the block as safe to interrupt at any time and to repeat."""
        suspended_effects = _is_uninterruptible.get()
        self._interruptible_count += 1
        self._uninterruptible_count -= suspended_effects
        self._evict_if_possible()
        try:
            yield
        finally:
            self._interruptible_count -= 1
            self._uninterruptible_count += suspended_effects

    async def enter_uninterruptible(self) -> None:
        """Count an effect. If the worker is stopping, wait to be evicted instead."""
        if self._is_draining:
            with self.interruptible():
                await asyncio.Event().wait()
        self._uninterruptible_count += 1

    def exit_uninterruptible(self) -> None:
        """Count the end of an effect."""
        self._uninterruptible_count -= 1
        self._evict_if_possible()

    def drain(self) -> None:
        """Start no further effect, and evict the job as soon as none is running."""
        self._is_draining = True
        self._evict_if_possible()

    def evict(self) -> None:
        """Evict the job now, even during an effect."""
        if not self._is_evicted:
            self._is_evicted = True
            self.on_evicted()

    def _evict_if_possible(self) -> None:
        if self._is_draining and self._interruptible_count and not self._uninterruptible_count:
            self.evict()


current_slot: ContextVar[Slot | None] = ContextVar("the running job's slot", default=None)
_is_uninterruptible: ContextVar[bool] = ContextVar(
    "whether this code is inside an effect of the running job", default=False
)


def slot_released() -> AbstractContextManager[None]:
    """Release the running job's slot during the block, if it has one."""
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.released()


def interruptible() -> AbstractContextManager[None]:
    """Mark the block as waiting, too briefly to release the slot."""
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.interruptible()


async def interruptible_sleep(seconds: float) -> None:
    """Sleep; the job may leave its worker in the meantime."""
    with interruptible():
        await asyncio.sleep(seconds)


@asynccontextmanager
async def uninterruptible() -> AsyncIterator[None]:
    """Protect the block when the worker stops: a step's attempt with its record. Nested blocks join the outer one.

    In a worker that is stopping, entering waits until the job is cancelled.
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
