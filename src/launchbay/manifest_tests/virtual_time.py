"""An event loop with virtual time: when all tasks wait, the time jumps to the next timer.

Two hours of waiting take no time, and the order of events is always the same.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

from launchbay.errors import LaunchbayError

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
_BUSY_S = 0.001  # between two polls while a thread works

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Deadlock(LaunchbayError):
    """All tasks wait for each other, and no timer is set."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop. While a thread works, virtual time doesn't pass."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; virtual time stops until it returns."""
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _Selector(selectors.DefaultSelector):
    """Waits for files only while a thread works; otherwise advances the time."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready files, or advance the virtual time by `timeout`."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.threads:
            return super().select(_BUSY_S)
        if timeout is None:
            raise Deadlock("Deadlock: all tasks wait for each other, and no timer is set.")
        self._loop.now_s += timeout
        return []


class VirtualClock:
    """The clock of a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.now_s)

    def monotonic_s(self) -> float:
        return self._loop.now_s


def run(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.threads += 1  # the thread that shuts down the others
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
