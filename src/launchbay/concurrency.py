"""Run several awaitables at the same time, within a limit."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from launchbay.errors import ActionFailed, EgressFailed

T = TypeVar("T")


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
        raise ActionFailed(*messages, retryable=all(failure.retryable for failure in failures))
    return results


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
