"""Coverage by package, as a table: python -m benchmarks.coverage_by_package DATA [--json FILE]

DATA is what `coverage run --branch --source=launchbay --data-file=DATA -m pytest …` wrote. coverage.py is not among the
locked packages: install it beside them for this. The sources must be those that the run had.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

FIELDS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_package(report: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Return the sums by top-level folder from coverage's JSON; modules outside of folders are one more."""
    sums: dict[str, Counter[str]] = {}
    for name, about in report["files"].items():
        parts = PurePath(name).parts
        inside = parts[len(parts) - parts[::-1].index("launchbay") :]
        package = inside[0] if len(inside) > 1 else "(modules)"
        counted = Counter({field: about["summary"][field] for field in FIELDS})
        sums[package] = sums.get(package, Counter()) + counted
    return dict(sorted(sums.items()))


def percent(part: int, whole: int) -> str:
    """Return a share in percent; nothing to cover is all of it."""
    return f"{100 * part / whole:.1f}" if whole else "100.0"


def table(sums: Mapping[str, Mapping[str, int]]) -> str:
    """Return the Markdown table, with the sum of all packages in the last row."""
    everything = {field: sum(each[field] for each in sums.values()) for field in FIELDS}
    lines = ["| package | statements | lines, % | branches | branches, % |", "|---|---:|---:|---:|---:|"]
    for name, each in [*sums.items(), ("all", everything)]:
        statements, lines_run, branches, branches_run = (each[field] for field in FIELDS)
        lines.append(
            f"| {name} | {statements} | {percent(lines_run, statements)} | {branches}"
            f" | {percent(branches_run, branches)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path, help="such as docs/contribute/evidence/data/coverage.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [sys.executable, "-m", "coverage", "json", "-q", f"--data-file={arguments.data}", "-o", str(report)]
        subprocess.run(command, check=True)
        sums = by_package(json.loads(report.read_text("utf-8")))
    print(table(sums))
    if arguments.json:
        arguments.json.write_text(json.dumps(sums, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
