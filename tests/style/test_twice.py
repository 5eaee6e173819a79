"""The second run of tests that failed in a crowd."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Real runs of pytest, each with four processes.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Passes where a file exists, and makes it: fails once.
ONCE = """
from pathlib import Path

def test_it():
    seen = Path({flag!r}).exists()
    Path({flag!r}).touch()
    assert seen
"""


def run(directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.support.twice"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        # The cache may be off where tests run. Only the plugin that is needed makes it quick.
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p xdist -p no:cacheprovider",
        },
    )


def test_what_passes_alone_passes(tmp_path: Path) -> None:
    (tmp_path / "test_once.py").write_text(ONCE.format(flag=str(tmp_path / "seen")))
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 failed" in done.stdout
    assert "1 passed" in done.stdout


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    (tmp_path / "test_never.py").write_text("def test_it():\n    assert False\n")
    assert run(tmp_path).returncode == 1


def test_ten_that_fail_do_not_run_again(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"test_{number}.py").write_text(ONCE.format(flag=str(tmp_path / f"seen-{number}")))
    done = run(tmp_path)
    assert done.returncode not in {0, 5}
    assert "once more" not in done.stdout


def test_a_file_that_cannot_be_read_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    assert run(tmp_path).returncode not in {0, 5}
