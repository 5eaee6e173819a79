"""`make bench`: the speed table of the design, with the limits of this machine beside it and ratios within the run.

python -m benchmarks [--quick] [--json FILE]
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks import fleet, lists
from benchmarks.console_pages import measure_pages
from benchmarks.launches import latency, percentiles, throughput
from benchmarks.limits import bare_reads, commits_per_s, copied_s
from benchmarks.manifest_compile import parse_ms, synthetic_ms
from benchmarks.reads import hammer, running_instance
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.postgres.server import EmbeddedPostgres


def measure_launches(table: Table, server: Server, commits: float, launches: int) -> None:
    for action, kind in (("getInstanceContext", "pure steps"), ("wait", "recorded steps")):
        found = asyncio.run(throughput(server, action, launches))
        table.add(
            f"launch, three {kind}, 16 clients",
            *(found.per_s, "/s"),
            must=150,
            aim=400,
            limit=Limit("INSERT + COMMIT, one client", commits),
            beside=f"{found.cpu_ms:.1f} ms CPU each",
        )


def measure_latency(table: Table, server: Server, commits: float, launches: int) -> None:
    median, worst = percentiles(asyncio.run(latency(server, launches)))
    commit = Limit("one commit", 1000 / commits)
    table.add("launch → first step, idle, p50", median, "ms", must=30, aim=10, limit=commit)
    table.add("launch → first step, idle, p99", worst, "ms", aim=50, limit=commit)


def measure_reads(table: Table, server: Server, url: str, seconds: float) -> None:
    instance = asyncio.run(running_instance(server))
    path = f"/api/1/instances/{instance}"
    bearer = server.bearer()
    rounds = []
    for _ in range(3):  # in turns, so that both meet the same weather
        ours = asyncio.run(hammer(bearer.another, path, 16, seconds))
        bare = bare_reads(url, instance, 16, seconds)
        rounds.append((ours, bare))
    ours, bare = max(rounds, key=lambda pair: pair[0][0] / pair[1][0])
    limit = Limit("bare ASGI with one query", bare[0])
    table.add("GET instance by JWT, 16 clients", ours[0], "/s", must=2500, aim=bare[0] / 2, limit=limit)
    table.add("GET instance by JWT, p99", ours[1], "ms", must=25, limit=Limit("bare ASGI with one query", bare[1]))


def measure_list(table: Table, server: Server, url: str) -> None:
    instance = asyncio.run(running_instance(server))
    before = server.memory_mb()
    lists.fill(url, instance)
    found = asyncio.run(lists.measure(server, server.bearer(), instance))
    table.add(
        "list of 100,000 instances",
        *(found.median_s, "s"),
        must=1,
        aim=0.4,
        limit=Limit("COPY of the same rows", copied_s(url, instance)),
        beside=f"{found.megabytes:.0f} MB, first byte after {found.first_byte_s * 1000:.0f} ms",
    )
    table.add(
        "other requests meanwhile, p99", found.others_p99_ms, "ms", must=50, beside=f"p50 {found.others_p50_ms:.1f}"
    )
    table.add(
        "memory of the server: 100,000 instances known",
        *(found.memory_before, "MB"),
        limit=Limit("without them", before),
        beside=f"at most {found.memory_peak:.0f} MB during the lists",
    )


def measure_starts(table: Table) -> None:
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as bare:
        postgres = [_postgres_start_s(Path(bare)) for _ in range(2)]
        limits = [Limit("PostgreSQL alone", seconds) for seconds in postgres]
        with running(Path(directory)) as server:
            table.add("start on an empty directory → first answer", server.start_s, "s", must=6, limit=limits[0])
        with running(Path(directory)) as again:
            table.add("start on it again → first answer", again.start_s, "s", must=2, aim=1, limit=limits[1])


def _postgres_start_s(directory: Path) -> float:
    directory.chmod(0o711)
    began = time.perf_counter()
    with EmbeddedPostgres.start(directory):
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    launches, seconds = (300, 1.0) if options.quick else (2000, 4.0)
    table = Table()
    table.head()
    best, median = synthetic_ms()
    table.add(
        "manifest of 500 lines: read, check, compile",
        *(median, "ms"),
        must=15,
        aim=5,
        limit=Limit("the C parser's events alone", parse_ms()),
        beside=f"best {best:.1f} ms",
    )
    measure_starts(table)
    with running() as server:
        table.add("memory of the idle server", server.memory_mb(), "MB", must=120)
        with EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
            commits = commits_per_s(joined.url)
            table.add("INSERT + COMMIT, one client", commits, "/s", beside="a limit, not a figure of Launchbay")
            measure_launches(table, server, commits, launches)
            measure_latency(table, server, commits, 100 if options.quick else 300)
            measure_reads(table, server, joined.url, seconds)
            measure_list(table, server, joined.url)
        table.add("memory of the server after it all", server.memory_mb(), "MB", must=120)
    fleet.measure_fleet(table, rounds=fleet.QUICK_ROUNDS if options.quick else fleet.ROUNDS)
    measure_pages(table, rounds=20 if options.quick else 60)
    table.write(options.json)


if __name__ == "__main__":
    main()
