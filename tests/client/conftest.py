"""`server`: a running service on a loopback port, shared by the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Databases
from tests.support.service import Server, serving


@pytest.fixture(scope="module")
def server(databases: Databases) -> Iterator[Server]:
    """A running service."""
    with serving(databases) as server:
        yield server
