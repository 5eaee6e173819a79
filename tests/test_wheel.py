"""The package as it is installed: what runs is in it, whoever builds it gets the same bytes (`make wheel`)."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def built(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(directory), "."], check=True, cwd=ROOT, timeout=100)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_everything_that_runs_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (path for path in (SOURCE / "launchbay").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert inside == {path.relative_to(SOURCE).as_posix() for path in files}
    for needed in ("console/static/built/", "console/templates/", "store/migrations/", "py.typed"):
        assert any(name.startswith(f"launchbay/{needed}") for name in inside), needed


@pytest.mark.slow
def test_the_same_sources_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = built(tmp_path)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()
