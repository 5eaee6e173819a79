"""`server`: a running server, a process for all tests here; `cli`: commands against it, as its administrator.

Another process, since commands run in this one, and what a server logs would stand between what they print.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import Bay, served
from tests.support.shell import Shell


@pytest.fixture(scope="session")
def server() -> Iterator[Bay]:
    """A running server."""
    with served() as bay:
        yield bay


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Commands without any profile."""
    return Shell(tmp_path / "config")


@pytest.fixture
def cli(server: Bay, tmp_path: Path) -> Shell:
    """Commands against the server, as its administrator."""
    return Shell.of(server, tmp_path / "config")
