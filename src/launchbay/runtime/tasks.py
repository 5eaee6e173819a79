"""Ending what runs in parallel."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end; their own errors come second to the one that ended the whole."""
    ending = set(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
    for task in ending:
        if not task.cancelled():
            task.exception()
