"""An httpx transport that dials only checked addresses.

A host is resolved once; every address of the answer is judged; one of the judged addresses is dialled, so that a name
server that changes its mind between two questions (rebinding) gains nothing. TLS still verifies the name of the host,
and the Host header keeps it. There is no proxy, and no connection is kept: the next request is judged anew.
"""

import asyncio
import contextlib
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
    """Finds the addresses of a host; tests put their own in its place."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses as text, best first. Raises `OSError` when there is none."""
        ...


class SystemResolver:
    """The machine's own resolver. It reads every spelling that the kernel would, such as `0x7f.1` or `2130706433`."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses as text, best first. Raises `OSError` when there is none."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(sockaddr[0]) for _family, _type, _protocol, _name, sockaddr in found))


# Whose rules count for the request that is being sent; the transport's own where nobody says.
_rules: ContextVar[Allowlist | None] = ContextVar("rules of an outgoing request", default=None)


@contextlib.contextmanager
def using_allowlist(allowlist: Allowlist | None) -> Iterator[None]:
    """Let another allow-list count for the requests inside of the block."""
    token = _rules.set(allowlist)
    try:
        yield
    finally:
        _rules.reset(token)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections for httpcore, to checked addresses only."""

    def __init__(self, allowlist: Allowlist, resolver: Resolver) -> None:
        self._allowlist = allowlist
        self._resolver = resolver
        self._dialler = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve once, check every address, dial them in turn until one answers. Raises `AddressRefused`."""
        try:
            addresses = await self._resolver.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} has no address ({error})") from error
        allowlist = _rules.get() or self._allowlist
        checked = [validate_address(address, host, port, allowlist) for address in addresses]
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in checked[: limits.EGRESS_ADDRESSES]:
            try:
                return await self._dialler.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class CheckedTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over checked connections; give it to any `httpx.AsyncClient` that must keep the address rules."""

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
        """Send the request. Raises `AddressRefused`, and httpx's exceptions as its own transport does."""
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
        """Close what is open."""
        await self._pool.aclose()


class _ResponseStream(httpx.AsyncByteStream):
    """The body of an answer as it arrives."""

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


def trusted_ssl_context() -> ssl.SSLContext:
    """Return a context that trusts the public authorities and those that this machine trusts beside them."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


# The more specific exceptions first.
_HTTPX_EXCEPTIONS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.ReadTimeout, httpx.ReadTimeout),
    (httpcore.WriteTimeout, httpx.WriteTimeout),
    (httpcore.PoolTimeout, httpx.PoolTimeout),
    (httpcore.TimeoutException, httpx.TimeoutException),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.ReadError, httpx.ReadError),
    (httpcore.WriteError, httpx.WriteError),
    (httpcore.NetworkError, httpx.NetworkError),
    (httpcore.UnsupportedProtocol, httpx.UnsupportedProtocol),
    (httpcore.LocalProtocolError, httpx.LocalProtocolError),
    (httpcore.RemoteProtocolError, httpx.RemoteProtocolError),
    (httpcore.ProtocolError, httpx.ProtocolError),
)


@contextlib.contextmanager
def _as_httpx_exceptions(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        for inner, outer in _HTTPX_EXCEPTIONS:
            if isinstance(error, inner):
                raise outer(str(error), request=request) from error
        raise
