"""Compares what clients were promised, what the ledger says that happened, and what is recorded."""

import asyncio
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from launchbay.actions.contract import idempotency_key
from tests.support.load import History

SETTLED_S = 90.0
# A job's created_at and finished_at are the begins of the transactions that write them.
OVERLAP_S = 0.7
_ORDERED = re.compile(r"(.*/)a([0-9]+)")


@dataclass(frozen=True)
class Line:
    """One run of the probe."""

    job: str
    path: str
    key: str
    attempt: int
    at: float
    pid: int


@dataclass(frozen=True)
class Kill:
    """A process that stopped working, and when."""

    pid: int
    at: float


def read_ledger(path: Path) -> list[Line]:
    """Return the runs in the order in which they happened; a kill may have cut the last line."""
    lines = []
    for text in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            lines.append(Line(**json.loads(text)))
        except ValueError:
            continue
    return lines


class Records:
    """What the database says."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self._connection.execute(statement.encode()).fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def left(self) -> list[str]:
        """Return what is under way or due, one sentence each."""
        return [text for (text,) in self.rows(_LEFT)]

    async def settled(self) -> list[str]:
        """Wait until nothing is under way or due; return what is left once it has not become less for a while."""
        fewest, since_s = None, time.monotonic()
        while True:
            left = self.left()
            if fewest is None or len(left) < fewest:
                fewest, since_s = len(left), time.monotonic()
            if not left or time.monotonic() - since_s > SETTLED_S:
                return left
            await asyncio.sleep(0.2)


# One statement: between two, a schedule becomes a job, and neither sees it.
_LEFT = """
SELECT format('job %s of %s is executing', id, instance_id) FROM jobs WHERE status = 'Executing'
UNION ALL SELECT format('schedule %s is pending', id) FROM schedules
UNION ALL SELECT format('job %s is ready', job_id) FROM ready
UNION ALL SELECT format('job %s is parked', job_id) FROM parked
"""


def violations(history: History, records: Records, ledger: list[Line]) -> list[str]:
    """Return every promise that was broken, one sentence each."""
    return [
        *_lost_launches(history, records),
        *_unfinished(records),
        *_wrong_runs(records, ledger),
        *_wrong_orders(ledger),
        *_wrong_counts(history, records),
        *_overlaps(records),
    ]


def _lost_launches(history: History, records: Records) -> list[str]:
    known = {row[0] for row in records.rows("SELECT id FROM instances")}
    return [f"lost: the launch {made} was accepted and is not there" for made in history.launched if made not in known]


def _unfinished(records: Records) -> list[str]:
    found = [
        f"unfinished: instance {row[0]} is {row[1]} with job {row[2]}"
        for row in records.rows("SELECT id, status, job_id FROM instances")
        if row[1] not in {"Running", "Failed", "Destroyed"} or row[2] is not None
    ]
    found += [
        f"unfinished: step {row[1]} of job {row[0]} is {row[2]}"
        for row in records.rows("SELECT job_id, path, status FROM steps WHERE status NOT IN ('Succeeded', 'Failed')")
    ]
    return found


def _wrong_runs(records: Records, ledger: list[Line]) -> list[str]:
    runs: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in ledger:
        runs[line.job, line.path].append(line)
    found = []
    recorded = records.rows(
        "SELECT job_id, path, status, extract(epoch FROM finished_at)::float8 FROM steps WHERE outputs IS NOT NULL"
        " AND name NOT LIKE 'rest%' OR (status = 'Failed' AND error_message LIKE 'attempt%')"
    )
    for job, path, status, finished_at in recorded:
        mine = runs.get((job, path), [])
        if not mine:
            found.append(f"never ran: step {path} of job {job} is {status}")
        found += [
            f"ran again: step {path} of job {job}, {line.at - finished_at:.3f} s after its record"
            for line in mine
            if line.at > finished_at
        ]
    # Work that begins by itself has keys of what began it: a schedule that fires again says so to receivers. What that
    # was isn't known anymore of jobs that were deleted with their instances.
    seeds = dict(records.rows("SELECT id, coalesce(nullif(plan::json->>'key_seed', ''), id) FROM jobs"))
    for (job, path), mine in runs.items():
        if job in seeds and {line.key for line in mine} != {idempotency_key(seeds[job], path)}:
            found.append(f"wrong key: step {path} of job {job}")
        if any(later.attempt < line.attempt for line, later in pairwise(mine)):
            found.append(f"attempt went back: step {path} of job {job}")
    return found


def _wrong_orders(ledger: list[Line]) -> list[str]:
    """Of steps `a1`, `a2`, … none runs when a later one has run: the later one saw the record of the earlier one."""
    furthest: dict[tuple[str, str], int] = {}
    found = []
    for line in ledger:
        matched = _ORDERED.fullmatch(line.path)
        if matched is None:
            continue
        way, number = (line.job, matched[1]), int(matched[2])
        if number < furthest.get(way, 0):
            found.append(f"went back: step {line.path} of job {line.job} ran after a{furthest[way]}")
        furthest[way] = max(number, furthest.get(way, 0))
    return found


def _wrong_counts(history: History, records: Records) -> list[str]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    created: dict[tuple[str, str], float] = {}
    for instance, name, at in records.rows(
        "SELECT instance_id, name, extract(epoch FROM created_at)::float8 FROM jobs"
    ):
        counts[instance, name] += 1
        created[instance, name] = at
    found = []
    for burst in history.bursts:
        count = counts[burst.instance, burst.workflow]
        if not burst.accepted <= count <= burst.accepted + burst.unknown:
            found.append(f"runs: {burst} became {count} jobs")
    for scheduled in history.schedules:
        count = counts[scheduled.instance, scheduled.workflow]
        if count != 1:
            found.append(f"schedule: {scheduled} became {count} jobs")
        elif created[scheduled.instance, scheduled.workflow] < scheduled.not_before:
            found.append(f"schedule: {scheduled} fired early")
    found += [
        f"schedule: the unanswered {workflow} of {instance} became {counts[instance, workflow]} jobs"
        for instance, workflow in history.unknown_schedules
        if counts[instance, workflow] > 1
    ]
    return found


def _overlaps(records: Records) -> list[str]:
    rows = records.rows(
        "SELECT instance_id, id, extract(epoch FROM created_at)::float8, extract(epoch FROM finished_at)::float8"
        " FROM jobs WHERE finished_at IS NOT NULL ORDER BY instance_id, created_at"
    )
    return [
        f"two jobs at once: {job} of {instance} was accepted {until - begun:.2f} s before the end of {before}"
        for (instance, before, _, until), (other, job, begun, _) in pairwise(rows)
        if instance == other and begun < until - OVERLAP_S
    ]


def percentile(values: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return values[min(len(values) - 1, int(share * len(values)))]
