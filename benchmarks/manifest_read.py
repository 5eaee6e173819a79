"""Time of reading a manifest (aim: 2.5 ms for 500 lines). Usage: manifest_read.py [FILE…], else the real manifests."""

import sys
import time
from pathlib import Path

from launchbay.manifest.reader import read

REAL = Path(__file__).parents[2] / "shared" / "manifests"
ROUNDS = 30


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or sorted(REAL.glob("*.yml"))
    lines = seconds = 0.0
    for path in paths:
        data = path.read_bytes()
        best = min(_timed(data) for _ in range(ROUNDS))
        lines += data.count(b"\n")
        seconds += best
        print(f"{len(data.splitlines()):5d} lines {best * 1e3:6.2f} ms  {path.name}")
    if lines:
        print(f"per 500 lines: {seconds / lines * 500 * 1e3:.2f} ms (best of {ROUNDS})")


def _timed(data: bytes) -> float:
    start = time.perf_counter()
    read(data)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
