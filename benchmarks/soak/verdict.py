"""The verdict of a soak: what of it was flat after the first third, and what was not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.soak.flat import Allowed, Judged, judge
from benchmarks.soak.samples import MB, Sample

WARM_SHARE = 1 / 3

# What each may rise from the first to the last sample that counts. That is above the noise of a run, and far below what
# a leak makes of it: at one launch a second, 2.5 kB lost with each are 3 MB in twenty minutes.
# Descriptors are those that are neither connections of the pool, which has up to twenty, nor clients.
STEADY = {"memory": Allowed(3.0, 0.02), "own descriptors": Allowed(3), "threads": Allowed(1), "tasks": Allowed(5)}
# The samples of a process that is killed again and again are of processes of all ages between 0 and 40 s.
KILLED = {"memory": Allowed(8.0, 0.06), "descriptors": Allowed(5), "threads": Allowed(2)}
CONNECTIONS = Allowed(5)
QUEUED = Allowed(5)
# PostgreSQL's files keep the size of the busiest moment, so what is looked at is whether they go on growing.
TABLE_MB = Allowed(0.5, 0.1)
DEAD_ROWS = Allowed(3_000, 0.25)
SMALL_MB = 1.0  # tables that never were larger are looked at in sum only


@dataclass(frozen=True)
class Series:
    """A series from the begin of the run, and what was found of its later part."""

    at: list[float]
    values: list[float]
    judged: Judged


def verdict(samples: list[Sample], seconds: float) -> list[Series]:
    """Judge every series of a run of that length."""
    found = []
    for name, unit, allowed, value in _kinds(samples):
        points = [(sample.at, seen) for sample in samples if (seen := value(sample)) is not None]
        later = [(at, seen) for at, seen in points if at >= seconds * WARM_SHARE]
        if later:
            judged = judge(name, unit, [at for at, _ in later], [seen for _, seen in later], allowed)
            found.append(Series([at for at, _ in points], [seen for _, seen in points], judged))
    return found


def _kinds(samples: list[Sample]) -> Iterator[tuple[str, str, Allowed, Callable[[Sample], float | None]]]:
    for name in ("server", "second server", "worker"):
        for kind, allowed in (STEADY if name == "server" else KILLED).items():
            yield f"{name}: {kind}", "MB" if kind == "memory" else "", allowed, _of_process(name, kind)
    yield "connections of the database", "", CONNECTIONS, lambda sample: sample.connections
    yield "jobs in the queue", "", QUEUED, lambda sample: sample.queued
    most: dict[str, float] = {}
    for sample in samples:
        most |= {table: max(size / MB, most.get(table, 0.0)) for table, size in sample.sizes.items()}
    for table in sorted(table for table, size in most.items() if size > SMALL_MB):
        yield f"size of {table}", "MB", TABLE_MB, _size_of(table)
    yield "size of all tables", "MB", TABLE_MB, lambda sample: sum(sample.sizes.values()) / MB
    yield "dead rows of all tables", "", DEAD_ROWS, lambda sample: sum(sample.dead_rows.values())


def _of_process(name: str, kind: str) -> Callable[[Sample], float | None]:
    def value(sample: Sample) -> float | None:
        process = sample.processes.get(name)
        return None if process is None else process.figures()[kind]

    return value


def _size_of(table: str) -> Callable[[Sample], float | None]:
    return lambda sample: sample.sizes.get(table, 0) / MB
