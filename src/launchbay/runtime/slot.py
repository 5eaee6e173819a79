"""The place among the running jobs of a worker that a job gives back while it only waits.

A worker runs so many jobs at the same time. One that waits for a person, perhaps for days, needs no share of that, and
would keep others from running. So waiting is done inside of `lent_slot()`, which tells whoever counts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Slot:
    """The place of one job. What it does beside each other may wait in several places: it counts as lent from the
    first of them to the last.
    """

    def __init__(self, on_lent: Callable[[], None], on_taken_back: Callable[[], None]) -> None:
        self._on_lent = on_lent
        self._on_taken_back = on_taken_back
        self._waiting = 0

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Give the place back for the time of the block."""
        self._waiting += 1
        if self._waiting == 1:
            self._on_lent()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._on_taken_back()


current_slot: ContextVar[Slot | None] = ContextVar("the running job's slot", default=None)


@contextmanager
def lent_slot() -> Iterator[None]:
    """Give the running job's place back for the time of the block; without a worker there is none to give."""
    slot = current_slot.get()
    if slot is None:
        yield
        return
    with slot.lent():
        yield
