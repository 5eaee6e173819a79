"""`bay`: a whole service in this process, shared by the tests of a page."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Databases
from tests.support.servers import Bay
from tests.support.service import serving


@pytest.fixture(scope="module")
def bay(databases: Databases) -> Iterator[Bay]:
    """A running service."""
    with serving(databases) as server:
        yield Bay(server.url)
