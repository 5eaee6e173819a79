"""The package as it is installed: what runs is in it, whoever builds it gets the same bytes (`make wheel`)."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.servers import place

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
_NOT_SHIPPED = {"decisions", "evidence"}  # of the documentation


def built(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(directory), "."], check=True, cwd=ROOT, timeout=100)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_everything_that_runs_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (path for path in (SOURCE / "launchbay").rglob("*") if path.is_file() and path.suffix != ".pyc")
    pages = {name for name in inside if name.startswith("launchbay/docs/")}
    assert inside - pages == {path.relative_to(SOURCE).as_posix() for path in files}
    assert pages == {
        "launchbay/docs/zensical.toml",
        *(
            f"launchbay/docs/{path.relative_to(ROOT / 'docs').as_posix()}"
            for path in (ROOT / "docs").rglob("*")
            if path.suffix in {".md", ".svg"} and not _NOT_SHIPPED & set(path.relative_to(ROOT / "docs").parts)
        ),
    }
    for needed in ("console/static/built/", "console/templates/", "store/migrations/", "py.typed"):
        assert any(name.startswith(f"launchbay/{needed}") for name in inside), needed


@pytest.mark.slow
def test_the_same_sources_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = built(tmp_path)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


BIN = Path(sys.executable).parent
_NO_REGISTRY = re.compile(
    r"dns error|Failed to fetch|client error|Temporary failure in name resolution|NewConnectionError"
)


def run(*command: str | Path, settings: dict[str, str] | None = None) -> str:
    """Run a program that must succeed, and return what it printed. Skips the test where there is no registry."""
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith(("LAUNCHBAY_", "PIP_CONSTRAINT"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**inherited, **(settings or {})},
    )
    if done.returncode != 0 and _NO_REGISTRY.search(done.stdout + done.stderr):
        pytest.skip("Python's package registry is not to be had")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def directory() -> Iterator[Path]:
    with place() as parent:
        yield parent


def check_demo(directory: Path, *launchbay: str | Path, settings: dict[str, str] | None = None) -> str:
    """Start the demo, look whether its server answers, stop it, and return what it printed."""
    where = ("--data-dir", directory / "demo")
    printed = run(*launchbay, "demo", *where, "--port", "0", settings=settings)
    try:
        [url] = re.findall(r"in the background at (\S+)", printed)
        assert httpx.get(f"{url}/health/ready", trust_env=False).json() == {"status": "ready"}
    finally:
        assert "Stopped the demo." in run(*launchbay, "demo", *where, "--stop", settings=settings)
    return printed


@pytest.mark.slow
@pytest.mark.packages
@pytest.mark.timeout(900)
def test_uvx_starts_the_demo_from_the_wheel_and_needs_no_network_again(wheel: Path, directory: Path) -> None:
    settings = {"UV_CONSTRAINT": str(ROOT / "requirements" / "runtime.txt"), "UV_PYTHON": sys.executable}
    command = (BIN / "uvx", "--from", wheel, "launchbay")
    assert run(*command, "--version", settings=settings).startswith("launchbay, version ")
    printed = check_demo(directory, *command, settings={**settings, "UV_OFFLINE": "1"})
    # Its user has no `launchbay` on the PATH: the commands to try next have the path of the program.
    [program] = set(re.findall(r"^(\S+) logs 'Shop 1' -f$", printed, re.MULTILINE))
    assert Path(program).is_absolute()
    assert "version" in run(program, "--version")


@pytest.mark.slow
@pytest.mark.packages
@pytest.mark.timeout(900)
def test_pipx_installs_the_wheel(wheel: Path, directory: Path) -> None:
    settings = {"PIPX_HOME": str(directory / "pipx"), "PIPX_BIN_DIR": str(directory / "bin")}
    settings |= {"PIPX_MAN_DIR": str(directory / "man"), "PIPX_DEFAULT_PYTHON": sys.executable}
    run(BIN / "pipx", "install", wheel, settings=settings)
    program = directory / "bin" / "launchbay"
    found = json.loads(
        subprocess.run(
            [program, "doctor", "--json", "--port", "0", "--data-dir", directory / "data"],
            check=False,
            capture_output=True,
            timeout=60,
        ).stdout
    )["findings"]
    assert [each for each in found if each["check"] == "postgresql" and each["level"] == "ok"]
    check_demo(directory, program)
    run(BIN / "pipx", "uninstall", "launchbay", settings=settings)
    assert not program.exists()
    assert shutil.which("launchbay", path=str(directory / "bin")) is None
