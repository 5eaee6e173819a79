"""`make soak`: a steady mixed load with kills for half an hour; memory, descriptors, threads and tables must stay flat.

python -m benchmarks.soak [--minutes 30] [--json FILE] [--seed-leak NAME]

It exits with 1 when something was not flat, a promise was broken, or the server that is never killed answered with 5xx.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine
from benchmarks.soak.run import Soak
from benchmarks.soak.verdict import Series, verdict
from tests.support.defects import LEAKS
from tests.support.verdict import percentile

ROW = "{:<34} {:>11} {:>11} {:>11} {:>11} {:>11}   {}"
POINTS = 120  # of a series in the result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices")
    parser.add_argument("--seed-leak", choices=sorted(LEAKS), help="put this leak into the server; it must be found")
    options = parser.parse_args()
    result = run(options.minutes, options.seed or random.SystemRandom().randrange(1_000_000), options.seed_leak)
    if options.json is not None:
        machine.write(options.json, result)
    show(result)
    return 0 if result["flat"] and not result["violations"] and not result["errors"] else 1


def run(minutes: float, seed: int, leak: str | None = None) -> dict[str, Any]:
    """Run a soak in a directory of its own and return its result."""
    before = machine.facts()
    directory = Path(tempfile.mkdtemp(prefix="launchbay-soak-"))
    soak = Soak(directory, minutes * 60, seed, None if leak is None else f"leak-{leak}")
    try:
        asyncio.run(soak.run())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    series = verdict(soak.samples.taken, minutes * 60)
    recovered = sorted(soak.recoveries_s)
    return {
        "machine": before,
        "minutes": minutes,
        "load_p50": round(median(sample.load for sample in soak.samples.taken), 1),
        "seed": seed,
        "kills": len(soak.kills),
        "rounds": soak.rounds,
        "launches": soak.launches,
        "changes": {str(status): count for status, count in sorted(soak.changes.items())},
        "kept_s": round(soak.kept_s),
        "recoveries": len(recovered),
        "recovery_p50_s": round(percentile(recovered, 0.5), 2) if recovered else None,
        "recovery_p99_s": round(percentile(recovered, 0.99), 2) if recovered else None,
        "visits": {f"{kind} {status}": count for (kind, status), count in sorted(soak.visits.items())},
        "errors": sum(count for (_, status), count in soak.visits.items() if status >= 500),
        "violations": soak.broken,
        "flat": all(each.judged.is_flat for each in series),
        "judged": [each.judged.row() for each in series],
        "series": {each.judged.name: _thinned(each) for each in series},
    }


def _thinned(series: Series) -> dict[str, list[float]]:
    step = max(1, len(series.at) // POINTS)
    return {"at": series.at[::step], "values": [round(value, 2) for value in series.values[::step]]}


def show(result: dict[str, Any]) -> None:
    """Print what was found."""
    print("\n" + ROW.format("after the first third", "at first", "at last", "most", "risen by", "may rise", ""))
    for row in result["judged"]:
        figures = [f"{row[name]:.1f}" for name in ("at_first", "at_last", "most", "risen", "allowed")]
        print(ROW.format(row["name"], *figures, "flat" if row["flat"] else "NOT FLAT"))
    for violation in result["violations"]:
        print(f"violation: {violation}")
    print(f"{result['kills']} kills, {len(result['violations'])} violations, visits: {result['visits']}")


if __name__ == "__main__":
    sys.exit(main())
