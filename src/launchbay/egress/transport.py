"""An httpx transport that connects only to checked addresses.

It resolves a host once, checks every address, and connects to one of them, which defeats DNS rebinding. TLS still
verifies the name of the host, and the Host header has it. There is no proxy, and no connection is reused: every
request is checked.
"""

import asyncio
import contextlib
import functools
import os
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol

import httpcore
import httpx

from launchbay import limits
from launchbay.egress.addresses import Allowlist, validate_address


class Resolver(Protocol):
    """Finds the addresses of a host. Tests replace it."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return addresses as strings, best first. Raises OSError if the name has none."""


class SystemResolver:
    """The system's resolver. It accepts every spelling that the kernel does, such as `0x7f.1` or `2130706433`."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(sockaddr[0]) for _family, _type, _protocol, _name, sockaddr in found))


def literal_addresses(host: str, port: int) -> tuple[str, ...]:
    """Return what a host means without a resolver.

    An address in any spelling, or the name of this machine. Other names give nothing.
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1",)
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return tuple(str(sockaddr[0]) for _family, _type, _protocol, _name, sockaddr in found)


# For the request being sent. Default: the transport's own.
_allowlist: ContextVar[Allowlist | None] = ContextVar("allowlist of an outgoing request", default=None)


@contextlib.contextmanager
def using_allowlist(allowlist: Allowlist | None) -> Iterator[None]:
    """Use another allowlist for the requests inside the block."""
    token = _allowlist.set(allowlist)
    try:
        yield
    finally:
        _allowlist.reset(token)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections for httpcore, to checked addresses only."""

    def __init__(self, allowlist: Allowlist, resolver: Resolver) -> None:
        self._allowlist = allowlist
        self._resolver = resolver
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve once, check every address, try them in turn. Raises `AddressRefused`."""
        try:
            addresses = await self._resolver.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} has no address ({error})") from error
        allowlist = _allowlist.get() or self._allowlist
        checked = [validate_address(address, host, port, allowlist) for address in addresses]
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in checked[: limits.EGRESS_ADDRESSES]:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failure = httpcore.ConnectError(_reason(error))
                failure.__cause__ = error
            except httpcore.ConnectTimeout as error:
                failure = error
        raise failure


def _reason(error: BaseException) -> str:
    """Return why a connection failed, such as "Connection refused".

    anyio reports "All connection attempts failed"; the error of the operating system is the cause of that.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error)


class CheckedTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over checked connections, for any `httpx.AsyncClient` that must follow the address rules."""

    def __init__(
        self, allowlist: Allowlist, *, resolver: Resolver | None = None, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or trusted_ssl_context(),
            max_connections=limits.EGRESS_CONNECTIONS,
            max_keepalive_connections=0,
            network_backend=CheckedBackend(allowlist, resolver or SystemResolver()),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises `AddressRefused`, and what httpx's own transport raises."""
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("The request's body cannot be sent asynchronously.")
        url = request.url
        inner = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx_exceptions(request):
            answer = await self._pool.handle_async_request(inner)
        if not isinstance(answer.stream, AsyncIterable):
            raise TypeError("The answer's body cannot be read asynchronously.")
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_ResponseStream(answer.stream, request), request=request
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes], request: httpx.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx_exceptions(self._request):
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


@functools.cache
def trusted_ssl_context() -> ssl.SSLContext:
    """Return the context that trusts the public authorities and those of this machine.

    Reading their certificates takes 30 ms, so it happens once: an authority that is added later needs a restart.
    """
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


_EXCEPTIONS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@contextlib.contextmanager
def _as_httpx_exceptions(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except _EXCEPTIONS as error:
        # httpx has an exception of the same name for each of them.
        raise getattr(httpx, type(error).__name__)(str(error), request=request) from error
