import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory outside of pytest's own: every pytest that starts closes that to PostgreSQL's account."""
    directory = Path(tempfile.mkdtemp(prefix="launchbay-faults-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def seed() -> int:
    """What a campaign's chances follow from; it is in the figures, and LAUNCHBAY_FAULT_SEED repeats it."""
    return int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))
