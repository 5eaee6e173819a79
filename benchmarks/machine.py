"""What a benchmark ran on: a figure without it says little."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launchbay.postgres.cluster import binaries

KIB_PER_GIB = 1024 * 1024


def facts() -> dict[str, Any]:
    """Return the machine and the versions, and the load average of the last minute before the run."""
    memory = Path("/proc/meminfo").read_text().split()[1]
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "processor": model[0].partition(":")[2].strip() if model else platform.machine(),
        "memory_gib": round(int(memory) / KIB_PER_GIB, 1),
        "python": platform.python_version(),
        "postgresql": subprocess.check_output([binaries() / "postgres", "--version"], text=True).split()[-1],
        "load_before": round(os.getloadavg()[0], 2),
    }


def write(path: Path, result: dict[str, Any]) -> None:
    """Write a result where it is asked for, as the pages of evidence read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read a result again."""
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return result
