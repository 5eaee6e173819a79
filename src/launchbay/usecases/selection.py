"""Which instances somebody has chosen, and what they may see of runs over many."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol, Self, TypeVar

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.gate import visible
from launchbay.auth.permissions import Permission
from launchbay.errors import (
    BadRequest,
    NotAllowed,
)
from launchbay.store.fleet import FleetRow
from launchbay.usecases.context import Work
from launchbay.usecases.events import mask_message
from launchbay.usecases.fleet import InstanceFilter, page_of_instances
from launchbay.usecases.on_behalf import Begun, may_control

_PAGE = 1_000
_SLICE_S = 0.01


SELECTED_ID_CHARS = 8  # a shorter word begins the IDs of all instances of a day, since IDs begin with the time


RowT = TypeVar("RowT")


async def in_slices(rows: Iterable[RowT]) -> AsyncIterator[RowT]:
    """Yield rows; others get their turn now and then, while permissions are compared."""
    until_s = time.perf_counter() + _SLICE_S
    for row in rows:
        yield row
        if time.perf_counter() > until_s:
            await asyncio.sleep(0)
            until_s = time.perf_counter() + _SLICE_S


async def choose_instances(
    work: Work, organization_id: str, ids: list[str] | None, wanted: InstanceFilter, most: int
) -> list[FleetRow]:
    """Return the instances with these IDs, or those that a filter finds, oldest first.

    Raises BadRequest for more than `most`, and for an instance that the caller can't read.
    """
    if ids is not None:
        wanted = InstanceFilter(ids=ids)
    rows: list[FleetRow] = []
    after: str | None = None
    while len(rows) <= most:
        page = await page_of_instances(
            work, organization_id, wanted, Permission.READ, sort="created", after=after, count=_PAGE
        )
        rows += page.rows
        if page.next_after is None:
            break
        after = page.next_after.to_text()
    if len(rows) > most:
        raise BadRequest(f"More than {most} instances fit. Choose fewer with a narrower filter.", code="TooMany")
    missing = sorted(set(ids or ()) - {row.id or "" for row in rows})
    if missing:
        raise BadRequest(f"ids: there is no instance {missing[0][:40]!r} that you may read.", code="UnknownId")
    return rows


KeepSeen = Callable[..., Awaitable[Sequence[str]]]  # a statement: those of the runs with a visible instance
RunT = TypeVar("RunT", bound="Begun")
_LOOKED_AT_ONCE = 100


async def visible_runs(work: Work, organization_id: str, rows: Sequence[RunT], keep: KeepSeen) -> list[RunT]:
    """Return the runs that the caller controls or may read a part of.

    Comments, owners and sizes of the others are none of their business.
    """
    grants = work.lookup.grants(organization_id)
    found = {row.id for row in rows if may_control(grants, work.actor, row)}
    others = [row.id for row in rows if row.id not in found]
    if others:
        found |= set(await keep(work.connection, ids=others, **visible(grants, Permission.READ)))
    return [row for row in rows if row.id in found]


def only_own(work: Work, organization_id: str) -> str | None:
    """Return the caller's ID if they can see only runs that they began."""
    grants = work.lookup.grants(organization_id)
    needed = (Permission.READ, Permission.EDIT_INSTANCE, Permission.APPROVE_INSTANCE_WORKFLOW)
    return None if any(map(grants.entries_for, needed)) else work.actor.user_id


async def page_of_visible(
    read_rows: Callable[..., Awaitable[Sequence[RunT]]],
    choose: Callable[[Sequence[RunT]], Awaitable[list[RunT]]],
    *,
    after: str | None,
    count: int,
) -> list[RunT]:
    """Return the first rows after an ID that `choose` lets through."""
    found: list[RunT] = []
    at_once = max(count, _LOOKED_AT_ONCE)  # who may see few of many runs doesn't make a round trip for each
    while len(found) < count:
        rows = await read_rows(after=after, count=at_once)
        found += await choose(rows)
        if len(rows) < at_once:
            break
        after = rows[-1].id
    return found[:count]


def require_visible(found: Sequence[RunT], what: str) -> RunT:
    """Return what a choice of visible runs has left. Raises NotAllowed."""
    if not found:
        raise NotAllowed(
            f"You may read nothing of the {what}.", "Ask an administrator of the organization for a role with Read."
        )
    return found[0]


class Touched(Protocol):
    """A row of an instance."""

    @property
    def application_id(self) -> str: ...
    @property
    def instance_id(self) -> str: ...
    @property
    def environment_id(self) -> str: ...


class Outcome(Touched, Protocol):
    """What became of an instance in a run over many, at its place."""

    @property
    def place(self) -> int: ...
    @property
    def message(self) -> str | None: ...
    @property
    def parameters(self) -> str | None: ...
    @property
    def environment_view(self) -> str | None: ...
    def _replace(self, *, message: str | None) -> Self: ...


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


async def list_outcomes(
    work: Work,
    organization_id: str,
    read_rows: Callable[..., Awaitable[Sequence[OutcomeT]]],
    *,
    after: int,
    count: int,
) -> list[OutcomeT]:
    """Return outcomes of readable instances, after a place, with secrets masked."""
    found: list[OutcomeT] = []
    while len(found) < count:
        rows = await read_rows(after=after, count=limits.PAGE_ROWS_MAX)
        found += [
            row._replace(message=await mask_message(row.message, row.parameters, row.environment_view))
            for row in rows
            if may_read(work, organization_id, row)
        ]
        if len(rows) < limits.PAGE_ROWS_MAX:
            break
        after = rows[-1].place
    return found[:count]


def may_read(work: Work, organization_id: str, row: Touched) -> bool:
    """Return whether the caller may read the instance of a row."""
    touched = permissions.instance(row.application_id, row.instance_id), permissions.environment(row.environment_id)
    return work.lookup.allows(organization_id, Permission.READ, *touched)
