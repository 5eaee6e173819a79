"""What a user sees in a real terminal: bars that move, tables that fit, ids that are never cut."""

import re
import sys
from pathlib import Path

from tests.cli.shell import Shell
from tests.client.serving import SLOW
from tests.demo.terminal import plain, run_in_terminal

COMMAND = (sys.executable, "-m", "launchbay.cli.main")


def drawn(cli: Shell, *words: str, columns: int) -> str:
    settings = {**cli.environ, "LAUNCHBAY_CONFIG_DIR": str(cli.config), "LAUNCHBAY_KEYRING": "off"}
    code, text = run_in_terminal(*words, columns=columns, command=COMMAND, settings=settings)
    assert code == 0, text
    return plain(text)


def test_a_launch_draws_a_bar_for_each_step(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(SLOW, "utf-8")
    cli.good("application", "create", "drawn")
    cli.good("manifest", "upload", "drawn", str(file))
    text = drawn(cli, "launch", "drawn", "--wait", columns=80)
    assert re.search(r"think +━+ +\d+ % Executing", text)
    assert re.search(r"think +━+ 100 % Succeeded", text)
    assert "Running" in text


def test_a_narrow_table_keeps_ids_whole(cli: Shell) -> None:
    number = cli.good("application", "create", "an application with a long name that cannot fit").strip()
    assert number in drawn(cli, "application", "list", columns=60)
    assert "admin@launchbay.local" in drawn(cli, "user", "list", columns=80)
