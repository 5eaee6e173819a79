"""The campaign of databases that fail over: the primary ends at once, its replica takes its place, and so on."""

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.durability.campaign import Campaign, under_load
from tests.durability.load import WatchfulLoad
from tests.durability.replicas import Death, Pair
from tests.durability.servers import Process, healthy

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
        async with asyncio.timeout(HEALTHY_WITHIN_S):
            while not await healthy(self.server.port):
                await asyncio.sleep(0.02)
        self.healthy_after_s.append(time.monotonic() - promoted)

    def logged(self, event: str) -> int:
        """Tell how often the processes logged an event."""
        return sum(log.read_text("utf-8").count(event) for log in self.campaign.directory.glob("*-1.log"))

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
