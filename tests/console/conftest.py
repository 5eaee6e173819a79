"""One service for the tests of the console's pages over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.pages import browser
from tests.api.running import EMAIL, PASSWORD, Api, running_api
from tests.databases import Databases


@pytest.fixture(scope="module")
async def api(databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """The service. It has no engine, since pages are what these tests look at, unless their file says RUNS_JOBS."""
    url = databases.create()
    async with running_api(url, engine=getattr(request.module, "RUNS_JOBS", False)) as running:
        yield running
    databases.drop(url)


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console."""
    async with browser(api) as client:
        answer = await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        yield client
