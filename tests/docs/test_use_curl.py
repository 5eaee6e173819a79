"""The page on curl works: its commands run in order in one shell, and print what it shows."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.documentation import DOCS
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD

PAGE = DOCS / "howto" / "use-curl.md"


@pytest.mark.slow  # ten programs, one after the other
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_calls_of_the_page_succeed_and_print_what_it_shows(bay: Bay, tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8").replace("http://127.0.0.1:8080", bay.url)
    text = text.replace("admin@launchbay.local:tutorial-password", f"{EMAIL}:{PASSWORD}")
    lines = [
        line.strip()
        for block in re.findall(r"^ *```console\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    shown = [line for line in lines if not line.startswith("$ ")]
    assert len([command for command in commands if "curl" in command]) == 10
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == shown
