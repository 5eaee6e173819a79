"""The process that evaluates what would hold up a server.

`runtime/evaluation.py` starts it and talks to it.

    python -I -m launchbay.runtime.evaluation_worker MEMORY_BYTES

It reads a request from standard input and writes the answer to standard output, one after the other, and ends with
standard input. Frames have their length before them, in four bytes; an empty one ends the request. The answer's
frames begin with a letter (`Answer`).

Whoever encodes or decodes a large value in one call keeps the interpreter for that time, in whatever thread, and the
event loop waits. So a value is a stream of short calls (`frames_of`, `value_of`). Each is a MessagePack list of tokens:
a scalar is itself; `["l", n]` comes before the items of a list, `["m", n]` before the keys and values of a map, and
`["s", n]` before the parts of a long string.
"""

import ctypes
import os
import pickle
import resource
import signal
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.budget import EvaluationBudget
from launchbay.manifest.paths import Scope, is_list

LENGTH = struct.Struct("!I")
_PR_SET_PDEATHSIG = 1
_LONG_NS = 50_000_000  # of an operation before which the expression is announced
_TOKENS = 1_000  # of a frame
_CHARS = 32 * limits.KIB  # of a frame, and of a part of a string
_NICE = 5  # whoever waits for an answer of the server goes first


class Answer(Enum):
    """What a frame of an answer is, by its first byte."""

    EXPRESSION = b"e"  # the one that comes now, in case that this process doesn't survive it
    WARNINGS = b"w"
    VALUE = b"v"  # a part of it
    ERROR = b"x"
    END = b"."
    LAST = b"!"  # the end, after which the process ends: it has grown


class _Announced(EvaluationBudget):
    """Says which expression comes before each long operation."""

    def __init__(self, memory_bytes: int, out: BinaryIO) -> None:
        super().__init__(limits.EXPRESSION_NS, memory_bytes)
        self._out = out

    def charge(self, ns: float, memory_bytes: float = 0) -> None:
        super().charge(ns, memory_bytes)
        if ns > _LONG_NS or memory_bytes > limits.EXPRESSION_INLINE_BYTES:
            _write(self._out, Answer.EXPRESSION, self.expression.encode("utf-8", "replace"))
            self._out.flush()


def main() -> None:
    """Answer requests until standard input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # also of a server that was killed
    os.nice(_NICE)
    memory_bytes = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = _address_space() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    source, out = sys.stdin.buffer, sys.stdout.buffer
    is_last = False
    while not is_last and (first := _frame(source)) is not None:
        _bound_time()
        try:
            _answer(first, source, out, memory_bytes)
        except ExpressionError as error:
            _write(out, Answer.ERROR, str(error).encode("utf-8", "replace"))
        except MemoryError:
            is_last = True
            message = f"The expressions need more than {memory_bytes // limits.MIB} MiB of memory. Use less data."
            _write(out, Answer.ERROR, message.encode())
        is_last = is_last or _address_space() > allowed - memory_bytes // 2
        _write(out, Answer.LAST if is_last else Answer.END)
        out.flush()


def _answer(first: bytes, source: BinaryIO, out: BinaryIO, memory_bytes: int) -> None:
    rest = list(_rest(source))  # before anything fails, so that the next request begins after it
    template, now_s = pickle.loads(first)  # noqa: S301 - from the server that started this process
    variables, inner = value_of(rest)
    del rest
    value, warnings = template.evaluate(Scope(variables, inner, now_s), _Announced(memory_bytes, out))
    _write(out, Answer.WARNINGS, msgspec.msgpack.encode(warnings))
    for frame in frames_of(value, memory_bytes):
        _write(out, Answer.VALUE, frame)


def _rest(source: BinaryIO) -> Iterator[bytes]:
    while frame := _frame(source):
        yield frame


def _frame(source: BinaryIO) -> bytes | None:
    """Return the next frame; None at the end of the stream."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return source.read(length)


def _write(out: BinaryIO, kind: Answer, content: bytes = b"") -> None:
    out.write(LENGTH.pack(1 + len(content)) + kind.value + content)


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _bound_time() -> None:
    """Let the system end this process after `EXPRESSION_CPU_S` more of a processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end_s = int(used.ru_utime + used.ru_stime) + limits.EXPRESSION_CPU_S
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, hard))


def frames_of(value: Any, bytes_max: int) -> Iterator[bytes]:
    """Yield the frames of a value.

    Raises `ExpressionError` beyond so many bytes, and for what isn't a JSON value.
    """
    batch: list[Any] = []
    chars = size = 0
    for token in _tokens(value):
        batch.append(token)
        chars += len(token) if isinstance(token, str) else 1
        if chars >= _CHARS or len(batch) >= _TOKENS:
            frame = _encode(batch)
            size += len(frame)
            if size > bytes_max:
                raise ExpressionError(
                    f"The variables of the expressions have more than {bytes_max // limits.MIB} MiB. Use less data."
                )
            yield frame
            batch, chars = [], 0
    if batch:
        yield _encode(batch)


def value_of(frames: Iterable[bytes]) -> Any:
    """Return the value of frames. Raises ValueError for what `frames_of` doesn't make."""
    tokens = (token for frame in frames for token in _DECODER.decode(frame))
    try:
        return _read(tokens)
    except (StopIteration, RuntimeError, TypeError, msgspec.DecodeError) as error:
        raise ValueError("The frames end within a value.") from error


_DECODER = msgspec.msgpack.Decoder(list[Any])


def _encode(batch: list[Any]) -> bytes:
    try:
        return msgspec.msgpack.encode(batch)
    except (TypeError, ValueError, OverflowError):  # half of a surrogate pair, or a number of more than 64 bits
        raise ExpressionError("A variable isn't a JSON value.") from None


def _tokens(value: Any) -> Iterator[Any]:
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, str):
                if len(part) <= _CHARS:
                    yield part
                    continue
                starts = range(0, len(part), _CHARS)
                yield ["s", len(starts)]
                yield from (part[start : start + _CHARS] for start in starts)
            elif isinstance(part, Mapping):
                yield ["m", len(part)]
                pending.append(each for entry in part.items() for each in entry)
                break
            elif is_list(part):
                yield ["l", len(part)]
                pending.append(iter(part))
                break
            else:
                yield part
        else:
            pending.pop()


def _read(tokens: Iterator[Any]) -> Any:
    token = next(tokens)
    if not isinstance(token, list):
        return token
    kind, count = token
    if kind == "s":
        return "".join([next(tokens) for _ in range(count)])
    if kind == "l":
        return [_read(tokens) for _ in range(count)]
    return {_read(tokens): _read(tokens) for _ in range(count)}


if __name__ == "__main__":
    main()
