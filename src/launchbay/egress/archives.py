"""Downloads archives (tar.gz) that a manifest names, and unpacks them within limits."""

import asyncio
import io
import tarfile
import zlib
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
    left, count = limits.ARCHIVE_UNPACKED_BYTES, 0
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source:
            for member in source:
                count, left = count + 1, left - member.size
                if left < 0 or count > limits.ARCHIVE_FILES:
                    raise ValueError(
                        f"it unpacks to more than {limits.ARCHIVE_UNPACKED_BYTES // limits.MIB} MiB or"
                        f" {limits.ARCHIVE_FILES} files"
                    )
                if not (member.isfile() or member.isdir()):
                    raise ValueError(f"{member.name[:80]!r} isn't a file or directory")
                source.extract(member, directory, filter="data")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not a valid tar.gz ({error})") from error
    entries = list(directory.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else directory
