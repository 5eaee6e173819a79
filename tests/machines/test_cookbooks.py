"""What is taken out of an archive of cookbooks, and what is refused."""

import contextlib
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.machines.chef import repacked
from tests.support.machines import archive


def names(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as source:
        return source.getnames()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = target
    return entry


@pytest.mark.parametrize(
    ("files", "paths"),
    [
        (["cookbooks/web/recipes/default.rb", "cookbooks/web/metadata.rb"], ("cookbooks",)),
        (["web/recipes/default.rb", "db/metadata.json"], ("",)),
        (["repo-1.2/cookbooks/web/metadata.rb", "repo-1.2/roles/x.json"], ("repo-1.2/cookbooks",)),
        (["a/web/metadata.rb", "b/db/metadata.rb"], ("a", "b")),
        (["c/web/metadata.rb", "c/web/files/other/metadata.rb"], ("c",)),
    ],
)
def test_the_directories_of_cookbooks_are_found(files: list[str], paths: tuple[str, ...]) -> None:
    assert repacked(archive(*((name, b"x") for name in files)), "web").cookbook_paths == paths


def test_roles_and_data_bags_beside_the_cookbooks_are_found() -> None:
    found = repacked(
        archive(("r/cookbooks/w/metadata.rb", b""), ("r/roles/a.rb", b""), ("r/data_bags/b/c.json", b"")), ""
    )
    assert (found.role_paths, found.data_bag_paths) == (("r/roles",), ("r/data_bags",))


def test_an_archive_of_one_cookbook_is_put_where_a_cookbook_belongs() -> None:
    found = repacked(archive(("metadata.rb", b"name 'x'"), ("recipes/default.rb", b"")), "web")
    assert names(found.archive) == ["cookbooks/web/metadata.rb", "cookbooks/web/recipes/default.rb"]
    assert found.cookbook_paths == ("cookbooks",)


@pytest.mark.parametrize(
    "member",
    [
        ("../../etc/passwd", b"x"),
        ("/etc/passwd", b"x"),
        ("web/../../up", b"x"),
        special("web/link", tarfile.SYMTYPE, "/etc/passwd"),
        special("web/hard", tarfile.LNKTYPE, "web/metadata.rb"),
        special("web/device", tarfile.BLKTYPE),
        special("web/fifo", tarfile.FIFOTYPE),
    ],
    ids=["up", "absolute", "up from inside", "link", "hard link", "device", "fifo"],
)
def test_what_leads_out_of_the_archive_is_refused(member: tuple[str, bytes] | tarfile.TarInfo) -> None:
    with pytest.raises(ValueError, match=r"leads out of the archive|isn't a plain file"):
        repacked(archive(("web/metadata.rb", b""), member), "web")


def test_bombs_and_crowds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COOKBOOKS_BYTES", 1_000_000)
    with pytest.raises(ValueError, match="unpacks to more than"):
        repacked(archive(("web/metadata.rb", b""), ("web/zeros", bytes(2_000_000))), "web")
    monkeypatch.setattr(limits, "COOKBOOKS_FILES", 3)
    with pytest.raises(ValueError, match="or 3 files"):
        repacked(archive(*((f"web/{number}", b"") for number in range(5))), "web")


@pytest.mark.parametrize(
    "data", [b"", b"not gzip", archive(("web/metadata.rb", b"x" * 5000))[:-30]], ids=["empty", "text", "cut"]
)
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"isn't a valid tar\.gz"):
        repacked(data, "web")


def test_an_archive_without_a_cookbook_is_refused() -> None:
    with pytest.raises(ValueError, match="contains no cookbook"):
        repacked(archive(("readme", b"x")), "web")


@given(st.binary(max_size=400), st.integers(0, 200))
def test_damaged_archives_raise_nothing_else(noise: bytes, place: int) -> None:
    whole = archive(("web/metadata.rb", b"x" * 300), ("web/recipes/default.rb", b"y"))
    damaged = whole[:place] + noise + whole[place + len(noise) :]
    with contextlib.suppress(ValueError):
        assert all(not name.startswith(("/", "..")) for name in names(repacked(damaged, "web").archive))
