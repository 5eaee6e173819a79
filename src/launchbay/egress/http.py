"""The HTTP client of actions, webhooks and manifest sources: checked addresses, bounded bytes, bounded time."""

import asyncio
import base64
import copy
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from launchbay import limits
from launchbay.egress.addresses import NO_POLICIES, Allowlist, literal_addresses, validate_address
from launchbay.egress.proxy import OutgoingProxy
from launchbay.egress.transport import CheckedTransport, Resolver, Route, SystemResolver, find_route, using_allowlist
from launchbay.errors import EgressFailed

_PLAIN = frozenset(("", "identity"))
# The overhead of compressing an incompressible body.
_FRAMING_BYTES = 65_536
_GZIP = frozenset(("gzip", "x-gzip"))


class BoundedBody:
    """Collects at most `max_bytes` decoded bytes. Raises `EgressFailed` for more, for damage or an unknown encoding."""

    def __init__(self, where: str, headers: Mapping[str, str], max_bytes: int) -> None:
        self._where = where
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._encoding = headers.get("content-encoding", "").strip().lower()
        if self._encoding not in _PLAIN | _GZIP | {"deflate"}:
            raise EgressFailed(
                f"{where} sent a response in the unknown encoding {self._encoding[:40]!r}.", retryable=False
            )
        self._inflater: zlib._Decompress | None = None
        self._arrived = 0
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
            raise self._too_long()

    def feed(self, part: bytes) -> None:
        """Add the next bytes, still encoded."""
        self._arrived += len(part)
        if self._arrived > self._max_bytes + _FRAMING_BYTES:
            raise self._too_long()
        if self._encoding in _PLAIN:
            self._append(part)
            return
        try:
            self._inflate(part)
        except zlib.error as error:
            raise EgressFailed(f"{self._where} sent a damaged {self._encoding} body: {error}.") from error

    def finish(self) -> bytes:
        if self._inflater is not None and not self._inflater.eof and self._body:
            raise EgressFailed(f"{self._where} sent an incomplete {self._encoding} body.")
        return bytes(self._body)

    def _inflate(self, part: bytes) -> None:
        while part:
            if self._inflater is None:
                self._inflater = _decoder(self._encoding, part)
            # One byte beyond the limit is enough to detect more.
            self._append(self._inflater.decompress(part, self._max_bytes + 1 - len(self._body)))
            if not self._inflater.eof:
                return
            part = self._inflater.unused_data
            if part:  # gzip can have several members
                self._inflater = None

    def _append(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > self._max_bytes:
            raise self._too_long()

    def _too_long(self) -> EgressFailed:
        return EgressFailed(f"{self._where} sent a response of more than {self._max_bytes} bytes.", retryable=False)


def _decoder(encoding: str, first_part: bytes) -> "zlib._Decompress":
    if encoding in _GZIP:
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    # Some servers send `deflate` without the zlib header.
    with_header = len(first_part) > 0 and first_part[0] & 0x0F == 8 and first_part[0] >> 4 <= 7
    return zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)


