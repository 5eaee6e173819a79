"""The services for the tests of the console's pages over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.external_services import provider
from tests.support.pages import browser
from tests.support.service import EMAIL, PASSWORD, Api, running_api

__all__ = ["provider"]


@pytest.fixture(scope="package")
async def idle_service(databases: Databases) -> AsyncIterator[Api]:
    """A service without an engine, shared by the files."""
    url = databases.create()
    async with running_api(url, engine=False) as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="package")
async def working_service(databases: Databases) -> AsyncIterator[Api]:
    """A service whose engine works, shared by the files that run jobs."""
    url = databases.create()
    async with running_api(url) as running:
        yield running
    databases.drop(url)


@pytest.fixture(scope="module")
def api(idle_service: Api) -> Api:
    """The service. Pages are what these tests look at; a file that runs jobs makes `working_service` its `api`."""
    return idle_service


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console."""
    async with browser(api) as client:
        answer = await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        yield client
