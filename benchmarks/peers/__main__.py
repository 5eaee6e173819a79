"""Launchbay and its peers, Restate and DBOS, side by side: three recorded steps, launched and polled over HTTP.

python -m benchmarks.peers [--rounds N] [--seconds S] [--burst N] [--flush-ms MS ...] [--folder DIR] [--json FILE]

Installs the peers from the registries of npm and PyPI, in a temporary folder or in `--folder`, which keeps them. All
engines run all the time, and take turns in each round, in changing order. Only the ratios within rounds say something
about the engines: the figures are those of the machine. A client launches, polls after 5 ms and then at growing
intervals until the launch has ended, and launches the next. `--flush-ms 4` lets each flush to the disk take 4 ms more;
this needs a C compiler and strace. The exit code is 1 if a ratio isn't as it must be.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import machine
from benchmarks.dispatch import poll_pauses
from benchmarks.http_client import Client
from benchmarks.peers.engines import DBOS, ENGINES, RESTATE, Engine, can_slow_all, install
from benchmarks.reads import hammer
from benchmarks.table import shown

CLIENTS = (1, 8, 32)
BURST_CLIENTS = 32
READERS = 16
WARMED_UP_BY = 30  # launches
OURS, FASTEST = "Launchbay", "Restate"
# The least ratio to the fastest peer, without slower flushes.
MUST = {
    "1 client, launches/s": 1.5,
    "8 clients, launches/s": 1.1,
    "32 clients, launches/s": 1.0,
    "burst, accepted/s": 0.7,
    "burst, drained/s": 0.8,
}


async def until_ended(engine: Engine, client: Client, path: str) -> None:
    """Poll until a launch has ended."""
    for pause_s in poll_pauses():
        await asyncio.sleep(pause_s)
        if engine.has_ended(*await client.request("GET", path)):
            return


async def launches(engine: Engine, clients: int, seconds: float) -> tuple[int, float]:
    """Return how many launches ended, and the seconds that they took."""
    ended, began = 0, time.perf_counter()

    async def work() -> None:
        nonlocal ended
        client = engine.client()
        while time.perf_counter() < began + seconds:
            await until_ended(engine, client, await engine.launch(client))
            ended += 1
        client.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return ended, time.perf_counter() - began


async def burst(engine: Engine, count: int) -> tuple[float, float]:
    """Return the seconds until so many launches were accepted, and until each was seen to have ended."""
    left, paths = iter(range(count)), list[str]()

    async def work() -> None:
        client = engine.client()
        for _ in left:
            paths.append(await engine.launch(client))
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(BURST_CLIENTS)))
    accepted_s = time.perf_counter() - began
    client = engine.client()
    for path in paths:
        while not engine.has_ended(*await client.request("GET", path)):
            await asyncio.sleep(0.02)
    client.close()
    return accepted_s, time.perf_counter() - began


async def ended_launch(engine: Engine) -> str:
    """Launch some, and return the path of the last one, which has ended."""
    client = engine.client()
    for _ in range(WARMED_UP_BY):
        path = await engine.launch(client)
        await until_ended(engine, client, path)
    client.close()
    return path


def measured(engine: Engine, ended: str, seconds: float, count: int) -> dict[str, float]:
    """Return the figures of one engine in one round."""
    found: dict[str, float] = {}
    for clients in CLIENTS:
        cpu_ms = engine.cpu_ms()
        made, took_s = uvloop.run(launches(engine, clients, seconds))
        name = "1 client" if clients == 1 else f"{clients} clients"
        found[f"{name}, launches/s"] = made / took_s
        found[f"{name}, CPU ms a launch"] = (engine.cpu_ms() - cpu_ms) / made
    accepted_s, drained_s = uvloop.run(burst(engine, count))
    found["burst, accepted/s"] = count / accepted_s
    found["burst, drained/s"] = count / drained_s
    per_s, _ = uvloop.run(hammer(engine.client, ended, READERS, seconds))
    found["GET of an ended launch/s"] = per_s
    return found


@dataclass
class Comparison:
    """The figures of all rounds, by engine and row."""

    flush_ms: float
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {name: [] for name in ENGINES})

    def ratios(self, row: str, peer: str) -> list[float]:
        """Return Launchbay's figure divided by the peer's, of each round."""
        return [ours[row] / of[row] for ours, of in zip(self.rounds[OURS], self.rounds[peer], strict=True)]

    def lines(self) -> list[str]:
        """Return a table: medians, and medians of the ratios with the least and the greatest."""
        peers = [name for name in ENGINES if name != OURS]
        found = [f"{'':<28}" + "".join(f"{name:>11}" for name in ENGINES)]
        found[0] += "".join(f"{'ratio to ' + name:>28}" for name in peers) + f"{'must':>7}"
        for row in self.rounds[OURS][0]:
            medians = [shown(statistics.median(each[row] for each in self.rounds[name])) for name in ENGINES]
            line = f"{row:<28}" + "".join(f"{each:>11}" for each in medians)
            for peer in peers:
                ratios = self.ratios(row, peer)
                line += f"{statistics.median(ratios):>12.2f} ({min(ratios):>5.2f} to {max(ratios):>5.2f})"
            must = MUST.get(row) if not self.flush_ms else None
            found.append(line + ("" if must is None else f"{must:>7.1f}"))
        return found

    def missed(self) -> list[str]:
        """Return the rows whose ratio isn't as it must be."""
        if self.flush_ms:
            return []
        return [row for row, must in MUST.items() if statistics.median(self.ratios(row, FASTEST)) < must]


