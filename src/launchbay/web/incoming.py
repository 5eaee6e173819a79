"""The body of a request as it comes in: read up to a bound, or thrown away."""

from collections.abc import Mapping

from launchbay.errors import TooLarge
from launchbay.limits import KIB, LEFTOVER_BYTES
from launchbay.web.asgi import Receive


class ClientGone(Exception):
    """The client closed the connection before its exchange was complete. Nobody is there to be answered; no error."""


class IncomingBody:
    """Reads the body once; what is left of it can be discarded."""

    __slots__ = ("_complete", "_headers", "_receive")

    def __init__(self, headers: Mapping[str, str], receive: Receive) -> None:
        self._headers = headers
        self._receive = receive
        self._complete = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers

    async def read(self, bytes_max: int) -> bytes:
        """Return the whole body. Raises TooLarge, by the announced length before a byte is read, and ClientGone."""
        announced = self._headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > bytes_max:
            raise _too_large(bytes_max)
        parts: list[bytes] = []
        size = 0
        while not self._complete:
            parts.append(await self._next())
            size += len(parts[-1])
            if size > bytes_max:
                raise _too_large(bytes_max)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> None:
        """Throw the rest away before an answer is sent.

        A connection that is closed over unread bytes is reset, and the client loses the answer. A client that waits
        to be told to send its body is not told so, and beyond a bound no client is indulged. Raises ClientGone.
        """
        if self._complete or "expect" in self._headers:
            return
        size = 0
        while not self._complete and size < LEFTOVER_BYTES:
            size += len(await self._next())

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._complete = not message.get("more_body", False)
        data: bytes = message.get("body", b"")
        return data


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"The body is larger than {bytes_max // KIB} KiB; send less at once.")
