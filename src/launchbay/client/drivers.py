"""The two drivers: they do what the core asks for, at once or in an event loop. Nothing is decided here."""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import anyio
import httpx

from launchbay.client.core import Core
from launchbay.client.effects import (
    Close,
    Effect,
    Emit,
    Exclusive,
    Failure,
    Open,
    Pause,
    Read,
    Request,
    Response,
    Send,
    Steps,
    Stream,
)

T = TypeVar("T")

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)
_CONNECT_S = 10.0


class SyncDriver:
    """Does steps at once, on an `httpx.Client`. Safe for several threads."""

    def __init__(self, core: Core, http: httpx.Client) -> None:
        self.core = core
        self._http = http
        self._lock = threading.RLock()

    def run(self, steps: Steps[T], /) -> T:
        """Do the steps and return what they return."""
        with contextlib.ExitStack() as stack:
            doing, outcome = _SyncDoing(self, stack), None
            while True:
                try:
                    effect = steps.send(outcome)
                except StopIteration as end:
                    found: T = end.value
                    return found
                outcome = doing.do(effect)

    def iterate(self, stream: Stream[T], /) -> Iterator[T]:
        """Do the steps and yield what they emit."""
        with contextlib.ExitStack() as stack:
            doing, outcome = _SyncDoing(self, stack), None
            while True:
                try:
                    effect = stream.send(outcome)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    outcome = None
                    yield effect.item
                else:
                    outcome = doing.do(effect)

    def exclusive(self, steps: Steps[T]) -> T:
        """Do the steps while no other thread does such."""
        with self._lock:
            return self.run(steps)

    def opened(self, request: Request, stack: contextlib.ExitStack) -> httpx.Response:
        """Send a request whose answer stays open until the stack ends."""
        return stack.enter_context(self._http.stream(**_arguments(request)))


class _SyncDoing:
    """One run of steps, with the answer that it has open."""

    def __init__(self, driver: SyncDriver, stack: contextlib.ExitStack) -> None:
        self._driver = driver
        self._stack = stack
        self._pieces: Iterator[bytes] = iter(())

    def do(self, effect: Effect) -> Any:
        """Do it and return its outcome."""
        match effect:
            case Send(request) | Open(request):
                return self._send(request, keep=isinstance(effect, Open))
            case Read():
                try:
                    return next(self._pieces, b"")
                except httpx.TransportError as error:
                    return _failure(error)
            case Close():
                self._stack.close()
            case Pause(seconds):
                time.sleep(seconds)
            case Exclusive(steps):
                return self._driver.exclusive(steps)
        return None

    def _send(self, request: Request, *, keep: bool) -> Response | Failure:
        try:
            answer = self._driver.opened(request, self._stack)
            if keep and answer.status_code == 200:
                self._pieces = answer.iter_bytes()
                return _response(answer, b"")
            found = _response(answer, answer.read())
        except httpx.TransportError as error:
            self._stack.close()
            return _failure(error)
        self._stack.close()
        return found


class AsyncDriver:
    """Does steps in an event loop, on an `httpx.AsyncClient`. Safe for many tasks."""

    def __init__(self, core: Core, http: httpx.AsyncClient) -> None:
        self.core = core
        self._http = http
        self._lock = anyio.Lock()

    async def run_async(self, steps: Steps[T], /) -> T:
        """Do the steps and return what they return."""
        async with contextlib.AsyncExitStack() as stack:
            doing, outcome = _AsyncDoing(self, stack), None
            while True:
                try:
                    effect = steps.send(outcome)
                except StopIteration as end:
                    found: T = end.value
                    return found
                outcome = await doing.do(effect)

    async def iterate_async(self, stream: Stream[T], /) -> AsyncIterator[T]:
        """Do the steps and yield what they emit."""
        async with contextlib.AsyncExitStack() as stack:
            doing, outcome = _AsyncDoing(self, stack), None
            while True:
                try:
                    effect = stream.send(outcome)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    outcome = None
                    yield effect.item
                else:
                    outcome = await doing.do(effect)

    async def exclusive(self, steps: Steps[T]) -> T:
        """Do the steps while no other task does such."""
        async with self._lock:
            return await self.run_async(steps)

    async def opened(self, request: Request, stack: contextlib.AsyncExitStack) -> httpx.Response:
        """Send a request whose answer stays open until the stack ends."""
        return await stack.enter_async_context(self._http.stream(**_arguments(request)))


class _AsyncDoing:
    """One run of steps, with the answer that it has open."""

    def __init__(self, driver: AsyncDriver, stack: contextlib.AsyncExitStack) -> None:
        self._driver = driver
        self._stack = stack
        self._pieces: AsyncIterator[bytes] | None = None

    async def do(self, effect: Effect) -> Any:
        """Do it and return its outcome."""
        match effect:
            case Send(request) | Open(request):
                return await self._send(request, keep=isinstance(effect, Open))
            case Read():
                assert self._pieces is not None, "reads follow an open"
                try:
                    return await anext(self._pieces, b"")
                except httpx.TransportError as error:
                    return _failure(error)
            case Close():
                await self._stack.aclose()
            case Pause(seconds):
                await anyio.sleep(seconds)
            case Exclusive(steps):
                return await self._driver.exclusive(steps)
        return None

    async def _send(self, request: Request, *, keep: bool) -> Response | Failure:
        try:
            answer = await self._driver.opened(request, self._stack)
            if keep and answer.status_code == 200:
                self._pieces = answer.aiter_bytes()
                return _response(answer, b"")
            found = _response(answer, await answer.aread())
        except httpx.TransportError as error:
            await self._stack.aclose()
            return _failure(error)
        await self._stack.aclose()
        return found


def _arguments(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "content": request.content,
        "timeout": httpx.Timeout(request.timeout_s, connect=min(_CONNECT_S, request.timeout_s)),
    }


def _response(answer: httpx.Response, content: bytes) -> Response:
    return Response(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, content)


def _failure(error: httpx.TransportError) -> Failure:
    message = str(error) or type(error).__name__
    return Failure(message, arrived=not isinstance(error, _NOT_SENT))
