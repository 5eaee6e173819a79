"""An httpx transport that connects only to checked addresses.

It resolves a host once, checks every address, and connects to one of them, which defeats DNS rebinding. TLS still
verifies the name of the host, and the Host header has it. No connection is reused: every request is checked.

What goes through the proxy of the settings is checked as far as that can be done here: the proxy resolves the name.
"""

import asyncio
import contextlib
import functools
import os
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import httpcore
import httpx

from launchbay import limits
from launchbay.egress.addresses import Allowlist, literal_addresses, validate_address
from launchbay.egress.proxy import OutgoingProxy


class Resolver(Protocol):
    """Finds the addresses of a host. Tests replace it."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return addresses as strings, best first. Raises OSError if the name has none."""


# Behind a proxy, often no name resolves, and each takes its thread until the resolver gives up.
_names = ThreadPoolExecutor(limits.EGRESS_NAMES, thread_name_prefix="names")


class SystemResolver:
    """The system's resolver. It accepts every spelling that the kernel does, such as `0x7f.1` or `2130706433`."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        lookup = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(_names, lookup)
        return tuple(dict.fromkeys(str(sockaddr[0]) for _family, _type, _protocol, _name, sockaddr in found))


_PROXY_SIGN_IN = 407
_DEFAULT_PORTS = {"http": 80, "https": 443}

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


@dataclass(frozen=True, slots=True)
class Route:
    """How to reach a host: at these checked addresses, or through the proxy."""

    addresses: tuple[str, ...] = ()
    proxy: OutgoingProxy | None = None


async def find_route(
    host: str, port: int, allowlist: Allowlist, resolver: Resolver, proxy: OutgoingProxy | None
) -> Route:
    """Decide whether a connection goes through the proxy, and check its addresses.

    Through the proxy, a name that this machine doesn't resolve in time is left to the proxy. Raises `AddressRefused`,
    and OSError or UnicodeError if a direct name has no address.
    """
    if proxy is not None and proxy.carries(host, port):
        found: Sequence[str] = literal_addresses(host, port)
        if not found:
            with contextlib.suppress(OSError, UnicodeError):  # TimeoutError is an OSError
                async with asyncio.timeout(limits.EGRESS_NAME_S):
                    found = await resolver.resolve(host, port)
        for address in found:
            validate_address(address, host, port, allowlist)
        return Route(proxy=proxy)
    found = await resolver.resolve(host, port)
    return Route(tuple(validate_address(address, host, port, allowlist) for address in found))


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
            route = await find_route(host, port, _allowlist.get() or self._allowlist, self._resolver, None)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} has no address ({error})") from error
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in route.addresses[: limits.EGRESS_ADDRESSES]:
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
        if isinstance(cause, socket.gaierror):  # its numbers aren't those of the system
            return str(cause.strerror)
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error)


class _ProxyBackend(httpcore.AnyIOBackend):
    """Opens connections to the proxy, whose address is the operator's choice."""

    def __init__(self, proxy: OutgoingProxy) -> None:
        super().__init__()
        self._proxy = proxy

    async def connect_tcp(self, *arguments: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        """Connect. Raises `EgressFailed` that names the proxy."""
        try:
            stream = await super().connect_tcp(*arguments, **more)
        except httpcore.ConnectError as error:
            raise self._proxy.unreachable(_reason(error)) from error
        except httpcore.ConnectTimeout as error:
            raise self._proxy.unreachable("it doesn't answer") from error
        return _ProxyStream(stream, self._proxy if self._proxy.scheme == "https" else None)


class _ProxyStream(httpcore.AsyncNetworkStream):
    """A connection to the proxy: TLS with `proxy`, if given, then with the target."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, proxy: OutgoingProxy | None) -> None:
        self._stream = stream
        self._proxy = proxy

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Begin TLS. A certificate has an IPv6 address without the brackets of its URL."""
        name = None if server_hostname is None else server_hostname.strip("[]")
        try:
            stream = await self._stream.start_tls(ssl_context, name, timeout)
        except httpcore.ConnectError as error:
            if self._proxy is None:
                raise
            raise self._proxy.unreachable(str(error)) from error
        return _ProxyStream(stream, None)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class CheckedTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over checked connections, for any `httpx.AsyncClient` that must follow the address rules."""

    def __init__(
        self,
        allowlist: Allowlist,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: OutgoingProxy | None = None,
    ) -> None:
        self._allowlist = allowlist
        self._resolver = resolver or SystemResolver()
        self._proxy = proxy
        context = ssl_context or trusted_ssl_context()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=limits.EGRESS_CONNECTIONS,
            max_keepalive_connections=0,
            network_backend=CheckedBackend(allowlist, self._resolver),
        )
        self._proxied = None if proxy is None else _proxied_pool(proxy, context)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises `AddressRefused`, and what httpx's own transport raises.

        Raises `EgressFailed` if the proxy can't be reached or refuses.
        """
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("The request's body cannot be sent asynchronously.")
        url, host = request.url, request.url.raw_host
        port = url.port or _DEFAULT_PORTS.get(url.scheme, 0)
        proxy, pool = self._proxy, self._pool
        if proxy is None or self._proxied is None or not proxy.carries(url.host, port):
            proxy = None
        else:
            await find_route(url.host, port, _allowlist.get() or self._allowlist, self._resolver, proxy)
            pool = self._proxied
            host = b"[%b]" % host if b":" in host else host  # httpcore tells the proxy what it gets
        inner = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        target = f"{host.decode('ascii')}:{port}"
        try:
            with _as_httpx_exceptions(request):
                answer = await pool.handle_async_request(inner)
        except httpcore.ProxyError as error:
            if proxy is None:
                raise
            raise proxy.refused(target, str(error)) from error
        # In a tunnel, the answer is the server's.
        if proxy is not None and url.scheme == "http" and answer.status == _PROXY_SIGN_IN:
            await answer.aclose()
            raise proxy.refused(target, str(_PROXY_SIGN_IN))
        if not isinstance(answer.stream, AsyncIterable):
            raise TypeError("The answer's body cannot be read asynchronously.")
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_ResponseStream(answer.stream, request), request=request
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
        if self._proxied is not None:
            await self._proxied.aclose()


def _proxied_pool(proxy: OutgoingProxy, ssl_context: ssl.SSLContext) -> httpcore.AsyncHTTPProxy:
    return httpcore.AsyncHTTPProxy(
        proxy.url,
        proxy_auth=(proxy.user.encode(), proxy.password.encode()) if proxy.user else None,
        ssl_context=ssl_context,
        proxy_ssl_context=trusted_ssl_context() if proxy.scheme == "https" else None,
        max_connections=limits.EGRESS_CONNECTIONS,
        max_keepalive_connections=0,
        network_backend=_ProxyBackend(proxy),
    )


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
