"""One fault campaign: processes under load, faults at random moments, and the verdict."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.durability.load import Load
from tests.durability.servers import Process, cut_power_of_postgres, join_postgres, remove_postgres
from tests.durability.verdict import Kill, Line, Records, percentile, read_ledger, recovery_times_s, violations


@dataclass
class Campaign:
    """What happened. `directory` holds the data, the logs and the ledger."""

    directory: Path
    seed: int
    kills: list[Kill] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    figures: str = ""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.directory.chmod(0o711)

    async def start(self, process: Process) -> None:
        """Start a process, noting how long that takes."""
        self.starts_s.append(await asyncio.to_thread(process.start))

    async def kill(self, process: Process) -> None:
        """Kill a process, noting when."""
        pid, at = process.pid, time.time()
        await asyncio.to_thread(process.kill)
        self.kills.append(Kill(pid, at))

    async def judge(self, load: Load, url: str, more: Callable[[Records], list[str]] = lambda _: []) -> None:
        """Wait until all is quiet and compare promises, ledger and records."""
        records = Records(url)
        try:
            left = await records.settled()
            ledger = read_ledger(self.directory / "ledger")
            self.broken = [*(f"not settled: {each}" for each in left), *violations(load.history, records, ledger)]
            self.broken += more(records)
            self.recoveries_s = recovery_times_s(self.kills, records, ledger)
            self.figures = self._figures(load, records, ledger)
        finally:
            records.close()

    def _figures(self, load: Load, records: Records, ledger: list[Line]) -> str:
        history = load.history
        [(jobs, steps)] = records.rows("SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM steps)")
        ran = sum(burst.accepted for burst in history.bursts)
        repeated = len(ledger) - len({(line.job, line.path, line.attempt) for line in ledger})
        recovered = self.recoveries_s
        shown = (
            f"p50 {percentile(recovered, 0.5):.2f} s, p99 {percentile(recovered, 0.99):.2f} s of {len(recovered)}"
            if recovered
            else "none"
        )
        return (
            f"seed {self.seed}: {len(self.kills)} kills; {len(history.launched)} launches accepted,"
            f" {history.unknown_launches} unanswered; {ran} runs accepted in {len(history.bursts)} bursts;"
            f" {len(history.schedules)} schedules accepted; answers {dict(sorted(history.statuses.items()))};"
            f" {jobs} jobs, {steps} steps,"
            f" {len(ledger)} runs, {repeated} of them repetitions of interrupted steps;"
            f" start {percentile(sorted(self.starts_s), 0.5):.2f} s; first step again after {shown}"
        )


async def one_server(
    directory: Path,
    seed: int,
    kills: int,
    *,
    up_s: tuple[float, float] = (0.05, 1.4),
    defect: str | None = None,
    load_type: type[Load] = Load,
    more: Callable[[Records], list[str]] = lambda _: [],
) -> Campaign:
    """`launchbay serve` with its own database, killed and started again on the same data; sometimes both are killed.

    It is up for between so many seconds before each kill. `more` are further rules for the records of this load.
    """
    campaign = Campaign(directory, seed)
    server = Process(["serve", "--data-dir", str(directory), "--port", "0"], directory, defect)
    load = load_type(lambda: server.port, seed)
    postgres = None
    try:
        await campaign.start(server)
        await load.set_up()
        loading = asyncio.create_task(load.run())
        for number in range(kills):
            # Now and then it gets the time that a rescue takes, so that recoveries can be measured.
            await asyncio.sleep(7.0 if number % 12 == 11 else campaign.chance.uniform(*up_s))
            await campaign.kill(server)
            if campaign.chance.random() < 0.1:
                cut_power_of_postgres(directory)
            await campaign.start(server)
        load.stop()
        await loading
        postgres = await asyncio.to_thread(join_postgres, directory)
        await campaign.judge(load, postgres.url, more)
    finally:
        await load.close()
        await asyncio.to_thread(server.end)
        if postgres is not None:
            await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign


async def two_workers(
    directory: Path,
    seed: int,
    rounds: int,
    fault: Callable[[Campaign, Process], Awaitable[None]],
    *,
    defect: str | None = None,
    load_type: type[Load] = Load,
    more: Callable[[Records], list[str]] = lambda _: [],
) -> Campaign:
    """A server and a worker on one database; in each round the fault befalls the worker."""
    campaign = Campaign(directory, seed)
    postgres = await asyncio.to_thread(join_postgres, directory)
    shared = ["--data-dir", str(directory), "--database-url", postgres.url]
    server = Process(["serve", *shared, "--port", "0"], directory, defect)
    worker = Process(["worker", *shared], directory, defect)
    load = load_type(lambda: server.port, seed)
    try:
        await campaign.start(server)
        await campaign.start(worker)
        await load.set_up()
        loading = asyncio.create_task(load.run())
        for _ in range(rounds):
            await asyncio.sleep(campaign.chance.uniform(0.3, 2.0))
            await fault(campaign, worker)
        load.stop()
        await loading
        await campaign.judge(load, postgres.url, more)
    finally:
        await load.close()
        for process in (worker, server):
            await asyncio.to_thread(process.end)
        await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign


async def kill_and_wait(campaign: Campaign, worker: Process) -> None:
    """Kill the worker and leave its jobs to the other process for a while."""
    await campaign.kill(worker)
    await asyncio.sleep(8.0)
    await campaign.start(worker)


async def freeze(campaign: Campaign, worker: Process) -> None:
    """Stop the worker until the other process has taken its jobs over, then let it go on as if nothing had been."""
    worker.freeze()
    await asyncio.sleep(campaign.chance.uniform(5.3, 6.5))
    worker.thaw()
    await asyncio.sleep(1.5)
