"""Several things done at the same time, each to its end, and every failure told."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from launchbay.errors import ActionFailed, OutgoingFailed

T = TypeVar("T")


async def settled(works: Iterable[Awaitable[T]], at_once: int) -> list[T]:
    """Do all of it, so many at the same time, and return what each gave, in order.

    Raises ActionFailed with the sentences of all that failed, after the last one ended.
    """
    turn = asyncio.Semaphore(at_once)

    async def done(work: Awaitable[T]) -> T:
        async with turn:
            return await work

    results = await asyncio.gather(*map(done, works), return_exceptions=True)
    failures: list[ActionFailed | OutgoingFailed] = []
    found: list[T] = []
    for result in results:
        if isinstance(result, ActionFailed | OutgoingFailed):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    if failures:
        sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.sentences)
        raise ActionFailed(*sentences, retryable=all(failure.retryable for failure in failures))
    return found
