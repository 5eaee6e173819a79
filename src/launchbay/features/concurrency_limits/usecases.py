"""Limits of how many jobs run at a time: settings, and who has places."""

from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth.lookup import RuleOwner
from launchbay.errors import BadRequest
from launchbay.features.concurrency_limits import rows as store
from launchbay.features.concurrency_limits.rows import PlaceRow
from launchbay.model.job import CANCELLED
from launchbay.model.places import ConcurrencyLimit, read_limits
from launchbay.store import jobs, places
from launchbay.store.database import Database
from launchbay.usecases.context import Context, Work
from launchbay.usecases.selection import may_read

POLL_S = 0.5
_OUTRUN = 100  # cancelled before the other tasks of the process get their turn


@dataclass(frozen=True, slots=True)
class Group:
    """A group of jobs with a limit.

    `places` are those of jobs that the caller may read; the counts are of all.
    """

    title: str
    most: int
    held: int
    waiting: int
    places: list[PlaceRow]


async def read_concurrency(ctx: Context, kind: RuleOwner, owner_id: str) -> list[ConcurrencyLimit]:
    """Return the limits that are set for an application or environment."""
    async with ctx.read() as work:
        found = await work.lookup.rule_owner(kind, owner_id)
        return await _read(work, kind, found.id)


async def replace_concurrency(ctx: Context, kind: RuleOwner, owner_id: str, given: list[Any]) -> None:
    """Replace the limits that are set for an application or environment.

    They count at once for the jobs that wait. Jobs that had no limit when they were accepted have no place. Raises
    BadRequest for limits that make no sense.
    """
    try:
        wanted = read_limits(given, kind)
    except ValueError as error:
        raise BadRequest(f"Can't read the limits: {error}.", code="InvalidConcurrency") from error
    async with ctx.begin() as work:
        found = await work.lookup.rule_owner(kind, owner_id, edits=True)
        before = await _read(work, kind, found.id)
        if wanted:
            write = store.set_application_limits if kind == "application" else store.set_environment_limits
            await write(
                work.connection,
                owner_id=found.id,
                organization_id=found.organization_id,
                limits=msgspec.json.encode(wanted).decode(),
            )
        else:
            await store.remove_limits(work.connection, organization_id=found.organization_id, owner_id=found.id)
        await store.apply_change(
            work.connection,
            organization_id=found.organization_id,
            owner_id=found.id,
            keys=[each.key for each in wanted],
            mosts=[each.limit for each in wanted],
        )
        await work.audit(
            f"replace_{kind}_concurrency",
            found,
            {"limits": msgspec.to_builtins(before)},
            {"limits": msgspec.to_builtins(wanted)},
        )


async def _read(work: Work, kind: RuleOwner, owner_id: str) -> list[ConcurrencyLimit]:
    row = await places.get_settings(work.connection, application_id=owner_id, environment_id=owner_id)
    assert row is not None, "a statement without FROM gives a row"
    text = row.application_limits if kind == "application" else row.environment_limits
    return [] if text is None else msgspec.json.decode(text, type=list[ConcurrencyLimit])


async def list_groups(ctx: Context, organization_id: str) -> list[Group]:
    """Return the groups with a limit that have jobs now, by title."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_places(
            work.connection, organization_id=organization_id, count=limits.CONCURRENCY_PLACES_SHOWN
        )
        by_bucket: dict[str, list[PlaceRow]] = {}
        for row in rows:
            by_bucket.setdefault(row.bucket, []).append(row)
        found = [
            Group(
                places[0].title,
                places[0].least,
                places[0].held,
                places[0].waiting,
                [each for each in places if may_read(work, organization_id, each)],
            )
            for places in by_bucket.values()
        ]
    return sorted((each for each in found if each.places), key=lambda each: each.title)


async def cancel_outrun(database: Database) -> bool:
    """Cancel jobs that newer ones ask to end. True: there may be more.

    Cancelling locks the job, which its end holds while it waits for the places of the organization. So the transaction
    that accepts the newer job only leaves a mark.
    """
    async with database.connection() as connection:
        outrun = await store.list_outrun(connection, count=_OUTRUN)
        for row in outrun:
            reason = f"{CANCELLED}a newer job: there is a limit for {row.title}."
            await jobs.cancel(connection, job_id=row.job_id, reason=reason)
    return len(outrun) == _OUTRUN
