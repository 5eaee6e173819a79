"""A process that outlives the command which started it, known by a locked file.

The process inherits the lock on its pid file, and the kernel gives the lock back when the process ends, however that
happens. So a number in the file is never taken for a process that got the same number later. The process writes the
number itself, before it becomes the program that is wanted: an interrupt of the command cannot come in between.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.05
_LAUNCHER = "import os, sys; os.write(int(sys.argv[1]), b'%d' % os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class Background:
    """One process in the background: its pid file, and the file that its output goes to."""

    pid_file: Path
    log: Path

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        try:
            with self.pid_file.open("rb") as file:
                return not _locked(file.fileno())
        except FileNotFoundError:
            return False

    def start(self, command: Sequence[str], settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start the process, detached from the terminal. It sees `settings` and no other `LAUNCHBAY_*` variable.

        The command begins with the path of its program. Raises RuntimeError when the process runs already.
        """
        # The sample's own server, started by its user: it sees what its user sees, but for other settings.
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}
        with self.pid_file.open("ab") as file, self.log.open("wb") as output:
            if not _locked(file.fileno()):
                raise RuntimeError(f"The process of {self.pid_file} runs already.")
            file.truncate(0)
            return subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-c", _LAUNCHER, str(file.fileno()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**inherited, "PYTHONUNBUFFERED": "1", **settings},
                start_new_session=True,
                pass_fds=(file.fileno(),),
            )

    def stop(self, within_s: float) -> bool:
        """End the process, by force after `within_s` seconds, and tell whether there was one."""
        if not self.is_running():
            return False
        deadline = time.monotonic() + within_s
        sent = None
        while self.is_running():
            order = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
            number = self.pid_file.read_text("utf-8")
            if number and order is not sent:  # a process that has just been started has no number for a moment
                with suppress(ProcessLookupError):
                    os.kill(int(number), order)
                sent = order
            time.sleep(_POLL_S)
        self.pid_file.unlink(missing_ok=True)
        return True


def _locked(descriptor: int) -> bool:
    """Lock an open file, and tell whether that was possible. Closing every copy of the descriptor unlocks it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
