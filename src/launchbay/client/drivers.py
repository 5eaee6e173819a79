"""The two drivers: they carry out what the core yields, at once or in an event loop. Nothing is decided here."""

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx

from launchbay.client.core import Core, Emit, Pause, Send, Steps, Stream

T = TypeVar("T")


class SyncDriver:
    """Does steps at once, on an `httpx.Client`. Safe for several threads."""

    def __init__(self, core: Core, http: httpx.Client) -> None:
        self.core = core
        self._http = http

    def perform(self, steps: Steps[T], /) -> T:
        with contextlib.closing(self.iterate(_emitted(steps))) as found:
            return next(found)

    def iterate(self, stream: Stream[T], /) -> Generator[T, None, None]:
        outcome: Any = None
        pieces: Iterator[bytes] = iter(())
        with contextlib.ExitStack() as opened:
            while True:
                try:
                    effect = stream.send(outcome)
                except StopIteration:
                    return
                outcome = None
                try:
                    match effect:
                        case Emit(item):
                            yield item
                        case Pause(seconds):
                            time.sleep(seconds)
                        case Send():
                            opened.close()
                            content = effect.content
                            sent = _FilePieces(content) if isinstance(content, Path) else content
                            request = _request(self._http, effect, sent)
                            outcome = self._http.send(request, auth=effect.auth, stream=True)
                            opened.callback(outcome.close)
                            pieces = outcome.iter_bytes()
                            if not effect.is_streamed or outcome.status_code != 200:
                                outcome.read()
                        case _:
                            outcome = next(pieces, b"")
                except httpx.TransportError as error:
                    opened.close()
                    outcome = error


class AsyncDriver:
    """Does steps in an event loop, on an `httpx.AsyncClient`. Safe for many tasks."""

    def __init__(self, core: Core, http: httpx.AsyncClient) -> None:
        self.core = core
        self._http = http

    async def perform(self, steps: Steps[T], /) -> T:
        async with contextlib.aclosing(self.iterate(_emitted(steps))) as found:
            return await anext(found)

    async def iterate(self, stream: Stream[T], /) -> AsyncGenerator[T, None]:
        outcome: Any = None
        pieces: AsyncIterator[bytes] | None = None
        async with contextlib.AsyncExitStack() as opened:
            while True:
                try:
                    effect = stream.send(outcome)
                except StopIteration:
                    return
                outcome = None
                try:
                    match effect:
                        case Emit(item):
                            yield item
                        case Pause(seconds):
                            await anyio.sleep(seconds)
                        case Send():
                            await opened.aclose()
                            content = effect.content
                            sent = _AsyncFilePieces(content) if isinstance(content, Path) else content
                            request = _request(self._http, effect, sent)
                            outcome = await self._http.send(request, auth=effect.auth, stream=True)
                            opened.push_async_callback(outcome.aclose)
                            pieces = outcome.aiter_bytes()
                            if not effect.is_streamed or outcome.status_code != 200:
                                await outcome.aread()
                        case _:
                            assert pieces is not None, "reads follow an answer"
                            outcome = await anext(pieces, b"")
                except httpx.TransportError as error:
                    await opened.aclose()
                    outcome = error


def _emitted(steps: Steps[T]) -> Stream[T]:
    """Return the steps of a call as a stream of one item."""
    yield Emit((yield from steps))


def _request(
    http: httpx.Client | httpx.AsyncClient, send: Send, content: "bytes | _FilePieces | _AsyncFilePieces"
) -> httpx.Request:
    return http.build_request(send.method, send.url, headers=dict(send.headers), content=content, timeout=send.timeout)


_PIECE_BYTES = 64 * 1024


class _FilePieces:
    """The content of a file. It begins again with each request."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece


class _AsyncFilePieces:
    """The same in an event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with await anyio.open_file(self._path, "rb") as file:
            while piece := await file.read(_PIECE_BYTES):
                yield piece
