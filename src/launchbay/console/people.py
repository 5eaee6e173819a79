"""Names for ids, where a page would show nothing but an id."""

from collections.abc import Mapping

from launchbay.console.visit import Visit
from launchbay.errors import NotAllowed
from launchbay.usecases.users import list_users


async def names_of_people(visit: Visit, organization_id: str) -> Mapping[str, str]:
    """Return the names of an organization's users by their ids; those that the caller may not read are not there."""
    try:
        return {view.row.id: view.row.name for view in await list_users(visit.desk, visit.actor, organization_id)}
    except NotAllowed:
        return {}
