"""Where processes of the fault suites keep their data."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def fault_directory() -> Iterator[Path]:
    """Lend a directory outside of pytest's own, which every pytest that starts closes to PostgreSQL's account."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-faults-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
