"""The small repeated duties of a worker process, all in one loop shape."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import psycopg
import structlog

from launchbay.engine.queue import Queue
from launchbay.engine.rescuer import Rescuer
from launchbay.engine.runner import Runner
from launchbay.engine.stager import Stager
from launchbay.errors import Unavailable

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something done again and again. A round that returns a true value is followed by the next at once."""

    name: str
    interval_s: float
    round: Callable[[], Awaitable[object]]


async def attend(duty: Duty, stop: asyncio.Event) -> None:
    """Do a duty until `stop`. A round that fails is logged and tried again at its next time, whatever the reason.

    A duty that ended for one bad round would be missed only when it is needed most.
    """
    while not stop.is_set():
        again = None
        try:
            again = await duty.round()
        except Unavailable as error:
            log.warning("duty.postponed", duty=duty.name, error=str(error))
        except Exception:
            log.exception("duty.failed", duty=duty.name)
        if again:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(duty.interval_s):
                await stop.wait()
        except TimeoutError:
            continue


RUN_JOB = "run_job"  # also in store/queries/jobs.sql
LOOK_AFTER_S = 1.0
RECALL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Claims and runs jobs, fires what falls due, and takes over the jobs of dead workers.

    `is_alone` says that no other process can work on the database, so that all workers it tells of are dead.
    """

    queue: Queue
    runner: Runner
    stager: Stager
    name: str
    concurrency: int
    rescuer: Rescuer
    stager_interval_s: float
    is_alone: bool = False
    further_duties: tuple[Duty, ...] = ()  # of those whose work only needs to be done by somebody, now and then

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; running jobs get their grace time, and the rest is handed over."""
        if self.is_alone:
            await self._inherit()
        duties = (
            Duty("stager", self.stager_interval_s, self.stager.fire_due),
            Duty("recall", RECALL_S, self.stager.recall_forgotten),
            Duty("orphans", RECALL_S, self.runner.give_up_orphans),
            Duty("look after", LOOK_AFTER_S, self.runner.look_after),
            Duty("rescue", self.rescuer.interval_s, self.rescuer.look),
            *self.further_duties,
        )
        async with asyncio.TaskGroup() as tasks:
            for duty in duties:
                tasks.create_task(attend(duty, stop), name=duty.name)
            tasks.create_task(
                self.queue.work(
                    {RUN_JOB: self.runner.run_job}, concurrency=self.concurrency, name=self.name, stop=stop
                ),
                name="worker",
            )

    async def _inherit(self) -> None:
        """Take over the jobs of those who worked here before, without waiting for their leases to end."""
        try:
            freed = await self.queue.rescue(await self.queue.beats())
        except psycopg.Error as error:
            log.warning("engine.nothing_inherited", error=str(error))  # the leases end all the same
        else:
            log.info("engine.inherited", jobs=freed)
