"""The files in deploy/ name commands, options and settings that exist, and do what they say."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import yaml
from click.testing import CliRunner

from launchbay import __version__
from launchbay.cli.main import main
from launchbay.settings import Settings

FILES = sorted(path for path in Path("deploy").rglob("*") if path.is_file())
UNITS = sorted(Path("deploy/systemd").glob("launchbay*.service"))
ADMIN = Path("deploy/systemd/launchbay-admin")
PROGRAM = "/opt/launchbay/.venv/bin/launchbay"
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
    words = shlex.split(line)
    program, *arguments = shlex.split(words[2].removeprefix("exec ")) if words[:2] == ["/bin/sh", "-c"] else words
    assert program == PROGRAM
    check(arguments)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    copies = []
    for unit in [*UNITS, *Path("deploy/systemd").glob("*.timer")]:
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(unit.read_text("utf-8").replace(PROGRAM, sys.executable), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", *copies], capture_output=True, text=True, check=False, timeout=60
    )
    # It also reads the machine's own units, and warns of theirs.
    about_ours = [line for line in done.stderr.splitlines() if "launchbay" in line]
    assert (done.returncode, about_ours) == (0, [])
    assert len(copies) == 4


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_page_has_the_exposure_of_the_units(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", unit], capture_output=True, text=True, check=True, timeout=60
    )
    found = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
    told = re.search(r"gives the units an exposure of ([0-9.]+)", Path("docs/howto/harden.md").read_text("utf-8"))
    assert found is not None
    assert told is not None
    assert float(found[1]) <= float(told[1])


def test_actions_and_images_of_others_have_a_version() -> None:
    files = [*Path("integrations").rglob("*.yml"), *Path("docs/howto").glob("*.md"), *Path("deploy").rglob("*")]
    text = "\n".join(path.read_text("utf-8") for path in files if path.is_file())
    actions = re.findall(r"uses: (\S+)", text)
    assert len(actions) >= 4
    assert [each for each in actions if not re.fullmatch(r"[\w/.-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", each)] == []
    images = re.findall(r"(?<![\w-])(?:docker\.io/library/)?(?:python|postgres)[:@][\w.:-]+", text)
    assert len(images) >= 4
    assert [each for each in images if not re.search(r":\d+|@sha256:", each)] == []


def test_what_the_integrations_install_has_a_version() -> None:
    action = yaml.safe_load(Path("integrations/github-action/action.yml").read_text("utf-8"))
    component = next(yaml.safe_load_all(Path("integrations/gitlab-component/templates/review.yml").read_text("utf-8")))
    defaults = [action["inputs"]["package"]["default"], component["spec"]["inputs"]["package"]["default"]]
    pages = [*Path("integrations").rglob("README.md"), *Path("docs/howto").glob("*.md")]
    texts = [path.read_text("utf-8") for path in pages]
    named = [name for line in defaults for name in line.split()]
    named += [
        name for text in texts for line in re.findall(r"pip install (?!--no-index)(.*)", text) for name in line.split()
    ]
    names = [name.strip("'`,.") for name in named]
    ours = [name for name in names if re.match(r"launchbay(-[a-z]+|\[[a-z]+\])?(==|$)", name)]
    assert len(ours) > 8
    assert {name.partition("==")[2] for name in ours} == {__version__}


def lines_of(unit: str, replaced: dict[str, str]) -> dict[str, str]:
    """Return the commands of a unit as systemd hands them to a shell, with other paths."""
    text = Path("deploy/systemd", unit).read_text("utf-8").replace("$$", "$").replace("%%", "%")
    for old, new in replaced.items():
        text = text.replace(old, new)
    return dict(re.findall(r"^(Exec\w+)=\+?(.*)$", text, re.MULTILINE))


@pytest.mark.slow  # it runs pg_dump
def test_the_backup_unit_writes_a_backup_then_removes_old_ones(database_url: str, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    old, recent = backups / "20260101T000000Z.dump", backups / "20260102T000000Z.dump"
    for path, days in ((old, 16), (recent, 13)):
        path.touch()
        os.utime(path, (time.time() - days * 86_400,) * 2)
    program = shlex.join([sys.executable, "-m", "launchbay.cli.main"])
    lines = lines_of("launchbay-backup.service", {PROGRAM: program, "/var/backups/launchbay": str(backups)})
    [days] = re.findall(r"BACKUP_DAYS=(\d+)", Path("deploy/systemd/launchbay-backup.service").read_text("utf-8"))
    given = {**os.environ, "LAUNCHBAY_DATABASE_URL": database_url, "BACKUP_DAYS": days}
    for name in ("ExecStart", "ExecStartPost"):
        subprocess.run(shlex.split(lines[name]), env=given, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    kept = set(backups.iterdir())
    [new] = kept - {recent}
    assert kept == {recent, new}
    assert re.fullmatch(r"\d{8}T\d{6}Z\.dump", new.name)
    assert new.read_bytes().startswith(b"PGDMP")
    with psycopg.connect(database_url) as connection:  # for LaunchbayBackupOld
        [(age_s,)] = connection.execute(
            "SELECT extract(epoch FROM now() - created_at)::float8 FROM server_keys WHERE name = 'last backup'"
        ).fetchall()
    assert 0 <= age_s < 60


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_the_command_of_administrators_has_the_account_and_the_variables_of_the_server(tmp_path: Path) -> None:
    settings = tmp_path / "launchbay.env"
    settings.write_text(
        "# LAUNCHBAY_PORT=1\n\n LAUNCHBAY_ADMIN_PASSWORD=a good $HOME 'password'\n"
        'LAUNCHBAY_DATABASE_URL=postgresql://l:s@db/l?a=b&c=d\nLAUNCHBAY_OIDC_NAME="Our login"'
    )
    command = tmp_path / "launchbay-admin"
    text = ADMIN.read_text("utf-8").replace("/etc/launchbay/launchbay.env", str(settings)).replace(PROGRAM, "/bin/sh")
    command.write_text(text.replace("--reuid launchbay --regid launchbay", "--reuid nobody --regid nogroup"))
    told = ["sh", str(command), "-c", "id -un; env"]
    done = subprocess.run(told, capture_output=True, text=True, check=True, timeout=60, cwd="/")
    account, *variables = done.stdout.splitlines()
    assert account == "nobody"
    assert {line for line in variables if line.startswith("LAUNCHBAY_")} >= {
        "LAUNCHBAY_ADMIN_PASSWORD=a good $HOME 'password'",
        "LAUNCHBAY_DATA_DIR=/var/lib/launchbay",
        "LAUNCHBAY_DATABASE_URL=postgresql://l:s@db/l?a=b&c=d",
        "LAUNCHBAY_OIDC_NAME=Our login",
    }
    assert not [line for line in variables if line.startswith("LAUNCHBAY_PORT")]

    settings.write_text("LAUNCHBAY_ADMIN_PASSWORD=a\\b\n")
    refused = subprocess.run(told, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 1
    assert "can't read values with a backslash: LAUNCHBAY_ADMIN_PASSWORD in " in refused.stderr


def test_the_composition_runs_commands_that_exist() -> None:
    services = yaml.safe_load(Path("deploy/container/compose.yaml").read_text("utf-8"))["services"]
    assert set(services) == {"database", "server", "worker"}
    for name in ("server", "worker"):
        check(services[name]["command"])
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    published = [port for each in services.values() for port in each.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_copies_files_that_exist() -> None:
    text = Path("deploy/container/Containerfile").read_text("utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert copied
    assert [name for name in copied if not Path(name).exists()] == []
    sent = {line[1:] for line in Path(".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert set(copied) == sent
