"""Requests that wait for the end of jobs (decision 0139).

They hold nothing meanwhile, and one look at the database serves them all.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from launchbay.clock import Backoff
from launchbay.concurrency import shielded
from launchbay.model.instance import InstanceStatus
from launchbay.planning.acceptance import Dispatch
from launchbay.store import jobs as store
from launchbay.store.database import Database
from launchbay.tenants import current_tenant

# A job is under way, or about to be.
BUSY = frozenset({InstanceStatus.REQUESTED, InstanceStatus.EXECUTING, InstanceStatus.DESTROYING})
_LOOKS = Backoff(0.05, 1.0)  # at work that another process may do
_TOGETHER_S = 0.02  # looks that begin within this time are one


class Awaited(NamedTuple):
    """A job whose end is awaited; without one, any job of the instance."""

    instance_id: str
    job_id: str | None = None


class Ends:
    """Waits for the ends of jobs.

    Those in this process are noticed at once, others by looking.
    """

    def __init__(self, database: Database, dispatch: Dispatch, closing: asyncio.Event) -> None:
        self._database = database
        self._dispatch = dispatch
        self._closing = closing
        self._asked: set[Awaited] = set()  # of the look that comes next
        self._look: asyncio.Task[set[str]] | None = None
        self.looks = 0
        self.waiting = 0

    async def wait(self, awaited: Awaited, until_s: float) -> None:
        """Wait until the work has ended or is gone, or the server closes.

        At `until_s`, a time of the event loop, it returns in any case. Raises Unavailable.
        """
        loop = asyncio.get_running_loop()
        delays = _LOOKS.delays()
        with self._dispatch.watch_ends(awaited.instance_id) as waiter, self._counted():
            while not self._closing.is_set() and (left_s := until_s - loop.time()) > 0:
                await waiter.wait(min(left_s, next(delays)))
                if loop.time() < until_s and not await self._is_under_way(awaited):
                    return

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def _is_under_way(self, awaited: Awaited) -> bool:
        if self._look is None:
            self._look = asyncio.create_task(self._look_soon(), name="look for ended jobs")
            self._look.add_done_callback(_mark_retrieved)
        self._asked.add(awaited)
        return (awaited.job_id or awaited.instance_id) in await shielded(self._look)

    async def _look_soon(self) -> set[str]:
        """Return which of the awaited jobs are under way, and which instances are busy."""
        current_tenant.set("")  # it is for all who wait
        await asyncio.sleep(_TOGETHER_S)
        asked, self._asked, self._look = self._asked, set(), None
        self.looks += 1
        async with self._database.connection() as connection:
            found = await store.list_under_way(
                connection,
                job_ids=[each.job_id for each in asked if each.job_id is not None],
                instance_ids=[each.instance_id for each in asked if each.job_id is None],
                busy=sorted(BUSY),
            )
        return set(found or ())


def _mark_retrieved(look: asyncio.Task[set[str]]) -> None:
    """Take the error of a look whose waiters are all gone."""
    if not look.cancelled():
        look.exception()
