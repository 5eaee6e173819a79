"""Who holds the places for which a job waits."""

from launchbay.clock import to_ms
from launchbay.model.job import Holder, Holders
from launchbay.store import places as store
from launchbay.usecases.context import Work
from launchbay.usecases.selection import may_read

HOLDERS_SHOWN = 3
_HOLDERS_READ = 50  # some of them, the caller may not see


async def list_holders(work: Work, organization_id: str, instance_id: str) -> dict[str, Holders]:
    """Return who holds up the instance's job, by the title of the group.

    Only jobs that the caller may read are named. Something of the organization was looked up before.
    """
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
