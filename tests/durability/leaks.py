"""Leaks to be put into a process on purpose, a little with every launch (`seeded.py`); a soak must notice them."""

import asyncio
import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from launchbay.usecases import launch
from launchbay.usecases.context import Work
from launchbay.usecases.launch_tree import write_launch

LOST_MB = 0.5  # with every launch
_kept: list[Any] = []


def leak_descriptors() -> None:
    """Leave a file open with every launch."""
    _with_every_launch(_lose_descriptor)


def leak_memory() -> None:
    """Keep some memory with every launch."""
    _with_every_launch(_lose_memory)


def leak_tasks() -> None:
    """Start a task with every launch that nobody ends."""
    _with_every_launch(_lose_task)


def leak_everything() -> None:
    """Leak descriptors, memory and tasks."""
    _with_every_launch(_lose_descriptor, _lose_memory, _lose_task)


def _lose_descriptor() -> None:
    _kept.append(os.open("/dev/null", os.O_RDONLY))


def _lose_memory() -> None:
    _kept.append(bytearray(b"x" * int(LOST_MB * 1024 * 1024)))


def _lose_task() -> None:
    _kept.append(asyncio.create_task(asyncio.Event().wait()))


def _with_every_launch(*leaks: Callable[[], None]) -> None:
    async def write_and_leak(work: Work, *given: Any) -> Any:
        for leak in leaks:
            leak()
        return await write_launch(work, *given)

    patch.object(launch, "write_launch", write_and_leak).start()


LEAKS: dict[str, Callable[[], None]] = {
    "descriptors": leak_descriptors,
    "memory": leak_memory,
    "tasks": leak_tasks,
    "everything": leak_everything,
}
