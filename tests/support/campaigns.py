"""The campaign of a worker that is cut off: the way to its database falls silent, without closing a connection."""

import asyncio
import random
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

import httpx

from launchbay.postgres.server import EmbeddedPostgres
from tests.support.eventually import eventually
from tests.support.evidence import keep_evidence
from tests.support.failpoints import POINTS
from tests.support.family_load import family_violations
from tests.support.load import Load, WatchfulLoad
from tests.support.network import cutting_proxy
from tests.support.operations import OPERATIONS, PARK_AFTER_S, ROUNDS, Operation, Operations
from tests.support.replicas import Death, Pair
from tests.support.servers import Process, cut_power_of_postgres, healthy, join_postgres, remove_postgres
from tests.support.verdict import Kill, Line, Records, percentile, read_ledger, violations

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass
class Recoveries:
    """Seconds from a kill to the next step of each job of the killed process, in ascending order.

    Left out, and counted in `hit_again`, are jobs that a further kill came before: their time is not of one kill.
    """

    times_s: list[float] = field(default_factory=list)
    hit_again: int = 0

    def share_s(self, share: float) -> float | None:
        """Return the time that this share of the recoveries does not exceed; None without any."""
        return percentile(self.times_s, share) if self.times_s else None

    def __str__(self) -> str:
        if not self.times_s:
            return "none"
        p50, p99, most = percentile(self.times_s, 0.5), percentile(self.times_s, 0.99), self.times_s[-1]
        return (
            f"p50 {p50:.2f} s, p99 {p99:.2f} s, most {most:.2f} s of {len(self.times_s)}"
            f" (and {self.hit_again} that were hit again before)"
        )


def recoveries(kills: list[Kill], records: Records, ledger: list[Line]) -> Recoveries:
    """Return how long the jobs that killed processes were working on waited for a step on another process."""
    if not kills:
        return Recoveries()
    ended = dict(
        records.rows("SELECT id, extract(epoch FROM finished_at)::float8 FROM jobs WHERE finished_at IS NOT NULL")
    )
    by_job: dict[str, list[Line]] = defaultdict(list)
    by_pid: dict[int, dict[str, float]] = defaultdict(dict)  # the first line of each job
    for line in ledger:
        by_job[line.job].append(line)
        by_pid[line.pid].setdefault(line.job, line.at)
    in_order = sorted(kills, key=lambda each: each.at)
    found = Recoveries()
    for kill, following in zip_longest(in_order, in_order[1:]):
        next_kill = float("inf") if following is None else following.at
        for job, first_at in by_pid[kill.pid].items():
            if first_at > kill.at or ended.get(job, float("inf")) < kill.at:
                continue
            again = min((x.at for x in by_job[job] if x.at > kill.at and x.pid != kill.pid), default=float("inf"))
            if again < next_kill:
                found.times_s.append(again - kill.at)
            elif again < float("inf"):
                found.hit_again += 1
    found.times_s.sort()
    return found


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
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Campaign:
    """`launchbay serve` with its own database, killed and started again on the same data; sometimes both are killed.

    It is up for between so many seconds before each kill. `more` are further rules for the records of this load.
    """
    campaign = Campaign(directory, seed)
    server = Process(["serve", "--data-dir", str(directory), "--port", "0"], directory, defect, dict(settings))
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
    settings: Mapping[str, str] = NO_SETTINGS,
    of_first_worker: Mapping[str, str] = NO_SETTINGS,
) -> Campaign:
    """Two processes that run jobs, on one database: a worker and a server. A fault befalls them after each pause.

    `are_apart` makes them two workers, beside a server that only answers requests. `settings` are variables of all of
    the processes.
    """
    campaign = Campaign(directory, seed)
    postgres = await asyncio.to_thread(join_postgres, directory)
    shared = ["--data-dir", str(directory), "--database-url", postgres.url]
    serve = ["serve", *shared, "--port", "0", *(["--no-engine"] if are_apart else [])]
    server = Process(serve, directory, defect, dict(settings))
    workers = [
        Process(["worker", *shared], directory, defect, {**settings, **more_settings}, name=name)
        for name, more_settings in (("w1", of_first_worker), ("w2", {}))[: 1 + are_apart]
    ]
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


