"""Archives that manifests name."""

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from launchbay.egress.archives import download_and_unpack, unpack
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.limits import MIB
from launchbay.machines.chef import repacked
from tests.support.contexts import LOOPBACK
from tests.support.network import answer, loopback_server, packed


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


async def test_an_archive_is_fetched_and_unpacked_below_its_one_top_directory(tmp_path: Path) -> None:
    async with loopback_server() as server:
        server.routes["/p.tgz"] = answer(body=packed({"project-1.2/site.yml": b"x", "project-1.2/roles/a": b"y"}))

        top = await download_and_unpack(EgressClient(LOOPBACK), server.url("/p.tgz"), tmp_path / "a")

    assert top == tmp_path / "a" / "project-1.2"
    assert (top / "site.yml").read_bytes() == b"x"


@pytest.mark.parametrize(
    "member",
    [
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard", tarfile.LNKTYPE, "../x"),
        special("pipe", tarfile.FIFOTYPE),
        special("device", tarfile.CHRTYPE),
    ],
    ids=lambda member: str(member.name),
)
def test_links_and_devices_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    with pytest.raises(ValueError, match="isn't a file or directory"):
        unpack(packed({"m": member}), tmp_path / "a")


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/../out"])
def test_nothing_climbs_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"outside|absolute"):
        unpack(packed({name: b"x"}), tmp_path / "a")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("limit", "most"), [("ARCHIVE_FILES", 2), ("ARCHIVE_UNPACKED_BYTES", 250)])
def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(f"launchbay.limits.{limit}", most)

    with pytest.raises(ValueError, match="unpacks to more"):
        unpack(packed({f"f{number}": b"x" * 100 for number in range(3)}), tmp_path / "a")


def bomb(kind: bytes, size: int) -> bytes:
    """Return an archive with a header of this kind and size, all zeros, which compress to a thousandth."""
    written = io.BytesIO()
    with gzip.open(written, "wb", compresslevel=1) as target:
        for entry in (special("header", kind), tarfile.TarInfo("file")):
            entry.size = size if entry.type == kind else 0
            target.write(entry.tobuf(tarfile.GNU_FORMAT))
            for _ in range(entry.size // MIB):
                target.write(bytes(MIB))
    return written.getvalue()


def global_headers(count: int) -> bytes:
    """Return an archive of global headers, which later members get too."""
    written = io.BytesIO()
    with gzip.open(written, "wb", compresslevel=1) as target:
        for number in range(count):
            records = b"".join(b"16 k%03d_%04d=v\n" % (number, key) for key in range(2_000))
            entry = special("header", tarfile.XGLTYPE)
            entry.size = len(records)
            target.write(entry.tobuf(tarfile.GNU_FORMAT))
            target.write(records + bytes(-len(records) % 512))
        target.write(tarfile.TarInfo("file").tobuf(tarfile.GNU_FORMAT))
        target.write(bytes(10_240))
    return written.getvalue()


def memory_bytes(call: Callable[[], object], match: str) -> int:
    """Return the most memory that a call took until it was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


HEADERS = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]


@pytest.mark.parametrize("kind", HEADERS, ids=["PAX", "global PAX", "long name", "long link"])
def test_a_header_that_unpacks_to_gigabytes_takes_no_memory(tmp_path: Path, kind: bytes) -> None:
    archive = bomb(kind, 64 * MIB)
    assert len(archive) < MIB // 2

    for call in (lambda: unpack(archive, tmp_path / "a"), lambda: repacked(archive, "web")):
        assert memory_bytes(call, "headers of a file are larger") < 4 * MIB


def test_many_small_headers_of_one_file_take_no_memory(tmp_path: Path) -> None:
    archive = global_headers(200)

    for call in (lambda: unpack(archive, tmp_path / "a"), lambda: repacked(archive, "web")):
        assert memory_bytes(call, "headers of a file are larger") < 4 * MIB


def test_content_that_is_passed_over_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.limits.ARCHIVE_UNPACKED_BYTES", MIB)
    archive = bomb(tarfile.DIRTYPE, 64 * MIB)

    assert memory_bytes(lambda: unpack(archive, tmp_path / "a"), "unpacks to more") < 4 * MIB


def test_long_names_and_ordinary_headers_still_unpack(tmp_path: Path) -> None:
    written = io.BytesIO()
    name = "/".join(["d" * 100] * 10)
    with tarfile.open(fileobj=written, mode="w:gz", format=tarfile.PAX_FORMAT) as target:
        for number in range(3):
            member = tarfile.TarInfo(f"top/{name}/{number}")
            member.size, member.mtime = 1_024, 1.5
            target.addfile(member, io.BytesIO(b"x" * 1_024))

    top = unpack(written.getvalue(), tmp_path / "a")

    assert [file.stat().st_size for file in sorted((top / name).iterdir())] == [1_024] * 3


@pytest.mark.parametrize("body", [b"", b"not a tar", packed({"a": b"x" * 5000})[:-40]], ids=["empty", "text", "cut"])
async def test_what_is_no_archive_fails_for_good(tmp_path: Path, body: bytes) -> None:
    async with loopback_server() as server:
        server.routes["/p.tgz"] = answer(body=body)

        with pytest.raises(ActionFailed, match=r"not a valid tar\.gz") as caught:
            await download_and_unpack(EgressClient(LOOPBACK), server.url("/p.tgz?token=abc"), tmp_path / "a")

    assert not caught.value.retryable
    assert "token" not in str(caught.value)


async def test_an_address_that_the_rules_forbid_is_not_asked(tmp_path: Path) -> None:
    async with loopback_server() as server:
        with pytest.raises(ActionFailed):
            await download_and_unpack(EgressClient(), server.url("/p.tgz"), tmp_path / "a")

        assert server.received == []
