"""The one way in which tests wait for what they can only look at: look again, ever more rarely, and say what was seen.

What tells of itself is awaited where it happens: an `asyncio.Event`, a queue, the end of a process, a line of a stream.
"""

import asyncio
import inspect
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from reprlib import Repr
from typing import Any, TypeVar, overload

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]
PATIENCE_S = 30.0
_SHORTLY = Repr()
_SHORTLY.maxstring, _SHORTLY.maxother, _SHORTLY.maxdict, _SHORTLY.maxlist = 2000, 300, 20, 20
_FIRST_PAUSE_S, _GROWTH, _LONGEST_PAUSE_S = 0.005, 1.3, 0.1


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    so: Callable[[T], object] = bool,
    *,
    within_s: float = PATIENCE_S,
    despite: Errors = (),
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    so: Callable[[T], object] = bool,
    *,
    within_s: float = PATIENCE_S,
    despite: Errors = (),
) -> T: ...
async def eventually(
    look: Callable[[], Any],
    so: Callable[[Any], object] = bool,
    *,
    within_s: float = PATIENCE_S,
    despite: Errors = (),
) -> Any:
    """Wait until what `look` returns, or what its coroutine does, is as `so` wants it, and return that.

    Until then it may raise the errors of `despite`; those count as something seen.
    """
    seen: Any = "nothing: the first look has not ended"
    try:
        async with asyncio.timeout(within_s) as limit:
            for pause_s in _pauses_s():
                try:
                    found = look()
                    seen = await found if inspect.isawaitable(found) else found
                    if so(seen):
                        return seen
                except despite as error:
                    seen = error
                await asyncio.sleep(pause_s)
    except TimeoutError:
        if not limit.expired():  # what looks has given up
            raise
        raise AssertionError(_still(look, so, within_s, seen)) from None


def eventually_blocking(
    look: Callable[[], T],
    so: Callable[[T], object] = bool,
    *,
    within_s: float = PATIENCE_S,
    despite: Errors = (),
) -> T:
    """Do the same without an event loop."""
    end_s = time.monotonic() + within_s
    for pause_s in _pauses_s():
        seen: Any
        try:
            seen = value = look()
            if so(value):
                return value
        except despite as error:
            seen = error
        if time.monotonic() > end_s:
            break
        time.sleep(pause_s)
    raise AssertionError(_still(look, so, within_s, seen))


def line_of(log: Path, program: "subprocess.Popen[bytes]", beginning: str, *, within_s: float = PATIENCE_S) -> str:
    """Wait until a program writes a line that begins so, and return its rest; fail with the log if the program ends."""

    def rest() -> str | None:
        ended, text = program.poll() is not None, log.read_text("utf-8", "replace")
        found = [line.removeprefix(beginning) for line in text.splitlines() if line.startswith(beginning)]
        assert found or not ended, f"{program.args!r} ended at its start:\n{text}"
        return found[0] if found else None

    return str(eventually_blocking(rest, within_s=within_s))


def until_listening(
    port: int,
    program: "subprocess.Popen[bytes]",
    log: Path | None = None,
    address: str = "127.0.0.1",
    *,
    within_s: float = PATIENCE_S,
) -> None:
    """Wait until a program that was started takes connections; fail with its log if it ends before that."""

    def connects() -> bool:
        if program.poll() is not None:
            raise AssertionError(f"{program.args!r} ended at its start: {log.read_text() if log else ''}")
        socket.create_connection((address, port), 1).close()
        return True

    eventually_blocking(connects, within_s=within_s, despite=OSError)


def _pauses_s() -> Iterator[float]:
    """Yield short pauses first: most of what tests wait for is there soon, and each look costs what it costs."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def _still(look: Callable[[], Any], so: Callable[[Any], object], within_s: float, seen: Any) -> str:
    """Say what was seen last, and what the variables of the conditions contain."""
    known = {name: value for each in (look, so) if inspect.isfunction(each) for name, value in _variables(each)}
    said = "".join(f", {name} = {_SHORTLY.repr(value)}" for name, value in known.items())
    return f"after {within_s:g} s there is still {_SHORTLY.repr(seen)}{said}"


def _variables(function: Callable[..., Any]) -> Iterable[tuple[str, Any]]:
    return inspect.getclosurevars(function).nonlocals.items()
