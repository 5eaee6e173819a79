"""HTTP for cloud drivers over connections to checked addresses, with bounds. It is loaded with the drivers, late.

Drivers are built on requests and resolve names by themselves. Here the addresses of the endpoint were checked before;
these and no others are dialled, so a name server that answers otherwise the second time gains nothing. TLS still
verifies the name. No redirect is followed, no proxy and no `.netrc` of this machine is used.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util.connection import create_connection

from launchbay import limits


class AnswerTooLong(requests.exceptions.RequestException):
    """An answer has more bytes, or takes longer, than it may."""


class CheckedAdapter(HTTPAdapter):
    """Dials these addresses, whatever the name in the URL resolves to; it is for one host."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        super().__init__(max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **more: Any) -> None:  # noqa: FBT001, FBT002 - requests' own signature
        """Make the pools whose connections are dialled here."""
        super().init_poolmanager(connections, maxsize, block, **more)
        self.poolmanager.pool_classes_by_scheme = _pools(self._addresses)

    def send(self, request: requests.PreparedRequest, *arguments: Any, **more: Any) -> requests.Response:
        """Send a request; its answer is bounded in bytes and time. Raises requests' exceptions."""
        answer = super().send(request, *arguments, **more)
        answer.raw = _Bounded(answer.raw, time.monotonic() + limits.CLOUD_CALL_S)
        return answer


class _Bounded:
    """The raw answer, up to its bounds."""

    def __init__(self, raw: Any, deadline_s: float) -> None:
        self._raw = raw
        self._deadline_s = deadline_s

    def stream(self, amount: int, *, decode_content: bool = True) -> Iterator[bytes]:
        """Return the parts of the body as they come."""
        size = 0
        for part in self._raw.stream(amount, decode_content=decode_content):
            size += len(part)
            if size > limits.CLOUD_ANSWER_BYTES:
                raise AnswerTooLong(f"the answer has more than {limits.CLOUD_ANSWER_BYTES} bytes")
            if time.monotonic() > self._deadline_s:
                raise AnswerTooLong(f"the answer takes more than {limits.CLOUD_CALL_S:g} s")
            yield part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _pools(addresses: tuple[str, ...]) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of connection pools that a pool manager is to use."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _dialled(self, addresses)

    class Tls(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _dialled(self, addresses)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = Tls

    return {"http": PlainPool, "https": TlsPool}


def _dialled(connection: HTTPConnection, addresses: tuple[str, ...]) -> socket.socket:
    problem: Exception | None = None
    for address in addresses:
        try:
            return create_connection(
                (address, connection.port), limits.OUTGOING_CONNECT_S, socket_options=connection.socket_options
            )
        except OSError as error:
            problem = error
    raise NewConnectionError(connection, f"no connection to {connection.host}: {problem}")
