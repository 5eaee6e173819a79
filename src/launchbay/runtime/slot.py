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
        on_lent: Callable[[], None] = _nothing,
        on_taken_back: Callable[[], None] = _nothing,
        on_left: Callable[[], object] = _nothing,
    ) -> None:
        self._on_lent = on_lent
        self._on_taken_back = on_taken_back
        self._on_left = on_left
        self._lent = 0
        self._resting = 0
        self._effects = 0
        self._leaving = False
        self._has_left = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Give the place back for the time of the block, which only waits."""
        self._lent += 1
        if self._lent == 1:
            self._on_lent()
        try:
            with self.resting():
                yield
        finally:
            self._lent -= 1
            if self._lent == 0:
                self._on_taken_back()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Say that what is done in the block can be broken off at any time and done again."""
        pauses_effect = _in_effect.get()
        self._resting += 1
        self._effects -= pauses_effect
        self._leave_if_possible()
        try:
            yield
        finally:
            self._resting -= 1
            self._effects += pauses_effect

    async def begin_effect(self) -> None:
        """Count an effect; while the worker stops, wait for the end of the job in this worker instead."""
        if self._leaving:
            with self.resting():
                await asyncio.Event().wait()
        self._effects += 1

    def end_effect(self) -> None:
        """Count its end."""
        self._effects -= 1
        self._leave_if_possible()

    def leave(self) -> None:
        """Let the job begin nothing more here, and go as soon as nothing is cut in two by that."""
        self._leaving = True
        self._leave_if_possible()

    def abandon(self) -> None:
        """Let the job go now, whatever it does."""
        if not self._has_left:
            self._has_left = True
            self._on_left()

    def _leave_if_possible(self) -> None:
        if self._leaving and self._resting and not self._effects:
            self.abandon()


current_slot: ContextVar[Slot | None] = ContextVar("the running job's slot", default=None)
_in_effect: ContextVar[bool] = ContextVar("whether an effect of the running job is under way here", default=False)


@contextmanager
def lent_slot() -> Iterator[None]:
    """Give the running job's place back for the time of the block; without a worker there is none to give."""
    slot = current_slot.get()
    if slot is None:
        yield
        return
    with slot.lent():
        yield


@contextmanager
def resting() -> Iterator[None]:
    """Say that the block only waits, too shortly to lend the place for it."""
    slot = current_slot.get()
    if slot is None:
        yield
        return
    with slot.resting():
        yield


async def rest(seconds: float) -> None:
    """Let time pass; meanwhile the job may leave its worker."""
    with resting():
        await asyncio.sleep(seconds)


@asynccontextmanager
async def effect() -> AsyncIterator[None]:
    """Enclose what shall not be cut in two when the worker stops: a step's attempt with its record.

    One inside of another is a part of it. Does not return, until it is cancelled, in a worker that stops.
    """
    slot = current_slot.get()
    if slot is None or _in_effect.get():
        yield
        return
    await slot.begin_effect()
    within = _in_effect.set(True)
    try:
        yield
    finally:
        _in_effect.reset(within)
        slot.end_effect()
