"""Work that is done later, such as bulk runs and recurring schedules.

Work is rows that every process with an engine may take. One transaction takes a row, acts, and notes that, so that a
crash loses nothing and repeats nothing. `LaterWork` is one kind of work; a feature registers its kinds.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from launchbay.clock import Backoff
from launchbay.errors import LaunchbayError, Unavailable, internal_error
from launchbay.model.freezes import FROZEN
from launchbay.planning.decisions import Refused
from launchbay.store.database import Connection, DatabaseError
from launchbay.store.statements import Change, Column, Rows
from launchbay.usecases.context import AppContext

log = structlog.get_logger(__name__)
FROZEN_PAUSE_S = 600.0  # its end wakes what waits for it (`PutOff`)
_AGAIN = Backoff(1.0, 300.0)
_AWAY = 2  # attempts in a row without the database: it is away for the others too
Row = TypeVar("Row")
Item = TypeVar("Item")


def pause_of(refusal: LaunchbayError, now: datetime, busy_s: float) -> float:
    """Return after how many seconds another attempt makes sense.

    These are `busy_s` for what isn't frozen.
    """
    if isinstance(refusal, Refused) and refusal.until is not None:
        return max((refusal.until - now).total_seconds(), busy_s)
    return FROZEN_PAUSE_S if refusal.code in FROZEN else busy_s


@dataclass(frozen=True, slots=True)
class PutOff:
    """What a feature has put off.

    `wake` makes it due in an organization, since a freeze has ended or changed.
    """

    wake: Change


class LaterWork(ABC, Generic[Row, Item]):
    """One kind of work, whose rows have IDs.

    A row may have several items, such as the instances of a bulk run, or be one itself. All methods but `list_due` run
    in the transaction of `Later`: what one of them raises takes back what the others did.
    """

    task: ClassVar[str]  # the background task, as metrics and logs name it
    noun: ClassVar[str]  # what stands before an ID, such as "bulk run"
    every_s: ClassVar[float] = 0.5
    due: ClassVar[tuple[Column[str] | Rows[Any], ...]] = ()  # what wakes it (decision 0124); by default, each time

    def __init__(self, app: AppContext) -> None:
        self.app = app

    @abstractmethod
    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        """Return IDs of rows with work, without those that failed lately."""

    @abstractmethod
    async def take(self, connection: Connection, row_id: str) -> Row | None:
        """Lock a row. None: another process has it, or nothing is left to do."""

    @abstractmethod
    async def next(self, connection: Connection, row: Row) -> Item | bool:
        """Return the item to act on.

        Or change what needs no act, and return whether there may be more at once.
        """

    async def act(self, row: Row, item: Item) -> Any:
        """Act with use cases, which join the transaction; return what to note."""
        raise AssertionError("its `next` returns no items")

    async def note(self, connection: Connection, row: Row, item: Item, done: Any) -> None:
        """Write down that it is done, so that it isn't done again."""
        raise AssertionError("its `next` returns no items")

    async def put_off(self, connection: Connection, row: Row, item: Item, refusal: LaunchbayError) -> None:
        """Write down a refusal, and when to try again, if ever.

        The act was taken back. The row is locked again, and the item is still the next one.
        """
        raise AssertionError("its `next` returns no items")


class Later(Generic[Row, Item]):
    """Does one kind of work; `advance` is one round."""

    def __init__(self, work: LaterWork[Row, Item]) -> None:
        self._work = work
        self._database = work.app.database
        self._attempts = Attempts(work.noun, self._do_next)

    async def advance(self) -> bool:
        """Do what is next of each due row; return whether there may be more."""
        async with self._database.connection() as connection:
            due = await self._work.list_due(connection, self._attempts.waiting)
        return await self._attempts.make(due)

    async def _do_next(self, row_id: str) -> bool:
        item: Item | None = None
        try:
            async with self._database.transaction() as connection:
                row = await self._work.take(connection, row_id)
                if row is None:
                    return False
                found = await self._work.next(connection, row)
                if isinstance(found, bool):
                    return found
                item = found
                with self._database.joined(connection):
                    done = await self._work.act(row, item)
                await self._work.note(connection, row, item, done)
                return True
        except (Unavailable, DatabaseError):
            raise  # nobody refused it: `Attempts` makes another one
        except LaunchbayError as error:
            if item is None:
                raise
            refusal = error
        except Exception:
            if item is None:
                raise
            # A defect of ours. Another attempt would fail the same way, and its text is for the log.
            log.exception("later.failed", task=self._work.task, id=row_id)
            refusal = LaunchbayError(internal_error(f"the {self._work.noun} {row_id}"))
        return await self._put_off(row_id, item, refusal)

    async def _put_off(self, row_id: str, item: Item, refusal: LaunchbayError) -> bool:
        """Note a refusal, unless something else is next meanwhile."""
        async with self._database.transaction() as connection:
            row = await self._work.take(connection, row_id)
            if row is None:
                return False
            found = await self._work.next(connection, row)
            if isinstance(found, bool):
                return found
            if found == item:
                await self._work.put_off(connection, row, item, refusal)
            return True


class Attempts:
    """Attempts at rows of one kind, by ID.

    A row that fails waits, and the others don't. `attempt` returns whether another one is possible at once.
    """

    def __init__(self, noun: str, attempt: Callable[[str], Awaitable[bool]]) -> None:
        self._noun = noun
        self._attempt = attempt
        self._failures: dict[str, tuple[int, float]] = {}

    @property
    def waiting(self) -> list[str]:
        """Those that failed lately."""
        now_s = time.monotonic()
        return [each for each, (_, until_s) in self._failures.items() if until_s > now_s]

    async def make(self, ids: Iterable[str]) -> bool:
        """Make one at each. Return whether another round is possible at once.

        Raises Unavailable when the database is away.
        """
        waiting = set(self.waiting)
        has_more, away = False, 0
        for each in ids:
            if each in waiting:
                continue
            try:
                has_more |= await self._attempt(each)
            except Unavailable as error:
                self._note(each, error)
                away += 1
                if away == _AWAY:
                    raise
            except Exception as error:  # noqa: BLE001 - of one: the others must not wait for its repair
                self._note(each, error)
                away = 0
            else:
                self._failures.pop(each, None)
                away = 0
        return has_more

    def _note(self, failed: str, error: Exception) -> None:
        failures = self._failures.get(failed, (0, 0.0))[0] + 1
        now_s, again_s = time.monotonic(), _AGAIN.delay_s(failures)
        # What was deleted meanwhile is forgotten.
        self._failures = {each: noted for each, noted in self._failures.items() if noted[1] > now_s - _AGAIN.longest_s}
        self._failures[failed] = failures, now_s + again_s
        log.warning("later.postponed", noun=self._noun, id=failed, again_s=again_s, exc_info=error)
