"""Downloads archives (tar.gz) that a manifest names, and unpacks them within limits."""

import asyncio
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx

from launchbay import limits
from launchbay.egress.http import EgressClient, redacted_url
from launchbay.errors import ActionFailed, EgressFailed


async def download(egress: EgressClient, url: str) -> bytes:
    """Return the content of a URL. Raises ActionFailed."""
    try:
        answer = await egress.request("GET", url, timeout_s=limits.ARCHIVE_FETCH_S, max_bytes=limits.ARCHIVE_BYTES)
    except EgressFailed as error:
        raise ActionFailed(*error.messages, retryable=error.retryable) from error
    if answer.status != 200:
        raise ActionFailed(
            f"{answer.url} returned status {answer.status}, expected 200.", retryable=answer.status >= 500
        )
    return answer.body


async def download_and_unpack(egress: EgressClient, url: str, directory: Path) -> Path:
    """Download and unpack an archive; return its only top-level directory, or `directory`. Raises ActionFailed."""
    archive = await download(egress, url)
    try:
        return await asyncio.to_thread(unpack, archive, directory)
    except ValueError as error:
        where = redacted_url(httpx.URL(url))
        raise ActionFailed(f"Invalid archive {where}: {error}.", retryable=False) from error


def unpack(archive: bytes, directory: Path) -> Path:
    """Unpack files and directories, nothing else; return the directory as `download_and_unpack` does.

    Raises ValueError for an archive that is damaged, too large, or contains anything else.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        for source, member in read_members(archive, limits.ARCHIVE_UNPACKED_BYTES, limits.ARCHIVE_FILES):
            if not (member.isfile() or member.isdir()):
                raise ValueError(f"{member.name[:80]!r} isn't a file or directory")
            source.extract(member, directory, filter="data")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not a valid tar.gz ({error})") from error
    entries = list(directory.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else directory


def read_members(archive: bytes, bytes_max: int, files_max: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each member of a tar.gz, with the archive that extracts it.

    A few bytes can unpack to gigabytes, of headers too: the limits hold while the archive is read. Raises ValueError
    for one that is too large, and what `tarfile` raises for one that is damaged.
    """
    reader = _BoundedReader(archive, bytes_max + files_max * _MEMBER_BYTES)
    too_large = f"it unpacks to more than {bytes_max // limits.MIB} MiB or {files_max} files"
    left, count = bytes_max, 0
    try:
        with tarfile.open(fileobj=reader, mode="r:") as source:
            while (member := source.next()) is not None:
                source.members.clear()  # type: ignore[attr-defined] # it keeps all of them, each with its headers
                count, left = count + 1, left - member.size
                if left < 0 or count > files_max:
                    raise ValueError(too_large)
                reader.header_left = None
                yield source, member
                reader.header_left = limits.ARCHIVE_HEADER_BYTES
    except _TooLarge as error:
        raise ValueError(str(error) or too_large) from None


_MEMBER_BYTES = 4 * limits.KIB  # beyond its content: usual headers, and the rest of the last block


class _TooLarge(Exception):
    """What an archive has too much of, "" for all of it."""


class _BoundedReader(io.BufferedIOBase):
    """The decompressed bytes of an archive, forwards only, up to a limit.

    `header_left` is what may still be read of the headers of a member; None while its content is read.
    """

    def __init__(self, archive: bytes, bytes_max: int) -> None:
        self._source = gzip.GzipFile(fileobj=io.BytesIO(archive))
        self._left = bytes_max
        self.header_left: int | None = limits.ARCHIVE_HEADER_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes.

        `tarfile` asks for a whole header at once, whatever size the archive states.
        """
        assert size is not None, "a TarFile reads so many bytes"
        if self.header_left is not None:
            if size > self.header_left:
                raise _TooLarge(
                    f"the headers of a file are larger than {limits.ARCHIVE_HEADER_BYTES // limits.KIB} KiB"
                )
            self.header_left -= size
        data = self._source.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise _TooLarge
        return data

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Pass over bytes. Raises OSError for a way back, which would decompress everything again."""
        assert whence == io.SEEK_SET, "a TarFile moves to a place"
        distance = position - self._source.tell()
        if distance < 0:
            raise OSError("its parts overlap")
        if distance > self._left:
            raise _TooLarge
        self._left -= distance
        return self._source.seek(position)

    def tell(self) -> int:
        return self._source.tell()
