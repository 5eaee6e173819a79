"""Data that came from outside, made fit to be kept.

The database takes no NUL and no lone surrogate, and depth has a bound (quality.md §3, "Bounds that evidence forces").
"""

import asyncio
import codecs
import json
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from launchbay import limits
from launchbay.actions.contract import StepContext
from launchbay.clock import Clock
from launchbay.model.machine import Sink

# Python knows these as charsets, and takes quadratic time for them.
_CHARSETS_OF_NAMES = frozenset(("idna", "punycode"))
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decode_output(data: bytes, charset: str = "utf-8") -> str:
    """Return the text; what is no text in that charset, or cannot be kept, becomes U+FFFD."""
    try:
        known = codecs.lookup(charset).name not in _CHARSETS_OF_NAMES
        text = data.decode(charset if known else "utf-8", errors="replace")
    except (LookupError, ValueError):  # an unknown charset, or a codec that is none of text
        text = data.decode("utf-8", errors="replace")
    return _storable_scalar(text)


def parse_json_output(text: str) -> Any:
    """Return the value of a JSON text. Raises `ValueError` when it is none, or deeper than may be kept."""
    try:
        value = json.loads(text, parse_constant=_refused_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return _storable(value, limits.JSON_DEPTH)


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _storable_scalar(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise ValueError(f"it is nested deeper than {limits.JSON_DEPTH} levels")
    if isinstance(value, list):
        return [_storable(element, depth - 1) for element in value]
    return {_storable_scalar(key): _storable(element, depth - 1) for key, element in value.items()}


def _storable_scalar(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_STDERR = "stderr"


class LiveLog:
    """One for a step, whatever number of machines it works on. What is left out is counted, and told by `end`.

    A burst of lines passes; who goes on and on writes so many lines a second. After so many lines or bytes in all,
    nothing more is written.
    """

    def __init__(self, log: Callable[[Literal["info"], str], None], clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._room = float(limits.STEP_LOG_LINES_AT_ONCE)
        self._looked_at_s = clock.monotonic_s()
        self._lines_left = limits.STEP_LOG_LINES
        self._bytes_left = limits.STEP_LOG_BYTES
        self._dropped_lines = 0
        self._is_full = False

    def for_host(self, host: str) -> Sink:
        """Return what takes the output of a command on this host."""

        def take(stream: str, line: str) -> None:
            self.write(f"[{host}{' stderr' if stream == _STDERR else ''}] {line}")

        return take

    def close(self) -> None:
        """Tell how many lines are left out since the last one that was written."""
        if self._dropped_lines:
            count = "one line" if self._dropped_lines == 1 else f"{self._dropped_lines} lines"
            self._log("info", f"({count} of output left out of this log)")
            self._dropped_lines = 0

    def write(self, line: str) -> None:
        """Write a line, if there is room for it."""
        now_s = self._clock.monotonic_s()
        passed_s, self._looked_at_s = now_s - self._looked_at_s, now_s
        self._room = min(limits.STEP_LOG_LINES_AT_ONCE, self._room + passed_s * limits.STEP_LOG_LINES_PER_S)
        self._is_full = self._is_full or self._lines_left < 1 or self._bytes_left < len(line)
        if self._is_full or self._room < 1:
            self._dropped_lines += 1
            return
        self.close()
        self._room -= 1
        self._lines_left -= 1
        self._bytes_left -= len(line)
        self._log("info", line)


_INTERVAL_S = 0.5


class ProgressReporter:
    """Hands the newest figure to the step, twice a second at most, while its block runs."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._newest = self._reported = 0
        self._reporter: asyncio.Task[None] | None = None

    def progress(self, percent: int) -> None:
        """Note a figure; a lower one than before counts for nothing."""
        self._newest = max(self._newest, percent)

    async def __aenter__(self) -> Self:
        self._reporter = asyncio.create_task(self._report())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reporter is not None, "it was entered"
        self._reporter.cancel()
        with suppress(asyncio.CancelledError):
            await self._reporter

    async def _report(self) -> None:
        while True:
            if self._newest > self._reported:
                self._reported = self._newest
                await self._context.progress(self._reported)
            await asyncio.sleep(_INTERVAL_S)