def compare(folder: Path, flush_ms: float, rounds: int, seconds: float, count: int) -> Comparison:
    """Start all engines, and measure them in turns."""
    comparison = Comparison(flush_ms)
    with ExitStack() as stack:
        engines = [stack.enter_context(start(folder, flush_ms)) for start in ENGINES.values()]
        ended = {engine.name: uvloop.run(ended_launch(engine)) for engine in engines}
        for number in range(rounds):
            for turn in range(len(engines)):
                engine = engines[(number + turn) % len(engines)]
                figures = measured(engine, ended[engine.name], seconds, count)
                comparison.rounds[engine.name].append(figures)
                shown_figures = ", ".join(f"{row} {shown(value)}" for row, value in figures.items())
                print(f"round {number + 1}, {engine.name}: {shown_figures}", flush=True)
    return comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="each engine has its turn in each round")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each measurement takes")
    parser.add_argument("--burst", type=int, default=1_000, help="launches of a burst")
    parser.add_argument("--flush-ms", type=float, nargs="+", default=[0.0], help="how much longer each flush takes")
    parser.add_argument("--folder", type=Path, help="where the peers are installed, and stay")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    if any(options.flush_ms) and not can_slow_all():
        parser.error("slower flushes need a C compiler and strace")
    facts = machine.facts()
    versions = {**RESTATE, "dbos": DBOS["dbos"]}
    print(f"{facts['cores']} cores, load {facts['load_before']} before; {versions}\n")
    results: list[dict[str, Any]] = []
    missed: list[str] = []
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="launchbay-peers-")))
        install(folder.resolve())
        for flush_ms in options.flush_ms:
            found = compare(folder.resolve(), flush_ms, options.rounds, options.seconds, options.burst)
            print(f"\nmedians of {options.rounds} rounds, flushes +{flush_ms:g} ms, load {os.getloadavg()[0]:.1f}")
            print("\n".join(found.lines()) + "\n", flush=True)
            missed += found.missed()
            results.append({"flush_ms": flush_ms, "rounds": found.rounds})
    if options.json is not None:
        machine.write(options.json, {"machine": facts, "versions": versions, "results": results})
    sys.exit(f"not as it must be: {'; '.join(missed)}" if missed else None)


if __name__ == "__main__":
    main()
