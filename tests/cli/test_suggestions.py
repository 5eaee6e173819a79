"""Shells complete the names of what there is, and stay quiet where nothing can be known."""

import os
import subprocess
import sys

from tests.cli.shell import Shell

SCRIPT = "from launchbay.cli.main import main; main(prog_name='launchbay')"


def completed(cli: Shell, *words: str) -> list[str]:
    environ = {
        **os.environ,
        **cli.environ,
        "LAUNCHBAY_CONFIG_DIR": str(cli.config),
        "LAUNCHBAY_KEYRING": "off",
        "_LAUNCHBAY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["launchbay", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", SCRIPT]
    told = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    assert told.stderr == ""
    return [line.partition(",")[2] for line in told.stdout.splitlines() if line]


def test_names_of_objects_and_workflows_are_completed(cli: Shell) -> None:
    cli.good("application", "create", "completed-one")
    instance = cli.good("launch", "completed-one", "--instance-name", "completed-instance").strip()
    cli.good("instance", "wait", instance)
    cli.good("revision", "create", "completed-one", "fixed", "--version", "1")
    assert completed(cli, "launch", "completed-") == ["completed-one"]
    assert completed(cli, "instance", "show", "completed-i") == ["completed-instance"]
    assert "destroy" in completed(cli, "run", "completed-instance", "d")
    assert completed(cli, "launch", "completed-one", "--environment", "def") == ["default"]
    assert completed(cli, "revision", "show", "completed-one/") == ["completed-one/fixed"]
    assert "Guest" in completed(cli, "role", "show", "G")
    assert "admin@launchbay.local" in completed(cli, "user", "show", "adm")


def test_nothing_is_completed_where_nobody_can_be_asked(shell: Shell) -> None:
    assert completed(shell, "launch", "a") == []
    shell.environ = {"LAUNCHBAY_URL": "http://127.0.0.1:9"}
    assert completed(shell, "launch", "a") == []
