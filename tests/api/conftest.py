"""The API as its clients see it.

- `api`: a running service, shared by the tests of a file; each test makes applications of its own in it;
- `port`: the same one behind a real server on a loopback port, for tests that write HTTP themselves;
- `provider`: an identity provider;
- `dry`: a running service on dry-run machines, for public manifests.
"""

from collections.abc import AsyncIterator
from textwrap import dedent

import pytest

from tests.support.applications import ANSWERS
from tests.support.databases import Databases
from tests.support.external_services import provider
from tests.support.service import Api, api, running_api, served
from tests.support.statements import exchanges

__all__ = ["api", "exchanges", "provider"]


@pytest.fixture(scope="module")
async def port(api: Api) -> AsyncIterator[int]:
    """The port of the running service."""
    async with served(api) as port:
        yield port


@pytest.fixture(scope="module")
async def dry(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service on dry-run machines whose answers suit the manifests."""
    path = tmp_path_factory.mktemp("answers") / "answers.yml"
    path.write_text(dedent(ANSWERS))
    url = databases.create()
    async with running_api(url, machines="dry-run", dry_run_answers=str(path)) as api:
        yield api
    databases.drop(url)
