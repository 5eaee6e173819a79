"""Runs `launchbay demo` as a user does: in a terminal of its own, or with its output going to a file."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.interruptible import interruptible

COMMAND = (sys.executable, "-m", "launchbay.cli.main", "demo")
WITHIN_S = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, without a terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, "COLUMNS": "120", **settings},
    )


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start the command without a terminal, its output to be read from `stdout`."""
    return subprocess.Popen(
        interruptible(*COMMAND, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def run_in_terminal(
    *arguments: str, columns: int, command: Sequence[str] = COMMAND, settings: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of this width; return the exit status and everything that was drawn."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", **(settings or {})},
        start_new_session=True,
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:  # the last one with the terminal open has closed it
        pass
    os.close(ours)
    return process.wait(timeout=WITHIN_S), drawn.decode()


def plain(drawn: str) -> str:
    """Return the text without colours and movements of the cursor."""
    return _ESCAPES.sub("", drawn).replace("\r", "")


def interrupt(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Press Ctrl-C; return the exit status and the rest of the output."""
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=WITHIN_S)
    return process.returncode, rest


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of all processes that name the directory or work in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            works_in = str((entry / "cwd").readlink())
        except OSError:  # it has just ended
            continue
        if str(directory) in command or works_in.startswith(str(directory)):
            found.append(command)
    return found


def await_true(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.02)
