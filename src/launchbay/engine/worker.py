"""One worker process: it runs jobs, and background tasks.

Background tasks share one loop. A round that fails is logged and retried at the next interval, so a task never ends
before the process does. Most tasks rarely have work: one statement asks for all of them whether there is any.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

import structlog

from launchbay.clock import Clock
from launchbay.engine.dispatch import Dispatcher
from launchbay.engine.runner import Runner
from launchbay.engine.stager import Stager
from launchbay.errors import Unavailable
from launchbay.store import dispatch as store_dispatch
from launchbay.store.database import Database, DatabaseError
from launchbay.store.statements import Column, Look, Rows

log = structlog.get_logger(__name__)
LOST_JOBS_INTERVAL_S = 1.0
HOUSEKEEPING_INTERVAL_S = 5.0
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A background task.

    If a round returns a true value, the next one starts immediately.

    `stop` cancels a round of one that `may_take_long`. One with `due` has a round only if one of these reads has rows.
    They get the parameters `now`, `but` (nothing) and `count` (1). `seconds_to_next` may shorten the interval.
    """

    name: str
    interval_s: float
    run: Callable[[], Awaitable[object]]
    may_take_long: bool = False
    due: tuple[Column[str] | Column[int] | Rows[Any], ...] = ()
    seconds_to_next: Callable[[], float] = lambda: math.inf


class Looks:
    """Tells tasks when they have work, with one statement for all of them."""

    def __init__(self, database: Database, clock: Clock, tasks: Collection[PeriodicTask]) -> None:
        self._database = database
        self._clock = clock
        self.due = {task.name: asyncio.Event() for task in tasks}
        self._names = [task.name for task in tasks for _ in task.due]
        self._look = Look([read for task in tasks for read in task.due])

    async def look(self) -> None:
        """Look once. Raises Unavailable."""
        async with self._database.connection() as connection:
            found = await self._look(connection, now=self._clock.now(), but=[], count=1)
        for name, has_rows in zip(self._names, found, strict=True):
            if has_rows:
                self.due[name].set()


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


async def run_periodically(task: PeriodicTask, stop: asyncio.Event, due: asyncio.Event | None = None) -> None:
    """Run a task until `stop`, each round after `due` if it is given.

    Failed rounds are logged and retried at the next interval.
    """
    while not stop.is_set():
        has_more = None
        if due is not None:
            await _until(stop, due.wait())
            if stop.is_set():
                return
            due.clear()
        try:
            has_more = await (_until(stop, task.run()) if task.may_take_long else task.run())
        except Unavailable as error:
            log.warning("background_task.postponed", task=task.name, error=str(error), repeats=True)
        except Exception:
            log.exception("background_task.failed", task=task.name)
        if has_more:
            if due is not None:
                due.set()
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(min(task.interval_s, task.seconds_to_next())):
                await stop.wait()
        except TimeoutError:
            continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Runs jobs and the background tasks of one worker process.

    `is_alone` means that no other process can use the database, so every worker that it lists is dead.
    """

    database: Database
    clock: Clock
    dispatcher: Dispatcher
    runner: Runner
    stager: Stager
    name: str
    stager_interval_s: float
    is_alone: bool = False
    periodic_tasks: tuple[PeriodicTask, ...] = ()  # work that any one process may do

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`.

        Running jobs then get their grace period; unfinished ones go to other workers.
        """
        if self.is_alone:
            await self._take_over_jobs()
        periodic_tasks = (
            PeriodicTask(
                "stager",
                self.stager_interval_s,
                self.stager.fire_due,
                seconds_to_next=self.stager.seconds_to_next,
            ),
            PeriodicTask("unblock", HOUSEKEEPING_INTERVAL_S, self.stager.unblock_forgotten),
            PeriodicTask("orphans", HOUSEKEEPING_INTERVAL_S, self.runner.cancel_orphans),
            PeriodicTask("lost jobs", LOST_JOBS_INTERVAL_S, self.runner.drop_lost_jobs),
            PeriodicTask("rescue", self.dispatcher.rescue_interval_s, self.dispatcher.rescue),
            PeriodicTask("unheld jobs", LOOK_S, self.dispatcher.rescue_unheld, due=(store_dispatch.list_unheld,)),
            *self.periodic_tasks,
        )
        looks = Looks(self.database, self.clock, [task for task in periodic_tasks if task.due])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_periodically(PeriodicTask("looks", LOOK_S, looks.look), stop), name="looks")
            for task in periodic_tasks:
                tasks.create_task(run_periodically(task, stop, looks.due.get(task.name)), name=task.name)
            tasks.create_task(self.dispatcher.work(self.runner.run_job, name=self.name, stop=stop), name="worker")

    async def _take_over_jobs(self) -> None:
        """Take over the jobs of earlier processes without waiting for their leases to expire."""
        try:
            await self.dispatcher.take_over_all()
        except (DatabaseError, Unavailable) as error:
            log.warning("jobs.recovery_failed", error=str(error))  # the leases expire anyway
