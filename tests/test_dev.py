"""`make dev`: a server that follows the code of a contributor."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WATCHED = ROOT / "src" / "launchbay" / "demo" / "sample.yaml"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # starts the demo, and the server twice


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Iterator[str]]:
    """The lines that it prints."""
    command = [sys.executable, "frontend/dev", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        yield iter(process.stdout)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_the_server_starts_again_at_its_address_when_code_changes(told: Iterator[str]) -> None:
    def address() -> str:
        [_, found] = next(line for line in told if "Launchbay is at " in line).split("Launchbay is at ")
        return found.partition(",")[0]

    first = address()
    next(line for line in told if "Ctrl-C ends it." in line)
    os.utime(WATCHED)
    assert next(line for line in told if "Changed: src/launchbay/demo/sample.yaml" in line)
    assert address() == first
