"""The API as its clients see it.

- `api`: a running service, shared by the tests of a file; each test makes applications of its own in it;
- `port`: the same one behind a real server on a loopback port, for tests that write HTTP themselves;
- `provider`: an identity provider;
- `dry`: a running service on dry-run machines, for the samples.
"""

from collections.abc import AsyncIterator

import pytest

from tests.support.databases import Databases
from tests.support.external_services import provider
from tests.support.manifests import SAMPLE_ANSWERS
from tests.support.service import Api, on_dry_machines, served
from tests.support.service import own_service as api
from tests.support.statements import exchanges

__all__ = ["api", "exchanges", "provider"]


@pytest.fixture(scope="module")
async def port(api: Api) -> AsyncIterator[int]:
    """The port of the running service."""
    async with served(api) as port:
        yield port


@pytest.fixture(scope="module")
async def dry(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service on dry-run machines whose answers suit the samples."""
    async with on_dry_machines(databases, tmp_path_factory.mktemp("answers"), SAMPLE_ANSWERS) as started:
        yield started
