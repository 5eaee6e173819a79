"""A connection that does not wait for ever (decision 0082).

PostgreSQL ends a statement that takes too long, and TCP notices a peer that is gone. Neither helps against a database
whose machine hangs, is suspended, or sits behind something that swallows what is sent: all is acknowledged, and nothing
answered.
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.abc import PQGen

T = TypeVar("T")


class BoundedConnection(AsyncConnection[tuple[Any, ...]]):
    """Closes itself when an answer does not come within `patience_s`; who waited sees a lost connection."""

    patience_s = 35.0  # longer than PostgreSQL lets a statement run

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Do one exchange with the server. One with a time-out of its own, such as listening, keeps to that."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        timer = asyncio.get_running_loop().call_later(self.patience_s, self._hang_up)
        try:
            return await super().wait(gen, interval)
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        """Make the wait end with the error of a lost connection, which everybody knows how to handle."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)
