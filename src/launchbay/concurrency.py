"""Run several awaitables at the same time, or thousands of them in turns."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from launchbay import limits
from launchbay.errors import ActionFailed, EgressFailed, NotThereYet

T = TypeVar("T")
About = TypeVar("About")


async def gather_bounded(works: Iterable[Awaitable[T]], at_once: int) -> list[T]:
    """Await all, at most `at_once` at a time, and return their results in order.

    Raises ActionFailed after the last one ended, with the messages of all that failed. It is retryable only if every
    failure is, because another attempt cannot help the others.
    """
    slots = asyncio.Semaphore(at_once)

    async def bounded(work: Awaitable[T]) -> T:
        async with slots:
            return await work

    results: list[T] = []
    failures: list[ActionFailed | EgressFailed] = []
    for result in await asyncio.gather(*map(bounded, works), return_exceptions=True):
        if isinstance(result, ActionFailed | EgressFailed):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            results.append(result)
    if failures:
        messages = dict.fromkeys(message for failure in failures for message in failure.messages)
        failed = NotThereYet if all(isinstance(failure, NotThereYet) for failure in failures) else ActionFailed
        raise failed(*messages, retryable=all(failure.retryable for failure in failures))
    return results


async def computed(size: int, work: Callable[[], T]) -> T:
    """Return the result of work; a thread does it if its data is large."""
    return work() if size <= limits.INLINE_BYTES else await asyncio.to_thread(work)


async def shielded(future: "asyncio.Future[T]") -> T:
    """Return the result of a future that continues if the caller is canceled.

    `asyncio.shield` does so too, but since Python 3.14 it logs an error that comes when the caller has gone.
    """
    await asyncio.wait([future])
    return future.result()


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Do work to its end, also if the caller is canceled meanwhile."""
    task = asyncio.create_task(work)
    try:
        return await shielded(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class Shared(Generic[T]):
    """Work whose result goes to all who ask for it while it runs."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._waiting = 0

    async def __call__(self) -> T:
        """Return the result. The work is canceled when nobody waits for it anymore."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        task = self._task
        self._waiting += 1
        try:
            return await shielded(task)
        finally:
            self._waiting -= 1
            if not self._waiting and not task.done():
                task.cancel()
                self._task = None


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end.

    Drops their errors: the caller raises the one that ended the run.
    """
    ending = set(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
    for task in ending:
        if not task.cancelled():
            task.exception()


class Tasks(Generic[T, About]):
    """Running tasks, with what each is about.

    `asyncio.wait` looks at all of them whenever one ends. This looks only at those that have ended.
    """

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[T], About] = {}
        self._ended: list[asyncio.Task[T]] = []
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, T], about: About) -> None:
        task = asyncio.create_task(work)
        self._running[task] = about
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # whoever takes it may stop at an earlier one
        self._ended.append(task)
        self._news.set()

    def wake(self) -> None:
        """Let `ended` return, even if nothing has ended."""
        self._news.set()

    async def ended(self) -> list[tuple[asyncio.Task[T], About]]:
        """Wait for news, and return the tasks that have ended since the last call."""
        await self._news.wait()
        self._news.clear()
        ended, self._ended = self._ended, []
        return [(task, self._running.pop(task)) for task in ended]

    async def cancel(self) -> None:
        """Cancel those that run, and wait for their end."""
        await cancel_all(self._running)


class Pace:
    """Lets only `at_once` tasks continue in each pass of the event loop.

    They continue in their order. Thousands that become ready at the same moment would keep everything else from
    running until all have had theirs.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._begun = 0
        self._is_scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_free(self) -> bool:
        """Return whether `turn` won't wait."""
        return not self._waiting and self._begun < self._at_once

    async def turn(self) -> None:
        """Wait for a turn."""
        if self.is_free:
            self._begin()
            return
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append(admitted)
        await admitted

    def _begin(self) -> None:
        self._begun += 1
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        self._begun = 0
        while self._waiting and self._begun < self._at_once:
            admitted = self._waiting.popleft()
            if not admitted.done():  # cancelled
                admitted.set_result(None)
                self._begin()
