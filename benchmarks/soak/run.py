"""One soak: processes under a steady load, kills, rounds with a verdict each, and samples all the time."""

import asyncio
import json
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

from benchmarks.soak.load import SoakLoad
from benchmarks.soak.samples import ProcessSample, Samples, look_at
from benchmarks.soak.visitors import Visitors
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo
from tests.support.campaigns import Campaign
from tests.support.family_load import family_violations
from tests.support.servers import Process, join_postgres, remove_postgres
from tests.support.verdict import Kill, Records

SAMPLE_S = 5.0
_METRICS_TOKEN = "metrics of the soak"
UP_S = (5.0, 40.0)
DOWN_S = (0.0, 6.0)
DAY_S = 86_400.0
JUDGING_S = 100.0  # how long a round may need to come to rest; what it did must be on record until then


@dataclass
class Soak:
    """What happened. `directory` holds the data, the logs and the ledger.

    The process `server` lives from the begin to the end, so that a slow leak has time to show; `second server` and
    `worker` are killed and started again. `visits` are the answers of `server` to those who only look, `changes` those
    of both servers to those who change things.
    """

    directory: Path
    seconds: float
    seed: int
    leak: str | None = None
    samples: Samples = field(default_factory=Samples)
    kills: list[Kill] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    rounds: int = 0
    launches: int = 0
    changes: Counter[int] = field(default_factory=Counter)
    recoveries_s: list[float] = field(default_factory=list)
    visits: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.directory.chmod(0o711)
        self._chance = random.Random(self.seed)
        self._round_s = min(60.0, self.seconds / 6)
        self.kept_s = self._round_s + JUDGING_S

    async def run(self) -> None:
        """Do it all."""
        postgres = await asyncio.to_thread(join_postgres, self.directory)
        processes = self._processes(postgres)
        try:
            for process in processes.values():
                self.starts_s.append(await asyncio.to_thread(process.start))
            await self._under_load(postgres.url, processes)
        finally:
            for process in processes.values():
                await asyncio.to_thread(process.end)
            await asyncio.to_thread(postgres.stop)
            remove_postgres(self.directory)

    def _processes(self, postgres: EmbeddedPostgres) -> dict[str, Process]:
        kept = str(self.kept_s / DAY_S)
        settings = {
            "LAUNCHBAY_LOG_LEVEL": "warning",
            "LAUNCHBAY_METRICS_TOKEN": _METRICS_TOKEN,
            **{f"LAUNCHBAY_{name}RETENTION_DAYS": kept for name in ("", "HISTORY_", "LOG_", "AUDIT_")},
        }
        shared = ["--data-dir", str(self.directory), "--database-url", postgres.url]
        serve = ["serve", *shared, "--port", "0"]
        second = self.directory / "second"
        second.mkdir(mode=0o711, exist_ok=True)
        return {
            "server": Process(serve, self.directory, self.leak, settings),
            "second server": Process(serve, second, None, settings | self._ledger()),
            "worker": Process(["worker", *shared], self.directory, None, settings),
        }

    def _ledger(self) -> dict[str, str]:
        return {"LAUNCHBAY_PROBE_LEDGER": str(self.directory / "ledger")}

    async def _under_load(self, url: str, processes: dict[str, Process]) -> None:
        servers = [processes["server"], processes["second server"]]
        load = SoakLoad(lambda: self._chance.choice(servers).port, self.seed)
        visitors = [Visitors(lambda server=server: server.port, self._chance) for server in servers]  # type: ignore[misc]  # its default is no argument of a caller's
        await load.set_up()
        around = [asyncio.create_task(each.visit()) for each in visitors]
        around += [asyncio.create_task(self._kill(processes[name])) for name in ("second server", "worker")]
        around.append(asyncio.create_task(self._sample(url, processes)))
        try:
            until = time.monotonic() + self.seconds
            while time.monotonic() < until and not any(task.done() for task in around):
                await self._round(load, url)
        finally:
            for task in around:
                task.cancel()
            ended = await asyncio.gather(*around, return_exceptions=True)
            await load.close()
        for error in ended:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                raise error
        self.visits = visitors[0].answers

    async def _round(self, load: SoakLoad, url: str) -> None:
        await load.begin_round()
        first = len(self.kills)
        async with load.going_on():
            await asyncio.sleep(self._round_s)
        judged = Campaign(self.directory, self.seed, kills=self.kills[first:], starts_s=self.starts_s)
        await judged.judge(load, url, family_violations)
        self.broken += judged.broken
        self.rounds += 1
        self.launches += len(load.history.launched) + len(load.deletions.asked)
        self.changes.update(load.history.statuses)
        self.recoveries_s += judged.recoveries.times_s
        at_s = self.samples.taken[-1].at if self.samples.taken else 0.0
        print(f"{at_s:6.0f} s  {judged.figures}; {judged.broken}", flush=True)
        await asyncio.to_thread(_forget_ledger_of_dropped_jobs, self.directory / "ledger", url)

    async def _kill(self, process: Process) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*UP_S))
            pid, at = process.pid, time.time()
            await asyncio.to_thread(process.kill)
            self.kills.append(Kill(pid, at))
            await asyncio.sleep(self._chance.uniform(*DOWN_S))
            self.starts_s.append(await asyncio.to_thread(process.start))

    async def _sample(self, url: str, processes: dict[str, Process]) -> None:
        with psycopg.connect(conninfo(url), autocommit=True) as database:
            while True:
                found = {name: await self._look_at(process) for name, process in processes.items()}
                present = {name: sample for name, sample in found.items() if sample is not None}
                await asyncio.to_thread(self.samples.take, database, present)
                await asyncio.sleep(SAMPLE_S)

    async def _look_at(self, process: Process) -> ProcessSample | None:
        text = ""
        if process.port is not None:
            with suppress(httpx.HTTPError):
                async with httpx.AsyncClient(trust_env=False, timeout=2) as http:
                    sent = {"Authorization": f"Bearer {_METRICS_TOKEN}"}
                    text = (await http.get(f"http://127.0.0.1:{process.port}/metrics", headers=sent)).text
        return look_at(process.pid, process.port, text)


def _forget_ledger_of_dropped_jobs(path: Path, url: str) -> None:
    """Keep the lines of the jobs that retention has left: only those are judged again. Nothing may be running."""
    records = Records(url)
    try:
        left = {row[0] for row in records.rows("SELECT id FROM jobs")}
    finally:
        records.close()
    kept = [line for line in path.read_bytes().splitlines(keepends=True) if _job_of(line) in left]
    path.write_bytes(b"".join(kept))


def _job_of(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["job"])
    except ValueError:  # a kill has cut it
        return None
