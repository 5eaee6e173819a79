"""Archives of cookbooks: fetched from where a manifest says, judged, and packed anew with nothing in them but files.

What a machine unpacks is written here, from members that were checked: no absolute or climbing paths, no links or
devices, no more files and bytes than may be. So no trick of a foreign archive reaches the program that unpacks it.
"""

import asyncio
import io
import posixpath
import tarfile
import zlib
from dataclasses import dataclass

from launchbay import limits
from launchbay.egress.http import OutgoingHttp
from launchbay.errors import ActionFailed, AddressRefused, OutgoingFailed

COOKBOOKS, ROLES, DATA_BAGS = "cookbooks", "roles", "data_bags"
_METADATA = frozenset(("metadata.rb", "metadata.json"))
_RETRYABLE = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class Cookbooks:
    """A checked archive (tar, gzip), and which of its directories hold cookbooks, roles and data bags."""

    archive: bytes
    cookbook_paths: tuple[str, ...]
    role_paths: tuple[str, ...]
    data_bag_paths: tuple[str, ...]


async def fetch_cookbooks(outgoing: OutgoingHttp, url: str, first_cookbook: str) -> Cookbooks:
    """Fetch an archive and check it. `first_cookbook` names what an archive of a single cookbook holds.

    Raises ActionFailed, and AddressRefused for an address that the rules forbid.
    """
    try:
        answer = await outgoing.request(
            "GET", url, timeout_s=limits.COOKBOOKS_FETCH_S, max_bytes=limits.COOKBOOKS_ARCHIVE_BYTES
        )
    except AddressRefused:
        raise
    except OutgoingFailed as error:
        raise ActionFailed(f"The cookbooks cannot be fetched: {error}", retryable=error.retryable) from error
    if answer.status != 200:
        again = answer.status in _RETRYABLE or answer.status >= 500
        raise ActionFailed(f"The cookbooks cannot be fetched: {answer.url} answered {answer.status}.", retryable=again)
    try:
        return await asyncio.to_thread(repacked, answer.body, first_cookbook)
    except ValueError as error:
        raise ActionFailed(f"The archive of {answer.url} is refused: {error}.", retryable=False) from error


def repacked(archive: bytes, first_cookbook: str) -> Cookbooks:
    """Return the archive with what is plain in it. Raises ValueError with what is wrong."""
    written = io.BytesIO()
    names: list[str] = []
    left = limits.COOKBOOKS_BYTES
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
            tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target,
        ):
            is_single = False
            for member in source:
                name = _checked_name(member)
                if name is None:
                    continue
                left -= member.size
                if left < 0 or len(names) >= limits.COOKBOOKS_FILES:
                    raise ValueError(
                        f"it unpacks to more than {limits.COOKBOOKS_BYTES // limits.MIB} MiB or"
                        f" {limits.COOKBOOKS_FILES} files"
                    )
                is_single = is_single or name in _METADATA
                names.append(name)
                _add(source, member, target, name)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"it is no tar.gz that can be read ({error})") from error
    if is_single:
        return _single(written.getvalue(), first_cookbook)
    return _described(written.getvalue(), names)


def _checked_name(member: tarfile.TarInfo) -> str | None:
    """Return where a member goes; None for what makes no file, such as a directory or the header of a generator."""
    if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
        return None
    name = posixpath.normpath(member.name)
    if not member.isfile():
        raise ValueError(f"{member.name[:120]!r} is no plain file; links and devices are not taken")
    if name.startswith("/") or name.split("/")[0] == ".." or "\0" in name or "\n" in name:
        raise ValueError(f"{member.name[:120]!r} leads out of the archive")
    return name


def _add(source: tarfile.TarFile, member: tarfile.TarInfo, target: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = member.size
    entry.mode = 0o755 if member.mode & 0o100 else 0o644
    entry.mtime = member.mtime
    content = source.extractfile(member)
    assert content is not None, "it is a plain file"
    target.addfile(entry, content)


def _single(archive: bytes, name: str) -> Cookbooks:
    """Return an archive whose files are those of one cookbook, moved to where a cookbook belongs."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target,
    ):
        for member in source:
            _add(source, member, target, posixpath.join(COOKBOOKS, name or "cookbook", member.name))
    return Cookbooks(written.getvalue(), (COOKBOOKS,), (), ())


def _described(archive: bytes, names: list[str]) -> Cookbooks:
    """Find the directories: cookbooks have metadata or recipes; those deepest down belong to a cookbook themselves."""
    cookbooks = {posixpath.dirname(name) for name in names if posixpath.basename(name) in _METADATA}
    cookbooks |= {posixpath.dirname(posixpath.dirname(name)) for name in names if _parent(name) == "recipes"}
    paths = {posixpath.dirname(each) for each in cookbooks}
    outer = {path for path in paths if not any(_is_inside(path, other) for other in cookbooks)}
    if not outer:
        raise ValueError("it has no cookbook in it, which is a directory with a metadata.rb or with recipes")
    return Cookbooks(
        archive,
        tuple(sorted(outer)),
        tuple(sorted(_named(names, ROLES, outer))),
        tuple(sorted(_named(names, DATA_BAGS, outer))),
    )


def _parent(name: str) -> str:
    return posixpath.basename(posixpath.dirname(name))


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _named(names: list[str], wanted: str, outer: set[str]) -> set[str]:
    """Return the directories of this name that stand beside the cookbooks."""
    beside = {posixpath.join(posixpath.dirname(path), wanted) for path in outer} | {
        posixpath.join(path, wanted) for path in outer
    }
    return {place for place in beside if any(name.startswith(f"{place}/") for name in names)}