_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
# These control the transfer; the client writes them itself.
_RESERVED_HEADERS = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
# Only these follow a redirect to another origin: other headers may contain credentials.
_HEADERS_FOR_ANY_ORIGIN = frozenset(("accept", "accept-language", "content-type", "idempotency-key", "user-agent"))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EgressResponse:
    """A complete response. Header names are lower case; `body` is decoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str  # after redirects; without query and credentials, so it can be shown


class EgressClient:
    """Sends requests to http and https URLs that the rules allow (docs/reference/outgoing.md).

    It keeps no cookies or connections, and ignores proxies and password files of the environment. `proxy` is that of
    the settings.
    """

    def __init__(
        self,
        allowlist: Allowlist | None = None,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: OutgoingProxy | None = None,
    ) -> None:
        self.allowlist = allowlist or Allowlist()
        self.proxy = proxy
        self._resolver = resolver
        self.transport = CheckedTransport(self.allowlist, resolver=resolver, ssl_context=ssl_context, proxy=proxy)

    def for_environment(
        self, organization_id: str, environment_id: str = "", policies: Mapping[str, Any] = NO_POLICIES
    ) -> "EgressClient":
        client = copy.copy(self)
        client.allowlist = self.allowlist.for_environment(organization_id, environment_id, policies)
        return client

    def direct(self) -> "EgressClient":
        """Return the rules for what isn't HTTP and so has no proxy, such as SSH."""
        client = copy.copy(self)
        client.proxy = None
        client.transport = CheckedTransport(self.allowlist, resolver=self._resolver)
        return client

    def with_ssl_context(self, ssl_context: ssl.SSLContext) -> "EgressClient":
        """Return this client with other trusted authorities or a client certificate. Close it after use."""
        client = copy.copy(self)
        client.transport = CheckedTransport(
            self.allowlist, resolver=self._resolver, ssl_context=ssl_context, proxy=self.proxy
        )
        return client

    async def route_of_url(self, url: str) -> Route:
        """Return the way to a URL's host, as `route` does."""
        target = _url(url)
        return await self.route(target.host, target.port or _DEFAULT_PORTS[target.scheme])

    def validate_stored_url(self, url: str) -> None:
        """Check a URL that is stored, as far as that needs no resolver.

        A name may have other addresses by then, so each request checks those. Raises `EgressFailed`, and
        `AddressRefused` if the host is an address that the rules forbid.
        """
        target = _url(url)
        port = _DEFAULT_PORTS[target.scheme] if target.port is None else target.port
        if not 0 < port < 65536:
            raise EgressFailed(f"Port {port} doesn't exist. Use one between 1 and 65535.", retryable=False)
        for address in literal_addresses(target.host, port):
            validate_address(address, target.host, port, self.allowlist)

    def require_private(self, url: str, what: str) -> None:
        """Refuse to send what is secret over plain HTTP.

        The allowlist may name the host for that. `what` begins the sentence, such as "The token". Raises
        `EgressFailed`.
        """
        target = _url(url)
        port = _DEFAULT_PORTS[target.scheme] if target.port is None else target.port
        if target.scheme == "http" and not self.allowlist.allows_plain(target.host, port):
            raise EgressFailed(
                f"{what} would go to {target.host} over plain HTTP, where others can read it.",
                f"Use https://, or let an administrator add http://{target.host} to the setting outgoing_allow.",
                retryable=False,
            )

    async def route(self, host: str, port: int) -> Route:
        """Return the way to a host: at least one allowed address, or the proxy.

        It is for a program that opens the connection itself. Raises `EgressFailed`, and `AddressRefused` if the rules
        forbid one of the host's addresses.
        """
        try:
            found = await find_route(host, port, self.allowlist, self._resolver or SystemResolver(), self.proxy)
        except (OSError, UnicodeError) as error:
            raise EgressFailed(f"Host {host} has no address: {error}.") from error
        if not found.addresses and found.proxy is None:
            raise EgressFailed(f"Host {host} has no address.")
        return found

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = limits.EGRESS_TIMEOUT_S,
        max_bytes: int = limits.EGRESS_BODY_BYTES,
    ) -> EgressResponse:
        """Send a request, follow its redirects, and return the response, regardless of its status.

        `timeout_s` limits the whole exchange, `max_bytes` the decoded body. Credentials in the URL become Basic
        authentication if there is no Authorization header. Raises `EgressFailed`, and `AddressRefused` if the rules
        forbid the target.
        """
        request = _request(method, url, headers or {}, body)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(request, body, max_bytes)
        except TimeoutError:
            raise EgressFailed(f"{redacted_url(request.url)} timed out after {timeout_s:g} s.") from None

    async def aclose(self) -> None:
        await self.transport.aclose()

    async def _follow(self, request: httpx.Request, body: bytes, max_bytes: int) -> EgressResponse:
        first = redacted_url(request.url)
        for _hop in range(limits.EGRESS_REDIRECTS + 1):
            answer = await self._exchange(request, max_bytes)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            request, body = _redirected(request, body, answer.status, location)
        raise EgressFailed(f"{first} redirects more than {limits.EGRESS_REDIRECTS} times.", retryable=False)

    async def _exchange(self, request: httpx.Request, max_bytes: int) -> EgressResponse:
        where = redacted_url(request.url)
        try:
            with using_allowlist(self.allowlist):
                response = await self.transport.handle_async_request(request)
            try:
                reader = BoundedBody(where, response.headers, max_bytes)
                async for part in response.aiter_raw():
                    reader.feed(part)
                return EgressResponse(response.status_code, dict(response.headers), reader.finish(), where)
            finally:
                await response.aclose()
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol) as error:
            raise EgressFailed(f"Can't send the request to {where}: {error}.", retryable=False) from error
        except httpx.TransportError as error:
            way = self._way(request.url)
            raise EgressFailed(f"Can't reach {where}{way}: {_reason(error)}.") from error

    def _way(self, url: httpx.URL) -> str:
        """Return which proxy a request goes through, for a message.

        It may be what fails.
        """
        port = url.port or _DEFAULT_PORTS[url.scheme]
        return "" if self.proxy is None or not self.proxy.carries(url.host, port) else f" through {self.proxy.url}"


