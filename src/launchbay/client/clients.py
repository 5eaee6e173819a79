"""The two clients: the same operations, at once or awaited."""

import ssl
from types import TracebackType
from typing import TypeVar

import httpx

from launchbay.client.authentication import Authentication
from launchbay.client.call import Call
from launchbay.client.core import Core
from launchbay.client.drivers import AsyncDriver, SyncDriver
from launchbay.client.operation import Routine
from launchbay.client.operations import Operations
from launchbay.client.retries import Retries
from launchbay.client.waiting import waiting

T = TypeVar("T")


class _Methods(Operations):
    """What both clients have: every operation of the API, and what is made of several of them."""

    wait = Routine(waiting)


class Client(_Methods, SyncDriver):
    """A client whose methods return answers.

    with Client("https://launchbay.example.org", Basic("ann@example.org", "…")) as launchbay:
        for organization in launchbay.list_organizations():
            print(organization.name)

    `timeout_s` is for each read and write of a call. Raises ValueError for an address that is none; calls raise what
    `errors.py` draws. `transport` is for tests, `verify` for certificates of your own.
    """

    def __init__(
        self,
        base_url: str,
        authentication: Authentication = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        core = Core(base_url, authentication, timeout_s=timeout_s, retries=retries)
        super().__init__(core, httpx.Client(verify=verify, transport=transport))

    def send(self, call: Call[T]) -> T:
        """Make a call that was made as data: `client.send(Operations.read_instance.call(id))`."""
        return self.run(self.core.answer(call))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Methods, AsyncDriver):
    """A client whose methods are awaited, under asyncio or trio; otherwise like `Client`."""

    def __init__(
        self,
        base_url: str,
        authentication: Authentication = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        core = Core(base_url, authentication, timeout_s=timeout_s, retries=retries)
        super().__init__(core, httpx.AsyncClient(verify=verify, transport=transport))

    async def send(self, call: Call[T]) -> T:
        """Make a call that was made as data."""
        return await self.run_async(self.core.answer(call))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
