"""One fault campaign: processes under load, faults at random moments, and the verdict."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.durability.load import Load
from tests.durability.recovery import Recoveries, recoveries
from tests.durability.servers import Process, cut_power_of_postgres, join_postgres, remove_postgres
from tests.durability.verdict import Kill, Line, Records, percentile, read_ledger, violations

TAKEN_OVER_S = 8.0  # promised, between the death of a worker and the next step of its jobs


@dataclass
class Campaign:
    """What happened. `directory` holds the data, the logs and the ledger."""

    directory: Path
    seed: int
    kills: list[Kill] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    recoveries: Recoveries = field(default_factory=Recoveries)
    repeated: int = 0  # attempts of steps that were interrupted and made again
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
            self.recoveries = recoveries(self.kills, records, ledger)
            self.repeated = len(ledger) - len({(line.job, line.path, line.attempt) for line in ledger})
            self.figures = self._figures(load, records, ledger)
        finally:
            records.close()

    def _figures(self, load: Load, records: Records, ledger: list[Line]) -> str:
        history = load.history
        [(jobs, steps)] = records.rows("SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM steps)")
        ran = sum(burst.accepted for burst in history.bursts)
        return (
            f"seed {self.seed}: {len(self.kills)} kills; {len(history.launched)} launches accepted,"
            f" {history.unknown_launches} unanswered; {ran} runs accepted in {len(history.bursts)} bursts;"
            f" {len(history.schedules)} schedules accepted; answers {dict(sorted(history.statuses.items()))};"
            f" {jobs} jobs, {steps} steps,"
            f" {len(ledger)} runs, {self.repeated} of them repetitions of interrupted steps;"
            f" start {percentile(sorted(self.starts_s), 0.5):.2f} s; first step again after {self.recoveries}"
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
        async with load.going_on():
            for number in range(kills):
                # Now and then it gets the time that a rescue takes, so that recoveries can be measured.
                await asyncio.sleep(7.0 if number % 12 == 11 else campaign.chance.uniform(*up_s))
                await campaign.kill(server)
                if campaign.chance.random() < 0.1:
                    cut_power_of_postgres(directory)
                await campaign.start(server)
        postgres = await asyncio.to_thread(join_postgres, directory)
        await campaign.judge(load, postgres.url, more)
    finally:
        await load.close()
        await asyncio.to_thread(server.end)
        if postgres is not None:
            await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign


# What befalls the processes that run jobs, the worker first.
Fault = Callable[[Campaign, list[Process]], Awaitable[None]]


@asynccontextmanager
async def under_load(
    campaign: Campaign,
    url: str,
    processes: Sequence[Process],
    load: Load,
    more: Callable[[Records], list[str]] = lambda _: [],
) -> AsyncIterator[None]:
    """Start the processes, and clients that make requests for as long as the block lasts. Then all is judged."""
    try:
        for process in processes:
            await campaign.start(process)
        await load.set_up()
        async with load.going_on():
            yield
        await campaign.judge(load, url, more)
    finally:
        await load.close()
        for process in reversed(processes):
            await asyncio.to_thread(process.end)


async def two_workers(
    directory: Path,
    seed: int,
    pauses_s: Iterable[float],
    fault: Fault,
    *,
    are_apart: bool = False,
    defect: str | None = None,
    load_type: type[Load] = Load,
    more: Callable[[Records], list[str]] = lambda _: [],
) -> Campaign:
    """Two processes that run jobs, on one database: a worker and a server. A fault befalls them after each pause.

    `are_apart` makes them two workers, beside a server that only answers requests.
    """
    campaign = Campaign(directory, seed)
    postgres = await asyncio.to_thread(join_postgres, directory)
    shared = ["--data-dir", str(directory), "--database-url", postgres.url]
    serve = ["serve", *shared, "--port", "0", *(["--no-engine"] if are_apart else [])]
    server = Process(serve, directory, defect)
    workers = [Process(["worker", *shared], directory, defect, name=name) for name in ("w1", "w2")[: 1 + are_apart]]
    load = load_type(lambda: server.port, seed)
    try:
        async with under_load(campaign, postgres.url, [server, *workers], load, more):
            for pause_s in pauses_s:
                await asyncio.sleep(pause_s)
                await fault(campaign, workers if are_apart else [*workers, server])
    finally:
        await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign


def pauses(seed: int, count: int) -> list[float]:
    """Return so many short pauses, in seconds."""
    chance = random.Random(seed)
    return [chance.uniform(0.3, 2.0) for _ in range(count)]


def pauses_for(seed: int, minutes: float, shortest_s: float, longest_s: float) -> list[float]:
    """Return pauses between these bounds that last about so long together."""
    chance = random.Random(seed)
    found: list[float] = []
    while sum(found) < minutes * 60:
        found.append(chance.uniform(shortest_s, longest_s))
    return found


async def kill_and_wait(campaign: Campaign, workers: list[Process]) -> None:
    """Kill the worker and leave its jobs to the other process for a while."""
    await campaign.kill(workers[0])
    await asyncio.sleep(TAKEN_OVER_S)
    await campaign.start(workers[0])


async def kill_worker_or_server(campaign: Campaign, workers: list[Process]) -> None:
    """Kill the worker, now and then the server, and start it again: mostly at once, sometimes after a take-over."""
    victim = workers[1] if campaign.chance.random() < 0.2 else workers[0]
    await campaign.kill(victim)
    if campaign.chance.random() < 1 / 6:
        await asyncio.sleep(TAKEN_OVER_S)
    await campaign.start(victim)


async def kill_either(campaign: Campaign, workers: list[Process]) -> None:
    """Kill one of the two; whoever watches over it starts it again at once."""
    victim = campaign.chance.choice(workers)
    await campaign.kill(victim)
    await campaign.start(victim)


async def stop_either(campaign: Campaign, workers: list[Process]) -> None:
    """Ask one of the two to stop, and start it again when it has ended."""
    victim = campaign.chance.choice(workers)
    campaign.kills.append(Kill(victim.pid, time.time()))
    await asyncio.to_thread(victim.end)
    await campaign.start(victim)


async def freeze(campaign: Campaign, workers: list[Process]) -> None:
    """Stop the worker until the other process has taken its jobs over, then let it go on as if nothing had been."""
    workers[0].freeze()
    await asyncio.sleep(campaign.chance.uniform(5.3, 6.5))
    workers[0].thaw()
    await asyncio.sleep(1.5)
