"""The body of an answer, decoded as it arrives and never beyond its bound: a gzip bomb costs no memory."""

import zlib
from collections.abc import Mapping

from launchbay.errors import OutgoingFailed

_PLAIN = frozenset(("", "identity"))
# What a compressed body that cannot be compressed may be longer than its contents.
_FRAMING_BYTES = 65_536
_GZIP = frozenset(("gzip", "x-gzip"))


class BoundedBody:
    """Collects at most `max_bytes` decoded bytes.

    Raises `OutgoingFailed` for more, for damage, and for an encoding that it cannot undo.
    """

    def __init__(self, where: str, headers: Mapping[str, str], max_bytes: int) -> None:
        self._where = where
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._encoding = headers.get("content-encoding", "").strip().lower()
        if self._encoding not in _PLAIN | _GZIP | {"deflate"}:
            raise OutgoingFailed(f"{where} answered in the unknown encoding {self._encoding[:40]!r}.", retryable=False)
        self._inflater: zlib._Decompress | None = None
        self._arrived = 0
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
            raise self._too_long()

    def feed(self, part: bytes) -> None:
        """Take the next bytes as they came over the wire."""
        self._arrived += len(part)
        if self._arrived > self._max_bytes + _FRAMING_BYTES:
            raise self._too_long()
        if self._encoding in _PLAIN:
            self._append(part)
            return
        try:
            self._inflate(part)
        except zlib.error as error:
            raise OutgoingFailed(f"{self._where} answered with a damaged {self._encoding} body: {error}.") from error

    def finish(self) -> bytes:
        """Return the whole body."""
        if self._inflater is not None and not self._inflater.eof and self._body:
            raise OutgoingFailed(f"{self._where} answered with a {self._encoding} body that ends too early.")
        return bytes(self._body)

    def _inflate(self, part: bytes) -> None:
        while part:
            if self._inflater is None:
                self._inflater = _gzip_decoder() if self._encoding in _GZIP else _deflate_decoder(part)
            # One byte more than may come: enough to know that there is more.
            self._append(self._inflater.decompress(part, self._max_bytes + 1 - len(self._body)))
            if not self._inflater.eof:
                return
            part = self._inflater.unused_data
            if part:  # gzip may hold several members, one after the other
                self._inflater = None

    def _append(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > self._max_bytes:
            raise self._too_long()

    def _too_long(self) -> OutgoingFailed:
        return OutgoingFailed(f"{self._where} answered with more than {self._max_bytes} bytes.", retryable=False)


def _gzip_decoder() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _deflate_decoder(first_part: bytes) -> "zlib._Decompress":
    """Return a decoder for `deflate`, which some servers send with a zlib header, as they should, and some without."""
    with_header = len(first_part) > 0 and first_part[0] & 0x0F == 8 and first_part[0] >> 4 <= 7
    return zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
