"""Equal failures of an organization: their instances, and a way to resume them all."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from launchbay.auth.permissions import Permission
from launchbay.clock import from_ms
from launchbay.errors import NotFound
from launchbay.limits import BULK_INSTANCES
from launchbay.model.failures import FailureGroup, group_failures
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from launchbay.store.fleet import FleetRow
from launchbay.usecases.bulk import Act, BulkRequest, create_bulk, in_slices
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import InstanceFilter, page_of_instances

EARLIER = "An earlier launch or change failed."
LOOKED_AT = 2_000  # failed instances, and as many degraded ones
_READ_AT_ONCE = 1_000
_PARALLEL = 10


class Failures(NamedTuple):
    """Equal failures: those of failed instances first, then the latest.

    `is_whole`: no older ones were left out.
    """

    groups: list[FailureGroup[FleetRow]]
    is_whole: bool


async def list_failures(
    ctx: Context, organization_id: str, environment_ids: Sequence[str] | None = None, *, most: int = LOOKED_AT
) -> Failures:
    """Return the failures of instances that the caller may read, `most` of each kind."""
    is_whole = True
    found: list[FleetRow] = []
    filters = (
        InstanceFilter(statuses=[InstanceStatus.FAILED], environment_ids=environment_ids),
        InstanceFilter(
            statuses=[InstanceStatus.RUNNING], job_statuses=[JobStatus.FAILED], environment_ids=environment_ids
        ),
    )
    async with ctx.read() as work:
        organization = await work.lookup.organization(organization_id)
        for wanted in filters:
            after: str | None = None
            for _ in range(0, most, _READ_AT_ONCE):
                page = await page_of_instances(
                    work, organization.id, wanted, Permission.READ, sort="-lastJob", after=after, count=_READ_AT_ONCE
                )
                found += [row async for row in in_slices(page.rows)]
                after = None if page.next_after is None else page.next_after.to_text()
                if after is None:
                    break
            is_whole = is_whole and after is None
    groups = group_failures(found, failure_of, failed_at, lambda row: (row.name, row.application, row.environment))
    groups.sort(key=lambda group: all(row.status != InstanceStatus.FAILED for row in group.items))
    return Failures(groups, is_whole)


def failure_of(row: FleetRow) -> str:
    """Return the message of the failure of an instance."""
    return (row.job_error if row.job_status == JobStatus.FAILED else None) or EARLIER


def failed_at(row: FleetRow) -> datetime | None:
    return None if row.job_ended_at_ms is None else from_ms(row.job_ended_at_ms)


async def resume_failures(
    ctx: Context, organization_id: str, failure_id: str, environment_ids: Sequence[str] | None = None
) -> str:
    """Begin a bulk run that resumes all instances with a failure.

    Returns its ID. It refuses those whose workflow the caller may not run, each with its reason. Raises NotFound if no
    instance has this failure any more, and what `create_bulk` raises.
    """
    groups, _ = await list_failures(ctx, organization_id, environment_ids, most=BULK_INSTANCES)
    group = next((each for each in groups if each.id == failure_id), None)
    if group is None:
        raise NotFound("No instance has this failure any more.", "List the failures again.")
    ids = [row.id for row in group.items if row.id is not None][:BULK_INSTANCES]
    request = BulkRequest(act=Act(act="resume"), ids=ids, max_parallel=_PARALLEL, stop_after_failures=None)
    return await create_bulk(ctx, organization_id, request)
