"""The running service with a ledger that it may reach."""

from collections.abc import AsyncIterator

import pytest

from tests.api.jobs.ledgers import STEPS, Ledger
from tests.api.running import Api, running_api
from tests.databases import Databases
from tests.outgoing.loopback import loopback_server


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
