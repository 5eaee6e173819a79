"""Writes docs/contribute/evidence/ from the results in its folder data/: `python -m benchmarks.evidence`."""

from benchmarks.evidence.pages import EVIDENCE, read, write

if __name__ == "__main__":
    for path in write(read(EVIDENCE / "data"), EVIDENCE):
        print(path.relative_to(EVIDENCE.parents[1]))