def _reason(error: httpx.TransportError) -> str:
    """Return what happened, as a phrase. A handshake that the peer ends has no text."""
    if text := str(error).rstrip("."):
        return text
    return type(error).__name__ if isinstance(error, httpx.TimeoutException) else "the connection was closed"


def redacted_url(url: httpx.URL) -> str:
    """Return the URL without credentials, query and fragment, which may contain secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def basic_authorization(username: str, password: str) -> str:
    """Return the Authorization header of Basic authentication, in UTF-8 (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _request(method: str, url: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
    if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise EgressFailed(f"Unsupported HTTP method {method[:40]!r}.", retryable=False)
    target = _url(url)
    checked = httpx.Headers({"accept": "*/*", "user-agent": "launchbay"})
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise EgressFailed(f"Header {name[:80]!r} contains invalid characters.", retryable=False)
        if name.lower() in _RESERVED_HEADERS:
            raise EgressFailed(f"Can't set header {name!r}, which the server sets itself. Remove it.", retryable=False)
        checked.update({name.encode(): value.strip().encode()})
    if target.userinfo and "authorization" not in checked:
        checked["authorization"] = basic_authorization(target.username, target.password)
    return _built(method, target, checked, body)


def _built(method: str, url: httpx.URL, headers: httpx.Headers, body: bytes) -> httpx.Request:
    sent = httpx.Headers(headers)
    sent["accept-encoding"] = "gzip, deflate"  # the encodings that BoundedBody undoes
    sent["connection"] = "close"
    content = body if body or method in ("POST", "PUT", "PATCH") else None
    return httpx.Request(
        method,
        url.copy_with(userinfo=b"", fragment=None),
        headers=sent,
        content=content,
        # `request` limits the whole exchange; only connecting to one address has its own timeout.
        extensions={"timeout": {"connect": limits.EGRESS_CONNECT_S}},
    )


def _url(text: str) -> httpx.URL:
    """Read a URL. Raises `EgressFailed` without the URL, which may contain a password."""
    if len(text) > limits.EGRESS_URL_CHARS:
        raise EgressFailed(f"The URL is longer than {limits.EGRESS_URL_CHARS} characters.", retryable=False)
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError):
        raise EgressFailed("Invalid URL. Expected: https://host:port/path", retryable=False) from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        raise EgressFailed("The URL must start with http:// or https:// and name a host.", retryable=False)
    return url


def _redirected(request: httpx.Request, body: bytes, status: int, location: str) -> tuple[httpx.Request, bytes]:
    """Return the request for the target of a redirect, without headers that must not go there."""
    where = redacted_url(request.url)
    try:
        target = _url(str(request.url.join(location)))
    except (EgressFailed, httpx.InvalidURL, ValueError) as error:
        raise EgressFailed(f"{where} redirects to an invalid location: {error}", retryable=False) from error
    method, headers = request.method, httpx.Headers(request.headers)
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", b""
        headers.pop("content-type", None)
    headers.pop("host", None)
    headers.pop("content-length", None)
    if not _keeps_credentials(request.url, target):
        if body:
            raise EgressFailed(
                f"{where} redirects the request and its body to another origin, {redacted_url(target)}.",
                "Send the request there directly if that origin can have the body.",
                retryable=False,
            )
        for name in [name for name in headers if name not in _HEADERS_FOR_ANY_ORIGIN]:
            headers.pop(name)
    return _built(method, target, headers, body), body


def _keeps_credentials(old: httpx.URL, new: httpx.URL) -> bool:
    """Return whether the target is the same origin, or the same host upgraded from http to https."""
    old_port, new_port = (url.port or _DEFAULT_PORTS[url.scheme] for url in (old, new))
    if (old.scheme, old.host, old_port) == (new.scheme, new.host, new_port):
        return True
    return old.host == new.host and (old.scheme, old_port, new.scheme, new_port) == ("http", 80, "https", 443)
