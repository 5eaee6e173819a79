"""Organizations (reference §4, Organizations; api-decisions, "Beyond the reference")."""

from launchbay.auth import permissions
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import NotAllowed
from launchbay.ids import NamedRow, new_id
from launchbay.store import organizations as store
from launchbay.store.database import Connection
from launchbay.store.organizations import Organization
from launchbay.usecases import first_start
from launchbay.usecases.desk import Desk
from launchbay.usecases.names import checked_name
from launchbay.usecases.permitted import manages_every_user, permitted_anywhere


async def list_organizations(desk: Desk, actor: Actor) -> list[NamedRow]:
    """Return the organizations that the caller belongs to, by name."""
    async with desk.database.connection() as connection:
        caller = await desk.lookups.on(connection, actor).caller()
        return await store.of_user(connection, user_id=caller.id)


async def read_organization(desk: Desk, actor: Actor, organization_id: str) -> Organization:
    """Return an organization that the caller belongs to."""
    async with desk.database.connection() as connection:
        return await desk.lookups.on(connection, actor).organization(organization_id)


async def create_organization(desk: Desk, actor: Actor, name: str) -> str:
    """Create an organization with all that comes with one, and make the caller its administrator; return its id.

    Whoever administers an organization runs workflows, so not everybody may make one for themselves: the caller must be
    allowed to create users in an organization already. Names need not differ, because a refusal would tell which
    organizations there are. Raises BadRequest for a bad name.
    """
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        caller = await lookup.caller()
        await require_creation(connection, lookup)
        name = checked_name(name)
        organization_id = await first_start.create_organization(connection, name, caller.id)
        await desk.audit.record(
            connection,
            actor,
            "create_organization",
            f"/organizations/{organization_id}",
            organization_id=organization_id,
            after={"name": name},
        )
    return organization_id


async def rename_organization(desk: Desk, actor: Actor, organization_id: str, name: str) -> None:
    """Give an organization another name; the permission is ManageUsers for all users. Raises BadRequest."""
    async with desk.database.transaction() as connection:
        organization = await desk.lookups.on(connection, actor).organization(
            organization_id, Permission.MANAGE_USERS, permissions.user(new_id())
        )
        name = checked_name(name)
        await store.rename(connection, organization_id=organization.id, name=name)
        await desk.audit.record(
            connection,
            actor,
            "rename_organization",
            f"/organizations/{organization.id}",
            organization_id=organization.id,
            before={"name": organization.name},
            after={"name": name},
        )


async def require_creation(connection: Connection, lookup: Lookup) -> None:
    """Raise NotAllowed for a caller who may not create an organization."""
    if not await _may_create(connection, lookup):
        raise NotAllowed(
            f"You need the permission {Permission.MANAGE_USERS} for all users of an organization to create "
            "another one.",
            "Ask an administrator to create it and to add you.",
        )


async def may_create_organization(desk: Desk, actor: Actor) -> bool:
    """Tell whether `create_organization` would be refused to the caller."""
    async with desk.database.connection() as connection:
        return await _may_create(connection, desk.lookups.on(connection, actor))


async def _may_create(connection: Connection, lookup: Lookup) -> bool:
    return any(manages_every_user(found) for found in await permitted_anywhere(connection, lookup))
