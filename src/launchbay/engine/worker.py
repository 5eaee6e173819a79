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
class PeriodicTask:
    """Something done again and again. A round that returns a true value is followed by the next at once."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[object]]


async def run_periodically(task: PeriodicTask, stop: asyncio.Event) -> None:
    """Do a duty until `stop`. A round that fails is logged and tried again at its next time, whatever the reason.

    A duty that ended for one bad round would be missed only when it is needed most.
    """
    while not stop.is_set():
        again = None
        try:
            again = await task.run()
        except Unavailable as error:
            log.warning("background_task.postponed", task=task.name, error=str(error))
        except Exception:
            log.exception("background_task.failed", task=task.name)
        if again:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(task.interval_s):
                await stop.wait()
        except TimeoutError:
            continue


RUN_JOB = "run_job"  # also in store/queries/jobs.sql
LOST_JOBS_INTERVAL_S = 1.0
HOUSEKEEPING_INTERVAL_S = 5.0


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
    periodic_tasks: tuple[PeriodicTask, ...] = ()  # of those whose work only needs to be done by somebody, now and then

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; running jobs get their grace time, and the rest is handed over."""
        if self.is_alone:
            await self._take_over_jobs()
        duties = (
            PeriodicTask("stager", self.stager_interval_s, self.stager.fire_due),
            PeriodicTask("recall", HOUSEKEEPING_INTERVAL_S, self.stager.unblock_forgotten),
            PeriodicTask("orphans", HOUSEKEEPING_INTERVAL_S, self.runner.cancel_orphans),
            PeriodicTask("look after", LOST_JOBS_INTERVAL_S, self.runner.drop_lost_jobs),
            PeriodicTask("rescue", self.rescuer.interval_s, self.rescuer.check),
            *self.periodic_tasks,
        )
        async with asyncio.TaskGroup() as tasks:
            for task in duties:
                tasks.create_task(run_periodically(task, stop), name=task.name)
            tasks.create_task(
                self.queue.work(
                    {RUN_JOB: self.runner.run_job}, concurrency=self.concurrency, name=self.name, stop=stop
                ),
                name="worker",
            )

    async def _take_over_jobs(self) -> None:
        """Take over the jobs of those who worked here before, without waiting for their leases to end."""
        try:
            freed = await self.queue.rescue(await self.queue.heartbeats())
        except psycopg.Error as error:
            log.warning("jobs.recovery_failed", error=str(error))  # the leases end all the same
            return
        if freed:
            log.info("jobs.recovered", jobs=freed)
