"""A way into a machine: something that has a POSIX shell there run a script, and puts and gets files.

`running.py` builds commands with live output, time-outs and adoption after a crash on it, so a provider that can offer
a `Shell` has all of that. `ssh.py` and `local.py` are two of them.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

Taker = Callable[[bytes], None]


class ShellLost(Exception):
    """The way into the machine broke; what was begun there goes on. Another attempt may reach it again."""


class Shell(Protocol):
    """An open way into a machine. Its methods raise ShellLost, and `ActionFailed` where no other attempt would help."""

    async def script(self, text: str, stdout: Taker, stderr: Taker) -> int:
        """Have `sh` run the text and return its exit code; what it writes is handed over as it comes.

        A script that is cancelled may still run to its end there.
        """
        ...

    async def put(self, name: str, content: bytes) -> None:
        """Write a file, over one that is there; a relative name begins where commands begin."""
        ...

    async def get(self, name: str, most_bytes: int) -> bytes:
        """Read a file of at most so many bytes."""
        ...


OpenShell = Callable[[], AbstractAsyncContextManager[Shell]]
"""Opens the way anew: at first, and after it was lost. Raises as the methods of a `Shell` do."""
