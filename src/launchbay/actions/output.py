"""Output of programs, machines and servers: made safe to store, logged live, and reported in errors.

PostgreSQL rejects NUL and lone surrogates, and JSON has a limit of depth.
"""

import asyncio
import codecs
import json
import math
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from launchbay import limits
from launchbay.actions.contract import StepContext
from launchbay.clock import Clock
from launchbay.model.machine import CommandResult, Sink
from launchbay.model.scalars import INTEGER_MIN
from launchbay.processes.run import ProcessResult

# Codecs of Python that take quadratic time.
_CHARSETS_OF_NAMES = frozenset(("idna", "punycode"))
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decode_output(data: bytes, charset: str = "utf-8") -> str:
    """Decode a text; bytes that are invalid in the charset or can't be stored become U+FFFD."""
    try:
        known = codecs.lookup(charset).name not in _CHARSETS_OF_NAMES
        text = data.decode(charset if known else "utf-8", errors="replace")
    except (LookupError, ValueError):  # an unknown charset, or a codec that isn't for text
        text = data.decode("utf-8", errors="replace")
    return _storable_scalar(text)


def parse_json_output(text: str) -> Any:
    """Parse JSON. Raises `ValueError` if the text isn't JSON, or nested deeper than the limit."""
    try:
        value = _DECODER.decode(text)
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
    raise ValueError(f"{name} isn't a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > _INTEGER_CHARS or not INTEGER_MIN <= (value := int(digits)) < 2**64:
        raise ValueError(f"the number {digits[:40]} exceeds 64 bits")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:40]} exceeds the range of a double")
    return value


_INTEGER_CHARS = 20  # sign and digits of the longest one
_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=_refused_constant)


def parse_event(line: str) -> dict[str, Any] | None:
    """Return a line of a program's JSON events, or None if it is something else."""
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return event if isinstance(event, dict) else None


REPORTED_CHARS = 500


def output_tail(
    result: CommandResult | ProcessResult, redact: Callable[[str], str], chars: int = REPORTED_CHARS
) -> str:
    """Return the end of a program's errors, or else of its output, for a message."""
    # Redacted before the cut, which could be in the middle of a secret.
    return redact(result.stderr.strip() or result.stdout.strip())[-chars:]


def describe_exit(
    what: str, result: CommandResult | ProcessResult, redact: Callable[[str], str], chars: int = REPORTED_CHARS
) -> str:
    tail = output_tail(result, redact, chars)
    return f"{what} ended with exit code {result.exit_code}" + (f": {tail}" if tail else ".")


_STDERR = "stderr"


class LiveLog:
    """Writes live output to a step's log, from all machines of the step. Reports the number of omitted lines.

    It passes a burst of lines, and then so many lines per second. After the limit of lines or bytes, it writes nothing
    more.
    """

    def __init__(self, log: Callable[[Literal["info"], str, str], None], clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._room = float(limits.STEP_LOG_LINES_AT_ONCE)
        self._looked_at_s = clock.monotonic_s()
        self._lines_left = limits.STEP_LOG_LINES
        self._bytes_left = limits.STEP_LOG_BYTES
        self._dropped_lines = 0
        self._is_full = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def for_host(self, host: str) -> Sink:
        def write(stream: str, line: str) -> None:
            self.write(f"[{host}{' stderr' if stream == _STDERR else ''}] {line}", stream)

        return write

    def close(self) -> None:
        """Report the number of lines that were omitted since the last written one."""
        if self._dropped_lines:
            count = "1 line" if self._dropped_lines == 1 else f"{self._dropped_lines} lines"
            self._log("info", f"({count} of output omitted from this log)", "system")
            self._dropped_lines = 0

    def write(self, line: str, stream: str = "stdout") -> None:
        """Write a line, unless it exceeds a limit."""
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
        self._log("info", line, stream)


_INTERVAL_S = 0.5


class ProgressReporter:
    """Reports the latest percentage to the step, at most twice per second, while its block runs."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._newest = self._reported = 0
        self._reporter: asyncio.Task[None] | None = None

    def progress(self, percent: int) -> None:
        """Store a percentage; a lower one than before changes nothing."""
        self._newest = max(self._newest, percent)

    async def __aenter__(self) -> Self:
        self._reporter = asyncio.create_task(self._report())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reporter is not None, "__aenter__ set it"
        self._reporter.cancel()
        with suppress(asyncio.CancelledError):
            await self._reporter

    async def _report(self) -> None:
        while True:
            if self._newest > self._reported:
                self._reported = self._newest
                await self._context.progress(self._reported)
            await asyncio.sleep(_INTERVAL_S)
