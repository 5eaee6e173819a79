"""What jobs and instances wait for, as far as the caller may know."""

from collections.abc import Collection

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.model.job import Holder, Holders
from launchbay.model.waits import Wait, has_places, other_instances, read_waits
from launchbay.store import places as store
from launchbay.store import services
from launchbay.usecases.context import Work
from launchbay.usecases.selection import may_read

UNSEEN = "an instance that you can't see"
HOLDERS_SHOWN = 3
_HOLDERS_READ = 50  # some of them, the caller may not see


async def list_waits(
    work: Work, organization_id: str, instance_id: str, text: str, *, of_instance: bool = False
) -> list[Wait]:
    """Return what an instance or its job waits for, from the JSON of `launchbay_awaited`.

    Others are named if the caller may read them. Something of the organization was looked up before.
    """
    holders = await _holders(work, organization_id, instance_id) if has_places(text) else dict[str, Holders]()
    names = await readable_names(work, organization_id, other_instances(text))
    return read_waits(text, holders, names, of_instance=of_instance)


async def readable_names(work: Work, organization_id: str, instance_ids: Collection[str]) -> dict[str, str]:
    """Return the names of instances that the caller may read, by ID."""
    if not instance_ids:
        return {}
    rows = await services.list_instance_names(
        work.connection, organization_id=organization_id, ids=sorted(instance_ids)
    )
    return {
        row.id: row.name
        for row in rows
        if work.lookup.allows(
            organization_id,
            Permission.READ,
            permissions.instance(row.application_id, row.id),
            permissions.environment(row.environment_id),
        )
    }


async def _holders(work: Work, organization_id: str, instance_id: str) -> dict[str, Holders]:
    """Return who holds up the instance's job, by the title of the group."""
    rows = await store.list_holders(
        work.connection, organization_id=organization_id, instance_id=instance_id, count=_HOLDERS_READ
    )
    found: dict[str, Holders] = {}
    for row in rows:
        known = found.get(row.title, Holders())
        if len(known.shown) < HOLDERS_SHOWN and may_read(work, organization_id, row):
            holder = Holder(row.job_id, row.number, row.workflow, row.instance_id, row.instance, to_ms(row.since))
            found[row.title] = Holders((*known.shown, holder), more=known.more)
        else:
            found[row.title] = Holders(known.shown, more=True)
    return found
