"""Features stay features: nothing of the kernel imports one (docs/explain/architecture.md)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nothing_below_leans_on_a_feature() -> None:
    ran = subprocess.run(
        [sys.executable, "tests/style/features.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
