import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from launchbay.settings import Settings
from launchbay.web.server import serve
from tests.support.routes import TOKEN, sample_app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """The sample table in this process, for a caller with a good token."""
    transport = httpx.ASGITransport(sample_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://samples", headers=TOKEN) as client:
        yield client


@pytest.fixture(scope="module")
async def port() -> AsyncIterator[int]:
    """The sample table behind a real server on a loopback port; the tests of a file share it."""
    stop = asyncio.Event()
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(sample_app(), Settings(port=0, stop_grace_s=1), stop, started=lambda _, port: bound.set_result(port))
    )
    yield await bound
    stop.set()
    await serving
