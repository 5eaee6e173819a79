"""Earlier versions of this product, out of the history of its repository, to be run beside today's."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The last commit of the schema `launchbay.store.schema.OLDEST_BESIDE`.
OLDEST_BESIDE = "b81473a9fc"


def old_source(commit: str, directory: Path) -> Path:
    """Write the source tree of a commit below a directory and return it. Skips where the history is not there."""
    archive = git_archive(commit, "src")
    if archive is None:
        pytest.skip(f"the history of the repository does not reach back to {commit}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory / commit, filter="data")
    return directory / commit / "src"


def git_archive(commit: str, *paths: str) -> bytes | None:
    """Return some paths of a commit as a tar file, or None where the history is not there."""
    command = ["git", "-C", str(ROOT), "archive", commit, "--", *paths]
    try:
        made = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        return None
    return made.stdout if made.returncode == 0 else None
