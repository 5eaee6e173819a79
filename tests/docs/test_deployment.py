"""The files in deploy/ name commands, options and settings that exist."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from launchbay.cli.main import main
from launchbay.settings import Settings

FILES = sorted(path for path in Path("deploy").rglob("*") if path.is_file())
UNITS = sorted(Path("deploy/systemd").glob("*.service"))
SETTINGS = {f"LAUNCHBAY_{name.upper()}" for name in Settings.__dataclass_fields__}


def options(command: str) -> str:
    run = CliRunner().invoke(main, [command, "--help"])
    assert run.exit_code == 0, run.output
    return run.output


def check(arguments: list[str]) -> None:
    """Check a command line of the product."""
    command, *rest = arguments
    known = options(command)
    for argument in rest:
        if argument.startswith("--"):
            assert argument in known, (command, argument)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_settings_in_the_files_exist(path: Path) -> None:
    named = set(re.findall(r"LAUNCHBAY_[A-Z_]+", path.read_text("utf-8")))
    assert named <= SETTINGS


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_start_commands_that_exist(path: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", path.read_text("utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert program.endswith("/bin/launchbay")
    check(arguments)


def test_the_composition_runs_commands_that_exist() -> None:
    services = yaml.safe_load(Path("deploy/container/compose.yaml").read_text("utf-8"))["services"]
    assert set(services) == {"database", "server", "worker"}
    for name in ("server", "worker"):
        check(services[name]["command"])
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]


def test_the_image_copies_files_that_exist() -> None:
    text = Path("deploy/container/Containerfile").read_text("utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert copied
    assert [name for name in copied if not Path(name).exists()] == []
    sent = {line[1:] for line in Path(".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert set(copied) == sent
