"""An event loop whose time passes only when everybody waits: then it jumps to the next thing that is due.

So two hours of waiting take no time, and a test sees the same order of events every time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
_BUSY_S = 0.001  # between two looks while a thread works

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Deadlock(RuntimeError):
    """Everybody waits for somebody else, and nothing is due."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop. Work in threads takes real time, in which virtual time stands still."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the virtual time."""
        return self.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run something in a thread, and let time stand still until it is done."""
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _Selector(selectors.DefaultSelector):
    """Waits for files only as long as a thread works; otherwise it makes the time pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, or have let the time pass that was to be waited."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.threads:
            return super().select(_BUSY_S)
        if timeout is None:
            raise Deadlock("Everybody waits for somebody else, and nothing is due.")
        self._loop.now_s += timeout
        return []


class VirtualClock:
    """The clock of the loop that runs."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        """Return the virtual wall-clock time, in UTC."""
        return START + timedelta(seconds=self._loop.now_s)

    def monotonic_s(self) -> float:
        """Return virtual seconds."""
        return self._loop.now_s


def run(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, and return what it returns."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.threads += 1  # the one that ends the others
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
