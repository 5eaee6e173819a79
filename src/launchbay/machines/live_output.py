"""Output of a command as it comes, cut into lines for a step's log."""

import codecs

from launchbay import limits
from launchbay.machines.shell import Taker
from launchbay.model.machine import Sink
from launchbay.model.redaction import Stream


class Lines:
    """Takes bytes as they come and hands over whole lines; what is longer than a log takes goes in pieces.

    Secrets are covered before, because a piece may end in the middle of one.
    """

    def __init__(self, stream: str, sink: Sink | None, covering: Stream) -> None:
        self._stream = stream
        self._sink = sink
        self._covering = covering
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        if self._sink is not None:
            self._take(self._covering.feed(self._decoder.decode(data)))

    def end(self) -> None:
        """Hand over the last line, which no line break ended."""
        if self._sink is not None:
            self._take(self._covering.feed(self._decoder.decode(b"", final=True)) + self._covering.finish())
            if self._rest:
                self._hand_over(self._rest)
            self._rest = ""

    def _take(self, text: str) -> None:
        *whole, rest = (self._rest + text).split("\n")
        for line in whole:
            self._hand_over(line)
        while len(rest) > limits.LOG_LINE_CHARS:
            self._hand_over(rest[: limits.LOG_LINE_CHARS])
            rest = rest[limits.LOG_LINE_CHARS :]
        self._rest = rest

    def _hand_over(self, line: str) -> None:
        assert self._sink is not None
        # Of a line that a progress bar writes again and again, the last state counts.
        self._sink(self._stream, line.rstrip("\r").rpartition("\r")[2])


class Kept:
    """Takes bytes as they come and keeps them, up to a bound; what comes after that is dropped."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._data = bytearray()

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        self._data += data[: max(0, self._most - len(self._data))]

    @property
    def data(self) -> bytes:
        """Return what was kept."""
        return bytes(self._data)


class Counted:
    """Hands bytes on and counts them."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self.bytes = 0

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        self.bytes += len(data)
        self._taker(data)
