"""What a caller may do, asked ahead of doing it: so that nobody is offered what would be refused."""

from dataclasses import dataclass

from launchbay.auth import permissions
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Actor, Permission, Resource
from launchbay.ids import new_id
from launchbay.store import organizations as store
from launchbay.store.database import Connection
from launchbay.usecases.desk import Desk


@dataclass(frozen=True, slots=True)
class Permitted:
    """The gate's answers for one caller in one organization, with the grants of the moment it was asked for."""

    lookup: Lookup
    organization_id: str

    def allows(self, permission: Permission, *touched: Resource) -> bool:
        """Decide as an operation on these resources does; the first one is its object."""
        return self.lookup.allows(self.organization_id, permission, *touched)

    def holds_role(self, name: str) -> bool:
        """Tell whether a role of this name is assigned to the caller."""
        return any(held.role == name for held in self.lookup.grants(self.organization_id).roles)

    def holds(self, permission: Permission) -> bool:
        """Tell whether the permission is held for anything at all."""
        return self.lookup.holds(self.organization_id, permission)


async def permitted(desk: Desk, actor: Actor, organization_id: str) -> Permitted:
    """Return what the caller may do in an organization. Raises NotAllowed for one that they do not belong to."""
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
    return Permitted(lookup, organization.id)


async def permitted_anywhere(connection: Connection, lookup: Lookup) -> list[Permitted]:
    """Return what the caller may do in each of their organizations."""
    caller = await lookup.caller()
    rows = await store.of_user(connection, user_id=caller.id)
    for row in rows:
        await lookup.organization(row.id)
    return [Permitted(lookup, row.id) for row in rows]


def manages_every_user(found: Permitted) -> bool:
    """Tell whether the caller may manage whoever comes: what takes this is about a whole organization."""
    return found.allows(Permission.MANAGE_USERS, permissions.user(new_id()))
