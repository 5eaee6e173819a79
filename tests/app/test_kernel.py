"""The kernel keeps its promises without features: its quick tests pass on servers that have none of them.

Tests of features are in `tests/features`. Another test that needs one says so with `@pytest.mark.features("name")`, and
is left out here. What is made from the table of endpoints or pages is made from the kernel's (`tests.support.served`).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Those that start the application in this process. The others know nothing of features.
FOLDERS = (
    *("actions", "api", "app", "auth", "concurrency", "console", "engine", "machines", "runtime", "service_types"),
    *("telemetry", "usecases", "web"),
)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # two thousand tests
def test_a_server_without_features_passes_the_tests_of_the_kernel() -> None:
    quick = "not slow and not packages and not faults and not load"
    command = [sys.executable, "-m", "tests.support.twice", "-m", quick, *(f"tests/{name}" for name in FOLDERS)]
    outcome = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "LAUNCHBAY_TEST_FEATURES": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout[-20_000:]
