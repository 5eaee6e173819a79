"""Long work outside of a transaction, at rows held by a lease.

Whoever takes a row gets a fence with it. The lease is renewed during the work, and what it writes names the
fence. So a process that lost the lease writes nothing, and another one takes the work up.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from launchbay.errors import Fenced, LaunchbayError, Unavailable, internal_error
from launchbay.store.database import DatabaseError

log = structlog.get_logger(__name__)
LEASE_S = 60.0
_RENEW_S = 15.0


@dataclass(frozen=True, slots=True)
class LeasedWork:
    """Work at a row that was taken.

    `renew` returns 0 when the lease is lost.
    """

    row_id: str
    renew: Callable[[], Awaitable[int]]
    do: Callable[[], Awaitable[None]]
    note_failure: Callable[[LaunchbayError], Awaitable[None]]  # of a refusal, or of a defect without its text


class Leases:
    """Rows of one kind that this process works at, some at a time.

    A slow one holds up nobody else. `noun` names one, such as "Git source".
    """

    def __init__(self, noun: str, at_once: int) -> None:
        self._noun = noun
        self._at_once = at_once
        self._working: set[asyncio.Task[None]] = set()

    @property
    def room(self) -> int:
        """How many more rows this process may take."""
        return max(0, self._at_once - len(self._working))

    def begin(self, work: LeasedWork) -> None:
        task = asyncio.create_task(self._work(work), name=self._noun)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def close(self) -> None:
        """End the work under way. Another process takes it up when the leases end."""
        for task in self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(self._working)

    async def _work(self, work: LeasedWork) -> None:
        try:
            try:
                async with leased(work.renew):
                    await work.do()
            except Fenced:
                raise
            except LaunchbayError as error:
                await work.note_failure(error)
            except Exception:
                log.exception("lease.failed", noun=self._noun, id=work.row_id)
                await work.note_failure(LaunchbayError(internal_error(f"the {self._noun} {work.row_id}")))
        except Fenced:
            log.info("lease.lost", noun=self._noun, id=work.row_id)
        except Exception:
            # Noted nowhere else: the lease ends, and it begins again.
            log.exception("lease.not_noted", noun=self._noun, id=work.row_id)


@asynccontextmanager
async def leased(renew: Callable[[], Awaitable[int]]) -> AsyncIterator[None]:
    """Renew a lease during the block. Raises Fenced once it is lost."""
    working = asyncio.current_task()
    assert working is not None, "a coroutine runs in a task"
    is_lost = False

    async def keep() -> None:
        nonlocal is_lost
        kept = 1
        while kept:
            await asyncio.sleep(_RENEW_S)
            with suppress(Unavailable, DatabaseError):  # the fence guards what is written
                kept = await renew()
        is_lost = True
        working.cancel()

    keeping = asyncio.create_task(keep(), name="lease")
    try:
        yield
    except asyncio.CancelledError:
        if is_lost:
            working.uncancel()
            raise Fenced("Another process has this now, or somebody changed it.") from None
        raise
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
