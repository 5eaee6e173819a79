"""Equal failures of an organization: their instances."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from launchbay.auth.permissions import Permission
from launchbay.clock import from_ms, to_ms
from launchbay.concurrency import computed
from launchbay.errors import BadRequest, NotFound
from launchbay.model.failures import Affected, FailureGroup, group_failures
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobOutcome, JobStatus, is_cancellation
from launchbay.store.fleet import FleetJobRow, FleetRow
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import (
    Cursor,
    InstanceFilter,
    JobFilter,
    invalid_cursor,
    list_jobs,
    page_of_instances,
    read_cursor,
)

EARLIER = "An earlier launch or change failed."
INCOMPLETE = "A component isn't launched, or a submodule has failed or is degraded."
LOOKED_AT = 2_000  # failed instances, and as many degraded ones
LOOKED_AT_JOBS = 1_000
_READ_AT_ONCE = 1_000
_ORDER = "failures"
T = TypeVar("T")


class Failures(NamedTuple):
    """Equal failures: those of failed instances first, then the latest.

    `is_whole`: no older ones were left out.
    """

    groups: list[FailureGroup[FleetRow]]
    is_whole: bool


async def list_failures(
    ctx: Context,
    organization_id: str,
    narrowed: InstanceFilter = InstanceFilter(),  # noqa: B008  # it can't change
    *,
    most: int = LOOKED_AT,
) -> Failures:
    """Return the failures of instances that the caller may read, `most` of each kind.

    The statuses of the filter don't count: those of failures do. An instance whose launch or change was cancelled is
    Failed, so it is among them, with the workflow as the place.
    """
    filters = (
        replace(narrowed, statuses=[InstanceStatus.FAILED], job_statuses=None, job_outcomes=None),
        replace(narrowed, statuses=None, job_statuses=None, job_outcomes=None, is_degraded=True),
    )
    found, is_whole = await _list_instances(ctx, organization_id, filters, most)
    groups = await _grouped(found, failure_message, _place_of_cancelled)
    groups.sort(key=is_degraded)
    return Failures(groups, is_whole)


async def _list_instances(
    ctx: Context, organization_id: str, filters: Sequence[InstanceFilter], most: int
) -> tuple[list[FleetRow], bool]:
    """Return the instances, `most` of each filter, and whether these are all."""
    found: list[FleetRow] = []
    is_whole = True
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        for wanted in filters:
            after: str | None = None
            for _ in range(0, most, _READ_AT_ONCE):
                page = await page_of_instances(
                    work, organization_id, wanted, Permission.READ, sort="-lastJob", after=after, count=_READ_AT_ONCE
                )
                found += page.rows
                after = None if page.next_after is None else page.next_after.to_text()
                if after is None:
                    break
            is_whole = is_whole and after is None
    return found, is_whole


async def _grouped(
    rows: list[FleetRow], message: Callable[[FleetRow], str], place: Callable[[FleetRow], str]
) -> list[FailureGroup[FleetRow]]:
    return await computed(
        sum(len(message(row)) for row in rows),
        partial(
            group_failures,
            rows,
            message,
            failed_at,
            lambda row: Affected(row.name, row.application, row.environment),
            place,
        ),
    )


async def list_resumable(
    ctx: Context, organization_id: str, failure_id: str, narrowed: InstanceFilter, *, most: int = LOOKED_AT
) -> list[FleetRow]:
    """Return the instances with a failure that resuming continues: that of their last job.

    Of chosen ones (`narrowed.ids`), these are all whose last job failed so. Otherwise they are those that the list of
    failures has for that. Raises NotFound if no instance has the failure any more, and BadRequest if other jobs have
    ended since on all of them.
    """
    if narrowed.ids is not None:
        failed = replace(narrowed, statuses=None, job_statuses=[JobStatus.FAILED], job_outcomes=None)
        rows, _ = await _list_instances(ctx, organization_id, [failed], most)
        for group in await _grouped(rows, lambda row: row.job_error or EARLIER, _place_of_cancelled_job):
            if group.id == failure_id:
                return group.items
    groups, _ = await list_failures(ctx, organization_id, narrowed, most=most)
    found = next((each for each in groups if each.id == failure_id), None)
    if found is None:
        raise NotFound("No instance has this failure now.", "List the failures again.")
    resumable = [row for row in found.items if row.job_status == JobStatus.FAILED and row.cause_error is None]
    if resumable:
        if left_out := found.count - len(resumable):
            ctx.warnings.append(
                f"Left out: {left_out} of the {found.count} instances. Another job has ended on them since."
            )
        return resumable
    row = found.items[0]
    if row.job_status != JobStatus.FAILED:
        raise BadRequest("The last job didn't fail, so there is nothing to resume.", code="JobSucceeded")
    raise BadRequest(
        f"Another job has failed since: on '{row.name}' it is {row.job_name!r} (ID {row.job_id}). Only the newest job"
        " of an instance can be resumed. Reconfigure the instance, or run the workflow again.",
        code="NotNewestJob",
    )


def is_degraded(group: FailureGroup[FleetRow]) -> bool:
    """Return whether all instances of the group run, though their last jobs failed."""
    return all(row.status != InstanceStatus.FAILED for row in group.items)


class JobFailures(NamedTuple):
    """Equal failures of jobs, the latest first. `is_whole`: no older jobs were left out."""

    groups: list[FailureGroup[FleetJobRow]]
    is_whole: bool


async def list_job_failures(ctx: Context, organization_id: str, wanted: JobFilter) -> JobFailures:
    """Return the failures of the latest jobs that fit.

    Those that the caller may not read don't count, nor do cancelled ones (decision 0176).
    """
    failed = replace(wanted, statuses=None, outcomes=[JobOutcome.FAILED])
    page = await list_jobs(ctx, organization_id, failed, sort="-created", after=None, count=LOOKED_AT_JOBS)
    groups = await computed(
        sum(len(row.error or "") for row in page.rows),
        partial(
            group_failures,
            page.rows,
            lambda row: row.error or "",
            lambda row: None if row.finished_at_ms is None else from_ms(row.finished_at_ms),
            lambda row: Affected(row.instance, row.application, row.environment),
        ),
    )
    return JobFailures(groups, page.next_after is None)


class FailurePage(NamedTuple, Generic[T]):
    """Failures in order, and where the next page begins."""

    groups: list[FailureGroup[T]]
    next_after: Cursor | None


def page_of_failures(
    groups: Sequence[FailureGroup[T]],
    after: str | None,
    count: int | None,
    *,
    comes_later: Callable[[FailureGroup[T]], bool] = lambda _: False,
) -> FailurePage[T]:
    """Return `count` failures after a place, the latest first; None is all.

    Below them are those that come later. A failure that occurs again moves to the front. Raises BadRequest for another
    cursor.
    """

    def place(group: FailureGroup[T]) -> tuple[bool, int, str]:
        return comes_later(group), 0 if group.last is None else -to_ms(group.last), group.id

    ordered = sorted(groups, key=place)
    if after is not None:
        begin = _place(read_cursor(after, _ORDER, is_time=False))
        ordered = [group for group in ordered if place(group) > begin]
    shown = ordered[:count]
    if len(shown) == len(ordered):
        return FailurePage(shown, None)
    is_later, at, failure_id = place(shown[-1])
    return FailurePage(shown, Cursor(_ORDER, f"{int(is_later)} {at}", failure_id))


def _place(cursor: Cursor) -> tuple[bool, int, str]:
    is_later, _, at = cursor.value.partition(" ")
    try:
        return bool(int(is_later)), int(at), cursor.id
    except ValueError as error:
        raise invalid_cursor() from error


def failure_message(row: FleetRow) -> str:
    """Return why an instance has failed or is degraded."""
    if row.cause_error is not None:
        return row.cause_error
    if row.job_status == JobStatus.FAILED and row.job_error:
        return row.job_error
    return INCOMPLETE if row.is_incomplete else EARLIER


def _place_of_cancelled(row: FleetRow) -> str:
    """Return the workflow, if somebody has cancelled it.

    The errors of others have their place in them.
    """
    if row.cause_error is None:
        return _place_of_cancelled_job(row)
    return (row.cause_workflow or "") if is_cancellation(row.cause_error) else ""


def _place_of_cancelled_job(row: FleetRow) -> str:
    return (row.job_name or "") if is_cancellation(row.job_error) else ""


def failed_at(row: FleetRow) -> datetime | None:
    at_ms = row.job_ended_at_ms if row.cause_at_ms is None else row.cause_at_ms
    return None if at_ms is None else from_ms(at_ms)
