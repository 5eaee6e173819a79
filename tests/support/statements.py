"""Counts what a page or a request asks of the database, at the driver."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from launchbay.store.connection import BoundedConnection, Statement


@dataclass
class Reads:
    """What was sent: each round trip with its statements, BEGIN and COMMIT among them."""

    trips: list[list[Statement]] = field(default_factory=list)

    @property
    def statements(self) -> list[Statement]:
        return [each for trip in self.trips for each in trip]

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of statements, and of round trips."""
        return len(self.statements), len(self.trips)


_collected: ContextVar[Reads | None] = ContextVar("statements", default=None)


def note_statements(patch: pytest.MonkeyPatch) -> None:
    """Let connections note what they send, for the tasks that count."""
    exchange = BoundedConnection._exchange

    async def noting(self: BoundedConnection, given: Sequence[Statement]) -> Any:
        reads = _collected.get()
        # Quotas are counted at most once a second.
        if reads is not None and (sent := [each for each in given if b"quota" not in each.text]):
            reads.trips.append(sent)
        return await exchange(self, given)

    patch.setattr(BoundedConnection, "_exchange", noting)


@contextmanager
def counted() -> Iterator[Reads]:
    """Collect the statements of this task and of those that it starts; other tasks of the process are not in it."""
    reads = Reads()
    token = _collected.set(reads)
    try:
        yield reads
    finally:
        _collected.reset(token)


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> ContextVar[list[list[bytes]]]:
    """Collects the statements of each round trip of the task that sets it; the engine's own tasks are not in it."""
    collected: ContextVar[list[list[bytes]]] = ContextVar("exchanges")
    exchange = BoundedConnection._exchange

    async def collecting(self: BoundedConnection, statements: Sequence[Statement]) -> Any:
        texts = [statement.text for statement in statements]
        if not any(b"quota" in text for text in texts):  # they are counted at most once a second
            collected.get([]).append(texts)
        return await exchange(self, statements)

    monkeypatch.setattr(BoundedConnection, "_exchange", collecting)
    return collected
