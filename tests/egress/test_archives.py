"""Archives that manifests name."""

import tarfile
from pathlib import Path

import pytest

from launchbay.egress.archives import download_and_unpack, unpack
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
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
