"""Scripts for machines, and their answers between what else is written.

Start-up files of the login's shell, banners and background jobs write where our scripts do. So a script frames what it
says (`scripts/speak.sh`): a line with a mark, which is new for each script, words, and a number of bytes; then those
bytes. Everything between frames is noise.

    answer = await run_script(shell, script("place", "look", key=…), host)
    answer.words["known"]
"""

import asyncio
import secrets
import shlex
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.contract import Shell, ShellLost

# The shell scripts that run on machines (`scripts/`), written for POSIX `sh`.
#
# Each gets its parameters as variables, quoted by `script`, and is sent to the standard input of `sh -s`. The shell of
# the login never reads it, and no parameter is read as code.


def script(*names: str, **variables: str | int) -> str:
    """Return the scripts in a row, after assignments of the variables.

    Raises ValueError as `quoted` does.
    """
    lines = [f"{name}={quoted(str(value))}" for name, value in variables.items()]
    return "\n".join((*lines, *map(text_of, names), ""))


def quoted(*words: str) -> str:
    """Return the words as POSIX `sh` reads them.

    Raises ValueError for what a program can't receive.
    """
    for word in words:
        if "\0" in word:
            raise ValueError("an argument can't contain a NUL character")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ValueError("an argument can't contain half of a surrogate pair") from None
    return " ".join(map(shlex.quote, words))


def _framed(text: str, mark: str) -> str:
    """Return a script whose answers have this mark in each frame.

    It ends with a frame of its exit code.
    """
    half = len(mark) // 2
    # Options may come with the environment, from a start-up file that exports them.
    head = f"set +Cefux\nmark_begin={mark[:half]} mark_end={mark[half:]}\n{text_of('speak')}"
    return f"{head}(\n{text}\n)\nsay end $?\n"


@cache
def text_of(name: str) -> str:
    return resources.files("launchbay.machines.scripts").joinpath(f"{name}.sh").read_text("utf-8")


_HEADER_BYTES = 4 * limits.KIB  # a longer header is none
_NOISE_BYTES = 2 * limits.KIB  # that are kept, for a message
_BEGIN, _END = "begin", "end"
_CLOSES_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame without its content: its words, and the number of bytes."""

    kind: str
    words: tuple[str, ...]
    size: int


OnContent = Callable[[Frame, bytes], None]
"""Takes the content of a frame in pieces; an empty one once."""


class FrameReader:
    """Splits a stream, in pieces of any size, into frames and noise.

    `noise` has the beginning of the noise before the first frame, and `later_noise` of the noise after it.
    """

    def __init__(self, mark: bytes, on_content: OnContent) -> None:
        self._mark = b"\n" + mark + b" "
        self._on_content = on_content
        self._frame: Frame | None = None
        self._left = 0
        self._buffer = bytearray(b"\n")  # so that a frame can be the first line
        self._has_begun = False
        self.noise, self.later_noise = bytearray(), bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._buffer:
            if self._frame is not None:
                part = bytes(self._buffer[: self._left])
                del self._buffer[: len(part)]
                self._left -= len(part)
                frame = self._frame
                if self._left == 0:
                    self._frame = None
                self._on_content(frame, part)
            elif not self._read_header():
                return

    def finish(self) -> None:
        """Count what is left over as noise."""
        if self._frame is None:
            self._add_noise(bytes(self._buffer))
            self._buffer.clear()

    def _read_header(self) -> bool:
        """Read the next header; return False if more data is needed."""
        begin = self._buffer.find(self._mark)
        if begin < 0:
            keep = min(len(self._buffer), len(self._mark) - 1)
            self._add_noise(bytes(self._buffer[: len(self._buffer) - keep]))
            del self._buffer[: len(self._buffer) - keep]
            return False
        end = self._buffer.find(b"\n", begin + 1, begin + _HEADER_BYTES)
        if end < 0 and len(self._buffer) - begin < _HEADER_BYTES:
            return False
        words = self._buffer[begin + len(self._mark) : end].decode("ascii", "replace").split()
        if end < 0 or len(words) < 2 or not words[-1].isdigit():
            self._add_noise(bytes(self._buffer[: begin + 1]))
            del self._buffer[: begin + 1]
            return True
        self._add_noise(bytes(self._buffer[:begin]))
        del self._buffer[: end + 1]
        frame = Frame(words[0], tuple(words[1:-1]), int(words[-1]))
        self._has_begun = True
        if frame.size:
            self._frame, self._left = frame, frame.size
        else:
            self._on_content(frame, b"")
        return True

    def _add_noise(self, data: bytes) -> None:
        noise = self.later_noise if self._has_begun else self.noise
        noise += data[: max(0, _NOISE_BYTES - len(noise))]


@dataclass(slots=True)
class Answer:
    """What a script said: its exit code, frames by kind, and errors.

    `noise` came before the first frame.
    `is_mixed`: something wrote in between the frames, so a content may not be what the script wrote.
    """

    code: int
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    contents: dict[str, bytearray] = field(default_factory=dict)
    errors: str = ""
    noise: str = ""
    is_mixed: bool = False

    def content(self, kind: str) -> bytes:
        return bytes(self.contents.get(kind, b""))


async def run_script(
    shell: Shell,
    text: str,
    host: str,
    *,
    keep_bytes: int = 4 * limits.KIB,
    on_content: OnContent | None = None,
    on_noise: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Run a text of `script` and return its answer.

    The answer has up to `keep_bytes` of each content, unless `on_content` gets contents as they come. `on_noise` is
    called at most once, when the script has begun.

    Raises ShellLost if the connection ended before the script, and ActionFailed if the login runs no script at all:
    another attempt would find the same.
    """
    mark = secrets.token_hex(16)
    answer = Answer(code=0)
    ended = asyncio.Event()

    def take(frame: Frame, data: bytes) -> None:
        answer.words[frame.kind] = frame.words
        if frame.kind == _BEGIN:
            answer.noise = _readable(stdout.noise)
            if answer.noise:
                on_noise(answer.noise)
        elif frame.kind == _END:
            answer.code = int(frame.words[0])
            answer.is_mixed = bool(stdout.later_noise.strip())
            ended.set()
        elif on_content is not None:
            on_content(frame, data)
        else:
            kept = answer.contents.setdefault(frame.kind, bytearray())
            kept += data[: max(0, keep_bytes - len(kept))]

    stdout = FrameReader(mark.encode(), take)
    stderr = FrameReader(mark.encode(), lambda _frame, _data: None)
    exit_code = await _until_ended(shell.script(_framed(text, mark), stdout.feed, stderr.feed), ended)
    stdout.finish()
    stderr.finish()
    answer.errors = _readable(stderr.later_noise)
    if ended.is_set():
        return answer
    if _BEGIN in answer.words or exit_code is None or exit_code < 0:
        raise ShellLost("the script was ended before it had answered")
    raise _no_script(host, exit_code, _readable(stdout.noise), _readable(stderr.noise))


