"""The slot of a running job in its worker: when other jobs may use it, and when the job may leave the worker.

A worker runs a limited number of jobs at a time. A job that waits, perhaps days for a person, must not occupy a slot:
it waits inside `slot_released()`.

A worker that stops hands its jobs over to others. A job leaves only where no effect is interrupted: while it waits
(`interruptible()`), or before its next effect (`uninterruptible()`). A running effect may finish first.

A job whose branches all rest (`resting()`) leaves too. It is parked: it occupies no worker until a time or an event
ends one of the rests. A branch that does anything else is inside of an effect or of `staying()`, which keep the job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field

from launchbay.concurrency import Pace


def _do_nothing() -> None:
    """Ignore an event of the slot."""


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """What ends the wait of one branch: a time, or earlier an event."""

    ends_at_s: float  # by the event loop's clock
    step: tuple[str, str] | None = None  # the job and path of a step whose percentage shows the time
    approval_id: str | None = None  # its decision


@dataclass(slots=True, eq=False)
class Slot:
    """The slot of one job, whose steps may run in parallel.

    It is released while at least one of them waits. After `drain`, `on_evicted` is called once, as soon as the job runs
    no effect and waits, for anything or before its next effect.

    `changes` grows whenever a branch begins or ends anything. `flushes` write what the job's journals hold back.
    """

    on_released: Callable[[], None] = _do_nothing
    on_reacquired: Callable[[], None] = _do_nothing
    on_evicted: Callable[[], object] = _do_nothing
    _released_count: int = 0
    _interruptible_count: int = 0
    _uninterruptible_count: int = 0
    _is_draining: bool = False
    _is_evicted: bool = False
    rests: set[Rest] = field(default_factory=set)
    flushes: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    changes: int = 0
    _staying_count: int = 0
    _opened: asyncio.Event | None = None  # set when effects may start again after `close`

    @property
    def is_resting(self) -> bool:
        """Whether the job does nothing but wait for the ends of its rests."""
        return (
            bool(self.rests)
            and self._interruptible_count == len(self.rests)
            and not (self._uninterruptible_count or self._staying_count or self._is_draining or self._is_evicted)
        )

    @property
    def rest_ends_at_s(self) -> float:
        """When the first of the rests ends, by the event loop's clock."""
        return min(rest.ends_at_s for rest in self.rests)

    @contextmanager
    def resting(self, rest: Rest) -> Iterator[None]:
        """Release the slot during the block, in which the job may leave."""
        self.rests.add(rest)
        try:
            with self.released():
                yield
        finally:
            self.rests.discard(rest)

    @contextmanager
    def staying(self, by: int = 1) -> Iterator[None]:
        """Keep the job in its worker during the block.

        -1 is for a block inside of such a block: the job may leave again.
        """
        self._staying_count += by
        self.changes += 1
        try:
            yield
        finally:
            self._staying_count -= by
            self.changes += 1

    @contextmanager
    def flushed(self, flush: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """Have a journal flushed before the job leaves."""
        self.flushes.append(flush)
        try:
            yield
        finally:
            self.flushes.remove(flush)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Start no effect during the block."""
        self._opened = opened = asyncio.Event()
        try:
            yield
        finally:
            self._opened = None
            opened.set()

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
        self.changes += 1
        self._interruptible_count += 1
        self._uninterruptible_count -= suspended_effects
        self._evict_if_possible()
        try:
            yield
        finally:
            self.changes += 1
            self._interruptible_count -= 1
            self._uninterruptible_count += suspended_effects

    async def enter_uninterruptible(self) -> None:
        """Count an effect. If the job is leaving, wait to be evicted instead."""
        self.changes += 1
        while self._opened is not None:
            await self._opened.wait()
        if self._is_draining or self._is_evicted:
            with self.interruptible():
                await asyncio.Event().wait()
        self._uninterruptible_count += 1

    def exit_uninterruptible(self) -> None:
        """Count the end of an effect."""
        self.changes += 1
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


def resting(rest: Rest) -> AbstractContextManager[None]:
    """Release the running job's slot during the block.

    If all branches of the job rest for some seconds, it is parked.
    """
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.resting(rest)


def staying() -> AbstractContextManager[None]:
    """Keep the running job in its worker during the block.

    Nobody outside could tell when its work continues.
    """
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.staying()


def leaving() -> AbstractContextManager[None]:
    """Let the running job be parked during the block, inside of `staying()`."""
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.staying(-1)


def flushed(flush: Callable[[], Awaitable[None]]) -> AbstractContextManager[None]:
    """Call `flush` before the running job is parked, if that happens during the block."""
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.flushed(flush)


async def paced(pace: Pace) -> None:
    """Wait for a turn among the steps of this process."""
    if pace.is_free:
        await pace.turn()
    else:
        with staying():
            await pace.turn()


def interruptible() -> AbstractContextManager[None]:
    """Mark the block as waiting, too briefly to release the slot."""
    slot = current_slot.get()
    return nullcontext() if slot is None else slot.interruptible()


async def interruptible_sleep(seconds: float) -> None:
    """Sleep; the job may leave its worker in the meantime."""
    with interruptible():
        await asyncio.sleep(seconds)


def uninterruptible() -> AbstractAsyncContextManager[None]:
    """Protect the block when the worker stops: a step's attempt with its record.

    Nested blocks join the outer one.

    In a worker that is stopping, entering waits until the job is cancelled.
    """
    slot = current_slot.get()
    return nullcontext() if slot is None or _is_uninterruptible.get() else _Effect(slot)


class _Effect:
    """An effect of the running job.

    Each recorded step is one, and a generator would take several times as long.
    """

    __slots__ = ("_slot", "_within")

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def __aenter__(self) -> None:
        await self._slot.enter_uninterruptible()
        self._within = _is_uninterruptible.set(True)

    async def __aexit__(self, *_: object) -> None:
        _is_uninterruptible.reset(self._within)
        self._slot.exit_uninterruptible()
