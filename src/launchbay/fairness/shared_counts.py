"""What the processes of one server count together: requests and connections (decision 0106).

The counts are sketches. A key uses one cell in each of ROWS rows, and the least of its cells is its count, or more if
other keys share all of them. So nothing is allocated, forgotten or locked, however many keys there are. Two processes
that count the same key in the same moment may lose one of two requests, never a connection.
"""

import mmap
import os
import secrets
from functools import lru_cache
from hashlib import blake2b
from typing import Self

ROWS = 4
WIDTH = 2**15
_CELLS = ROWS * WIDTH
_KEYS_REMEMBERED = 20_000
_SEED_BYTES = 16
_HEADER_BYTES = 64
_SECOND_BITS = 32  # a cell has the second in its upper bits, and the count in the lower ones
_COUNT = 2**_SECOND_BITS - 1


class SharedCounts:
    """Memory of the processes that have the same descriptor, or of this one alone."""

    def __init__(self, processes: int = 1, number: int = 1, descriptor: int = -1) -> None:
        """Map the memory.

        `number` is that of this process, from 1; `descriptor` comes from `make`.
        """
        self._processes = processes
        self._number = number
        memory = memoryview(mmap.mmap(descriptor, _size(processes)))
        if descriptor < 0:
            memory[:_SEED_BYTES] = secrets.token_bytes(_SEED_BYTES)  # nobody can choose keys that share cells
        self._seed = bytes(memory[:_SEED_BYTES])
        begin = _HEADER_BYTES
        self._levels = memory[begin : begin + 8 * _CELLS].cast("d")
        begin += 8 * _CELLS
        self._seconds = [memory[begin + 8 * _CELLS * each :][: 8 * _CELLS].cast("Q") for each in (0, 1)]
        begin += 16 * _CELLS
        # Each process has cells of its own, so that none of them can miss the end of a connection.
        self._connections = [memory[begin + 4 * _CELLS * each :][: 4 * _CELLS].cast("I") for each in range(processes)]
        self._cells_of = lru_cache(_KEYS_REMEMBERED)(self._find)

    @classmethod
    def make(cls, processes: int) -> tuple[Self, int]:
        """Return the memory of so many processes, and the descriptor to pass on."""
        descriptor = os.memfd_create("launchbay-counts")
        os.ftruncate(descriptor, _size(processes))
        os.write(descriptor, secrets.token_bytes(_SEED_BYTES))
        return cls(processes, 0, descriptor), descriptor

    def level(self, key: str) -> float:
        """Return the highest level that was set, 0 if none was."""
        levels = self._levels
        a, b, c, d = self._cells_of(key)
        return min(levels[a], levels[b], levels[c], levels[d])

    def raise_level(self, key: str, level: float) -> None:
        levels = self._levels
        for cell in self._cells_of(key):
            levels[cell] = max(levels[cell], level)

    def in_second(self, key: str, second: int) -> int:
        """Return how often the key was counted in this second or the last."""
        cells = self._seconds[second & 1]
        a, b, c, d = self._cells_of(key)
        least = min(cells[a], cells[b], cells[c], cells[d])
        return least & _COUNT if least >> _SECOND_BITS == second else 0

    def count_in_second(self, key: str, second: int) -> None:
        cells = self._seconds[second & 1]
        begin = second << _SECOND_BITS
        for cell in self._cells_of(key):
            cells[cell] = max(cells[cell], begin) + 1

    def connections(self, key: str) -> int:
        """Return how many connections all processes have."""
        cells = self._cells_of(key)
        return min([sum([own[cell] for own in self._connections]) for cell in cells])

    def add_connections(self, key: str, change: int) -> None:
        """Count connections of this process that begin or, below 0, end."""
        own = self._connections[self._number - 1]
        for cell in self._cells_of(key):
            own[cell] += change

    def forget_connections(self, number: int) -> None:
        """Stop counting the connections of a process that has ended."""
        self._connections[number - 1].cast("B")[:] = bytes(4 * _CELLS)

    def _find(self, key: str) -> tuple[int, ...]:
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4 * ROWS, key=self._seed).digest()
        return tuple(row * WIDTH + int.from_bytes(digest[4 * row : 4 * row + 4], "big") % WIDTH for row in range(ROWS))


def _size(processes: int) -> int:
    return _HEADER_BYTES + (24 + 4 * processes) * _CELLS
