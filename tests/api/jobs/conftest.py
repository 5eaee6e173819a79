"""The running service with a ledger that it may reach."""

from collections.abc import AsyncIterator

import pytest

from tests.support.applications import STEPS, Ledger
from tests.support.databases import Databases
from tests.support.network import loopback_server
from tests.support.service import Api, running_api


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with loopback_server() as server:
        ledger = Ledger(server)
        ledger.mend("/last")
        yield ledger


@pytest.fixture
async def application(api: Api, ledger: Ledger) -> str:
    return await api.application(STEPS.replace("LEDGER", ledger.server.url("")))
