"""Directories for data of real servers.

Not pytest's own: it closes its directories to everybody else at the start of each session. A server that runs as root
gives its database an account of its own, which could not reach its data any more once another session starts.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def place() -> Iterator[Path]:
    """Make a directory that every account may pass through, and remove it after use."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-place-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