async def _until_ended(script: Coroutine[Any, Any, int], ended: asyncio.Event) -> int | None:
    """Run a script to its end, or until it said that it ends.

    Something else may keep its output open.
    """
    running, waiting = asyncio.ensure_future(script), asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait((running,), timeout=_CLOSES_WITHIN_S)
        if running.done():
            return running.result()
        return None
    finally:
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)


def _readable(data: bytes | bytearray) -> str:
    return bytes(data).decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()


_NO_LOGIN = ("not available", "nologin")
_RESTRICTED = "restricted"
_NOT_FOUND, _SHELL = 127, "/bin/sh"
_REPORTED_CHARS = 300


def _no_script(host: str, exit_code: int, stdout: str, stderr: str) -> ActionFailed:
    """Return the error for a login that accepts commands and doesn't run them."""
    said = (stderr or stdout)[-_REPORTED_CHARS:]
    answered = f" and said {said!r}" if said else " without a word"
    text = f"{stdout}\n{stderr}".lower()
    if any(each in text for each in _NO_LOGIN):
        reason = f"{host} let the login in but runs no commands for it{answered}: its shell is nologin, or one like it."
        advice = "Use another login, or give this one a shell on the host: usermod --shell /bin/sh LOGIN."
    elif _RESTRICTED in text:
        reason = f"{host} runs no script for the login{answered}: its shell is restricted, such as rbash."
        advice = "Use another login, or give this one a shell on the host: usermod --shell /bin/sh LOGIN."
    elif exit_code == _NOT_FOUND and _SHELL in text:
        reason = f"{host} found no /bin/sh for the login{answered}."
        advice = "Commands need a POSIX shell at /bin/sh: install one on the host."
    else:
        reason = f"{host} let the login in, but what it started never ran /bin/sh: it ended with {exit_code}{answered}."
        advice = (
            "Look for an exit or exec in the start-up files of the login's shell, such as ~/.bashrc. A forced command"
            " in authorized_keys must run $SSH_ORIGINAL_COMMAND."
        )
    return ActionFailed(reason, advice, retryable=False)
