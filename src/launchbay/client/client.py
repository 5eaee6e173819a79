"""The two clients: the same operations, at once or awaited, and waiting for an instance."""

import functools
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from launchbay.client.core import Authentication, Call, Core, Pause, Retries, Steps, Tagged, read
from launchbay.client.drivers import AsyncDriver, SyncDriver
from launchbay.client.errors import ApiError, ConnectionFailed, InstanceFailed, WaitTimedOut
from launchbay.client.jobs import AsyncJob, Job, starting
from launchbay.client.operation import Routine
from launchbay.client.operations import Operations
from launchbay.client.streams import SILENCE_S, EventParser
from launchbay.client.types import InstanceDocument
from launchbay.clock import Backoff
from launchbay.model.instance import InstanceStatus

T = TypeVar("T")

_POLL = Backoff(0.2, 3.0)
_STREAM_AGAIN_AFTER = 10  # questions
_LISTEN_LONGEST_S = 30.0  # then the instance is read again, whatever was heard


def _waiting(
    core: Core,
    instance_id: str,
    *,
    until: str | Collection[str] = ("Running", "Destroyed"),
    timeout_s: float | None = None,
) -> Steps[InstanceDocument]:
    """Wait until the instance has one of these statuses and return it; `timeout_s` None waits as long as it takes.

    Raises InstanceFailed when it is Failed or Destroyed and that was not waited for, WaitTimedOut, and what every
    call raises; ValueError if `until` isn't a status of an instance.
    """
    wanted = {until} if isinstance(until, str) else set(until)
    if unknown := wanted - set(InstanceStatus):
        raise ValueError(f"unknown status {min(unknown)!r}; valid: {', '.join(InstanceStatus)}")
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    questions, delays = 0, _POLL.delays()
    while True:
        instance = yield from core.answer(Operations.read_instance.call(instance_id))
        if instance.status in wanted:
            return instance
        if instance.status in {"Failed", "Destroyed"}:
            raise _failed(instance)
        left_s = None if deadline_s is None else deadline_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise WaitTimedOut(f"'{instance.name}' is still {instance.status} after {timeout_s:g} s.", instance.status)
        has_news = questions % _STREAM_AGAIN_AFTER == 0 and (yield from _next_status(core, instance_id, wanted, left_s))
        questions += 1
        if has_news:
            questions, delays = 0, _POLL.delays()
        else:
            delay_s = next(delays)
            yield Pause(delay_s if left_s is None else min(delay_s, max(left_s, 0.01)))


def _next_status(core: Core, instance_id: str, wanted: set[str], left_s: float | None) -> Steps[bool]:
    """Listen for a while, or until the status is one that ends the waiting.

    False where the stream cannot be had or breaks off.
    """
    silence_s = SILENCE_S if left_s is None else min(SILENCE_S, max(left_s, 0.05))
    deadline_s = time.monotonic() + (_LISTEN_LONGEST_S if left_s is None else min(left_s, _LISTEN_LONGEST_S))
    try:
        yield from core.response(Operations.watch_instance.call(instance_id), is_streamed=True, timeout_s=silence_s)
    except (ApiError, ConnectionFailed):
        return False
    parser = EventParser()
    while True:
        piece = yield from read()
        if isinstance(piece, httpx.TransportError) or not piece:
            return False
        statuses = [event.data.get("status") for event in parser.feed(piece) if event.name == "status"]
        has_ended = any(status in wanted or status in {"Failed", "Destroyed"} for status in statuses)
        if has_ended or time.monotonic() >= deadline_s:
            return True


def _failed(instance: InstanceDocument) -> InstanceFailed:
    reason = f": {instance.error_message}" if instance.error_message else "."
    return InstanceFailed(f"'{instance.name}' is {instance.status}{reason}", instance.status, instance.error_message)


@functools.cache
def _authorities() -> ssl.SSLContext:
    # Shared by the clients of a process: reading the certificates takes longer than most calls.
    return httpx.create_ssl_context()


class _Methods(Operations):
    """The methods of both clients: every operation of the API, and routines of several operations."""

    wait = Routine(_waiting)


class Client(_Methods, SyncDriver):
    """A client whose methods return answers.

    with Client("https://launchbay.example.org", Basic("ann@example.org", "…")) as launchbay:
        for organization in launchbay.list_organizations():
            print(organization.name)

    `timeout_s` limits each read and write of a call. Raises ValueError if the URL is invalid; calls raise the
    exceptions of `errors.py`. `override_freeze` is why the calls change what is frozen. `transport` is for tests,
    `verify` for certificates of your own.
    """

    def __init__(
        self,
        base_url: str,
        authentication: Authentication = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        on_warning: Callable[[str], None] | None = None,
        override_freeze: str | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        core = Core(
            base_url,
            authentication,
            timeout_s=timeout_s,
            retries=retries,
            on_warning=on_warning,
            override_freeze=override_freeze,
        )
        super().__init__(core, httpx.Client(verify=_authorities() if verify is True else verify, transport=transport))

    def start(self, call: Call[Any]) -> Job:
        """Make a call that begins a job: `client.start(Operations.launch_application.call(id))`.

        Raises ValueError if it began none.
        """
        return Job(self, *self.perform(starting(self.core, call)))

    def run(self, instance_id: str, workflow: str, parameters: Mapping[str, Any] | None = None) -> Job:
        """Run a workflow on an instance and return its job."""
        return self.start(Operations.run_workflow.call(instance_id, workflow, parameters))

    def send(self, call: Call[T]) -> T:
        """Make a call that was made as data: `client.send(Operations.read_instance.call(id))`."""
        return self.perform(self.core.answer(call))

    def tagged(self, call: Call[T]) -> Tagged[T]:
        """Make a call and return its tag too, for `if_match`."""
        return self.perform(self.core.tagged(call))

    def close(self) -> None:
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
        on_warning: Callable[[str], None] | None = None,
        override_freeze: str | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        core = Core(
            base_url,
            authentication,
            timeout_s=timeout_s,
            retries=retries,
            on_warning=on_warning,
            override_freeze=override_freeze,
        )
        verify = _authorities() if verify is True else verify
        super().__init__(core, httpx.AsyncClient(verify=verify, transport=transport, headers=headers))

    async def start(self, call: Call[Any]) -> AsyncJob:
        """Make a call that begins a job, as `Client.start` does."""
        return AsyncJob(self, *await self.perform(starting(self.core, call)))

    async def run(self, instance_id: str, workflow: str, parameters: Mapping[str, Any] | None = None) -> AsyncJob:
        """Run a workflow on an instance and return its job."""
        return await self.start(Operations.run_workflow.call(instance_id, workflow, parameters))

    async def send(self, call: Call[T]) -> T:
        return await self.perform(self.core.answer(call))

    async def tagged(self, call: Call[T]) -> Tagged[T]:
        return await self.perform(self.core.tagged(call))

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
