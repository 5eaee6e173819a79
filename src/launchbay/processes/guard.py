"""Stands between the server and a program that it started, so that the program never outlives what it is for.

    python -I -S guard.py DIRECTORY GRACE PROGRAM ARGUMENT…

It starts the program in a session of its own and ends with its exit code. When standard input says something or ends,
because the server wants the program gone or is itself gone (even by `kill -9`), it ends everything that the program has
started: all processes below it, also those that made sessions of their own, because orphans become children of the
guard. Between SIGTERM and SIGKILL lie GRACE seconds for who is asked to end, and a moment for who was left alone, whose
work another server may be about to take up; then it removes the directory, which may hold keys. Only the standard
library is used, and nothing of Launchbay.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ORPHAN_GRACE_S = 2.0
POLL_S = 0.1
NOT_STARTED = 127


def main() -> int:
    """Run the program and return its exit code, 128 and the signal's number for one that a signal ended."""
    directory, grace, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # whoever wants an end closes standard input
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - an argv array
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
        return NOT_STARTED
    result = os.pidfd_open(program.pid)
    while (said := _await_end_of_input(result)) is None and program.poll() is None:
        continue
    if said is None:
        exit_code = program.wait()
        _end_all(grace_s=0.0)  # what it left behind
        return exit_code if exit_code >= 0 else 128 - exit_code
    _end_all(float(grace) if said else ORPHAN_GRACE_S)
    if not said:  # otherwise the server does that, when it has taken out what it needs
        shutil.rmtree(directory, ignore_errors=True)
    return 128 + signal.SIGKILL


def _await_end_of_input(program_ended: int) -> bytes | None:
    """Wait until standard input says something, nothing being its end, or the program has ended: None."""
    ready, _, _ = select.select([0, program_ended], [], [])
    return None if program_ended in ready else os.read(0, 4096)


def _end_all(grace_s: float) -> None:
    """End every process below this one: gently first, if there is a grace time."""
    deadline_s = time.monotonic() + grace_s
    if grace_s:
        _signal(signal.SIGTERM)
    while _reaped() and time.monotonic() < deadline_s:
        time.sleep(POLL_S / 4)
    while _reaped():
        _signal(signal.SIGKILL)
        time.sleep(POLL_S / 4)


def _reaped() -> bool:
    """Collect the children that have ended; True while there are others."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _signal(number: int) -> None:
    for process in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # The name of the program stands in brackets and may hold anything; the parent follows the state.
                _, _, stat = Path(entry.path, "stat").read_bytes().rpartition(b")")
                parents[int(entry.name)] = int(stat.split()[1])
    found, new = [], [root]
    while new:
        new = [process for process, parent in parents.items() if parent in new]
        found += new
    return found


if __name__ == "__main__":
    sys.exit(main())
