"""One worker process: it runs jobs, and background tasks at fixed intervals.

Background tasks share one loop. A round that fails is logged and retried at the next interval, so a task never ends
before the process does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from launchbay.engine.dispatch import Dispatcher
from launchbay.engine.runner import Runner
from launchbay.engine.stager import Stager
from launchbay.errors import Unavailable
from launchbay.store.database import DatabaseError

log = structlog.get_logger(__name__)
LOST_JOBS_INTERVAL_S = 1.0
HOUSEKEEPING_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A background task. If a round returns a true value, the next one starts immediately.

    `stop` cancels a round of one that `may_take_long`.
    """

    name: str
    interval_s: float
    run: Callable[[], Awaitable[object]]
    may_take_long: bool = False


async def _until(stop: asyncio.Event, work: Awaitable[object]) -> object:
    """Return what the work returns, or None if `stop` came first."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait({working, stopping})


async def run_periodically(task: PeriodicTask, stop: asyncio.Event) -> None:
    """Run a task until `stop`. Failed rounds are logged and retried at the next interval."""
    while not stop.is_set():
        has_more = None
        try:
            has_more = await (_until(stop, task.run()) if task.may_take_long else task.run())
        except Unavailable as error:
            log.warning("background_task.postponed", task=task.name, error=str(error))
        except Exception:
            log.exception("background_task.failed", task=task.name)
        if has_more:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(task.interval_s):
                await stop.wait()
        except TimeoutError:
            continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Runs jobs and the background tasks of one worker process.

    `is_alone` means that no other process can use the database, so every worker that it lists is dead.
    """

    dispatcher: Dispatcher
    runner: Runner
    stager: Stager
    name: str
    stager_interval_s: float
    is_alone: bool = False
    periodic_tasks: tuple[PeriodicTask, ...] = ()  # work that any one process may do

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Running jobs then get their grace period; unfinished ones go to other workers."""
        if self.is_alone:
            await self._take_over_jobs()
        periodic_tasks = (
            PeriodicTask("stager", self.stager_interval_s, self.stager.fire_due),
            PeriodicTask("unblock", HOUSEKEEPING_INTERVAL_S, self.stager.unblock_forgotten),
            PeriodicTask("orphans", HOUSEKEEPING_INTERVAL_S, self.runner.cancel_orphans),
            PeriodicTask("lost jobs", LOST_JOBS_INTERVAL_S, self.runner.drop_lost_jobs),
            PeriodicTask("rescue", self.dispatcher.rescue_interval_s, self.dispatcher.rescue),
            *self.periodic_tasks,
        )
        async with asyncio.TaskGroup() as tasks:
            for task in periodic_tasks:
                tasks.create_task(run_periodically(task, stop), name=task.name)
            tasks.create_task(self.dispatcher.work(self.runner.run_job, name=self.name, stop=stop), name="worker")

    async def _take_over_jobs(self) -> None:
        """Take over the jobs of earlier processes without waiting for their leases to expire."""
        try:
            await self.dispatcher.take_over_all()
        except (DatabaseError, Unavailable) as error:
            log.warning("jobs.recovery_failed", error=str(error))  # the leases expire anyway
