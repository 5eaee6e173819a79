"""Doing one thing on several machines: some at the same time, and every failure told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine

T = TypeVar("T")


async def on_each(
    machines: Sequence[Machine], work: Callable[[Machine], Awaitable[T]], *, batch: int | None = None
) -> dict[str, T]:
    """Do the work on every machine and return what it gave by address.

    With a `batch` only so many machines are worked on at the same time, and the next ones begin when these have ended:
    after a failure no further batch begins. Raises ActionFailed with the failures of all machines of the batch.
    """
    size = min(batch or limits.MACHINES_AT_ONCE, limits.MACHINES_AT_ONCE)
    found: dict[str, T] = {}
    for begin in range(0, len(machines), size):
        at_once = machines[begin : begin + size]
        results = await asyncio.gather(*(work(machine) for machine in at_once), return_exceptions=True)
        failures: list[ActionFailed] = []
        for machine, result in zip(at_once, results, strict=True):
            if isinstance(result, ActionFailed):
                failures.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                found[machine.host] = result
        if failures:
            sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.sentences)
            raise ActionFailed(*sentences, retryable=any(failure.retryable for failure in failures))
    return found
