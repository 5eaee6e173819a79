"""The API as its clients see it.

- `api`: a running service, shared by the tests of a file; each test makes applications of its own in it;
- `port`: the same one behind a real server on a loopback port, for tests that write HTTP themselves.
"""

from collections.abc import AsyncIterator

import pytest

from tests.api.running import Api, running_api, served
from tests.databases import Databases


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A running service with its administrator signed in."""
    url = databases.create()
    async with running_api(url) as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
async def port(api: Api) -> AsyncIterator[int]:
    """The port of the running service."""
    async with served(api) as port:
        yield port