async def cut_off(
    directory: Path,
    seed: int,
    silences_s: Iterable[float],
    *,
    defect: str | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Campaign:
    """A worker that hears nothing for each of these times; then all that was held back arrives late.

    The server only answers requests, since it would keep most jobs for itself. Another worker takes them over.
    """
    campaign = Campaign(directory, seed)
    postgres = await asyncio.to_thread(join_postgres, directory)
    sockets = Path(parse_qs(urlsplit(postgres.url).query)["host"][0])
    try:
        async with cutting_proxy(sockets, directory / "p", seed) as proxy:
            shared = ["--data-dir", str(directory), "--database-url"]
            serve = ["serve", *shared, postgres.url, "--port", "0", "--no-engine"]
            server = Process(serve, directory, defect, dict(settings))
            worker = Process(["worker", *shared, proxy.url], directory, defect, dict(settings))
            other = Process(["worker", *shared, postgres.url], directory, defect, dict(settings), name="other")
            load = Load(lambda: server.port, seed)
            async with under_load(campaign, postgres.url, [server, worker, other], load):
                for silence_s in silences_s:
                    await asyncio.sleep(campaign.chance.uniform(2.0, 4.0))
                    campaign.kills.append(Kill(worker.pid, time.time()))
                    proxy.flowing.clear()
                    await asyncio.sleep(silence_s)
                    proxy.flowing.set()
                    await asyncio.sleep(3.0)
    finally:
        await asyncio.to_thread(postgres.stop)
        remove_postgres(directory)
    return campaign


def keep(kind: str, campaign: Campaign, **more: float) -> None:
    """Print the figures of a campaign of this kind, and write them down where evidence is collected.

    `more` is what is special about this kind, by names with their units.
    """
    special = "".join(f"; {name} {value:.4g}" for name, value in more.items())
    print(f"\n{kind}: {campaign.figures}{special}; {len(campaign.broken)} promises broken")
    recoveries = campaign.recoveries
    about = {
        "kind": kind,
        "seed": campaign.seed,
        "kills": len(campaign.kills),
        "recoveries": len(recoveries.times_s),
        "hit_again": recoveries.hit_again,
        "p50_s": recoveries.share_s(0.5),
        "p99_s": recoveries.share_s(0.99),
        "most_s": recoveries.share_s(1.0),
        "violations": campaign.broken,
        "figures": campaign.figures,
        **more,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    keep_evidence("faults", about)


HEALTHY_WITHIN_S = 90.0


@dataclass
class Failover:
    """A pair of databases, a server and a worker on them, and clients."""

    campaign: Campaign
    pair: Pair
    server: Process
    worker: Process
    load: WatchfulLoad
    died: list[str] = field(default_factory=list)  # processes that did not live through it
    healthy_after_s: list[float] = field(default_factory=list)  # after the promotion

    async def fail_over(self, death: Death, *, unseen_s: float = 0.0) -> None:
        """End the primary, promote its replica some time later, and wait for the server.

        For `unseen_s` before, nothing gets to the replica.
        """
        chance = self.campaign.chance
        if unseen_s:
            self.pair.primary.signal_all(signal.SIGSTOP, "walsender")
            await asyncio.sleep(unseen_s)
        await asyncio.to_thread(self.pair.end_primary, death)
        await asyncio.sleep(chance.uniform(0.0, 6.0))
        await asyncio.to_thread(self.pair.promote)
        promoted = time.monotonic()
        await eventually(lambda: healthy(self.server.port), within_s=HEALTHY_WITHIN_S)
        self.healthy_after_s.append(time.monotonic() - promoted)

    def logged(self, event: str) -> int:
        """Tell how often the processes logged an event."""
        return sum(log.read_text("utf-8").count(event) for log in self.campaign.directory.glob("*-1.log"))

    def keep(self, kind: str) -> None:
        """Print the figures, and write them down where evidence is collected."""
        keep(
            kind,
            self.campaign,
            failovers=len(self.healthy_after_s),
            healthy_after_most_s=max(self.healthy_after_s),
            workers_taken_for_dead=self.logged("worker.lease_lost"),
        )

    @property
    def figures(self) -> str:
        waits = ", ".join(f"{after:.2f}" for after in self.healthy_after_s)
        dead = self.logged("worker.lease_lost")
        return (
            f"{self.campaign.figures}; {len(self.healthy_after_s)} failovers, healthy {waits} s after the promotion;"
            f" {dead} times a worker was taken for dead"
        )


async def failovers(
    directory: Path,
    seed: int,
    deaths: Sequence[Death],
    *,
    asynchronous: bool = False,
    unseen_s: float = 0.0,
) -> Failover:
    """Fail over once for each of the deaths; between them the server that ended comes back as the replica."""
    campaign = Campaign(directory, seed)
    pair = await asyncio.to_thread(Pair.start, directory, seed, asynchronous=asynchronous)
    shared = ["--data-dir", str(directory), "--database-url", pair.url]
    server, worker = Process(["serve", *shared, "--port", "0"], directory), Process(["worker", *shared], directory)
    run = Failover(campaign, pair, server, worker, WatchfulLoad(lambda: server.port, seed))
    try:
        async with under_load(campaign, pair.url, [server, worker], run.load):
            for number, death in enumerate(deaths):
                if number:
                    await asyncio.to_thread(pair.rebuild)
                await asyncio.sleep(campaign.chance.uniform(3.0, 6.0))
                await run.fail_over(death, unseen_s=unseen_s)
            await asyncio.sleep(3.0)
            run.died = [process.command[0] for process in (server, worker) if not process.lives()]
    finally:
        await asyncio.to_thread(pair.stop)
    return run


REACHED_S = 40.0


class Stand:
    """A server with its database, for one failpoint after the other. `defect` is one of defects.py.

    With `settings` that name a NATS server, the server has no engine, and a worker runs the jobs: either may die.
    """

    def __init__(
        self, directory: Path, defect: str | None = None, *, settings: Mapping[str, str] = NO_SETTINGS
    ) -> None:
        self._directory = directory
        self._failpoint = directory / "failpoint"
        given = {"LAUNCHBAY_PARK_AFTER_S": str(PARK_AFTER_S), **settings}
        shared = ["--data-dir", str(directory)]
        if settings:
            self._postgres: EmbeddedPostgres | None = join_postgres(directory)
            shared += ["--database-url", self._postgres.url]
        else:
            self._postgres = None  # the server starts it
        serve = ["serve", *shared, "--port", "0", *(["--no-engine"] if settings else [])]
        self._server = Process(serve, directory, defect, given, failpoint=self._failpoint)
        self._processes = [self._server]
        if settings:
            self._processes.append(Process(["worker", *shared], directory, defect, given, failpoint=self._failpoint))
        self._load = Operations(lambda: self._server.port, 0)
        self._is_set_up = False
        self.is_sound = True

    async def judge(self, name: str, number: int) -> list[str]:
        """Let a process die at the pass of this number, start it again, and return every promise that is broken.

        Raises AssertionError when the operation does not lead there.
        """
        self.is_sound = False
        records = await self._ready()
        try:
            operation = OPERATIONS[POINTS[name].operation]
            await operation.prepare(self._load)
            assert await records.settled() == []
            if operation.is_recovery:
                await operation.act(self._load)
                await asyncio.to_thread(self._server.kill)
            self._failpoint.write_text(f"{name} {number}", "utf-8")
            await (self._recover() if operation.is_recovery else self._lead(operation, records))
            reached = self._failpoint.with_suffix(".reached")
            assert not self._lives(), f"{name} is not passed {number} times by {POINTS[name].operation!r}"
            assert reached.read_text("utf-8") == name, "it died of something else"
            self._failpoint.unlink()
            reached.unlink()
            await self._start()
            await self._load.stop_clocks(records)
            broken = [f"not settled: {each}" for each in await records.settled()]
            broken += violations(self._load.history, records, read_ledger(self._directory / "ledger"))
            broken += family_violations(records)
            broken += self._load.answers.violations(records, self._load.deletions.asked)
        finally:
            records.close()
            await self._load.close()
        self.is_sound = not broken
        return broken

    def end(self) -> None:
        """End everything."""
        for process in self._processes:
            process.end()
        if self._postgres is not None:
            self._postgres.stop()
        remove_postgres(self._directory)

    def _lives(self) -> bool:
        return all(process.lives() for process in self._processes)

    async def _start(self) -> None:
        """Start what does not run."""
        for process in self._processes:
            if not process.lives():
                await asyncio.to_thread(process.start)

    async def _ready(self) -> Records:
        self._load.open()
        if not self._is_set_up:
            await self._start()
            if self._postgres is None:
                self._postgres = await asyncio.to_thread(join_postgres, self._directory)
            await self._load.set_up()
            self._is_set_up = True
        assert self._postgres is not None
        return Records(self._postgres.url)

    async def _recover(self) -> None:
        """Start the server again, and let it die of that."""
        with suppress(AssertionError):  # it may die before it is ready
            await asyncio.to_thread(self._server.start)
        with suppress(AssertionError):
            await eventually(lambda: not self._server.lives(), within_s=REACHED_S)

    async def _lead(self, operation: Operation, records: Records) -> None:
        """Repeat the operation until a process dies of it."""
        for _ in range(ROUNDS):
            await operation.act(self._load)
            if operation.is_stop:
                await asyncio.to_thread(self._server.end)
                return
            with suppress(AssertionError):
                await eventually(lambda: not (self._lives() and records.left()), within_s=REACHED_S)
            await asyncio.sleep(0.2)  # what comes after the last trace in the database
            if not self._lives():
                return
            try:
                await operation.prepare(self._load)
            except httpx.HTTPError:
                if self._lives():
                    raise
                return  # the launch of another instance led there
