"""Programs that hear SIGINT, however the tests were started.

A shell that runs them in the background has them, and all that they start, ignore it.
"""

import sys

_HEAR = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def interruptible(*command: str) -> list[str]:
    """Return the command that runs this one, whose program is named by its path, with SIGINT as it is by default."""
    return [sys.executable, "-c", _HEAR, *command]
