"""Applications (reference §4, Applications; api-decisions, "Beyond the reference")."""

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import BadRequest
from launchbay.ids import NamedRow, new_id
from launchbay.store import applications
from launchbay.store import applications as store
from launchbay.store.applications import Application
from launchbay.store.database import Connection, refuse_duplicate
from launchbay.usecases.context import Desk, checked_name

DEFAULT_MANIFEST = "launch:\n  steps: []\ndestroy:\n  steps: []\n"


async def list_applications(desk: Desk, actor: Actor, organization_id: str) -> list[NamedRow]:
    """Return the applications of an organization that the caller may read, by name."""
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
        rows = await store.of_organization(connection, organization_id=organization.id)
    return [row for row in rows if lookup.allows(organization.id, Permission.READ, permissions.application(row.id))]


async def create_application(desk: Desk, actor: Actor, organization_id: str, name: str) -> str:
    """Create an application with the default no-op manifest as version 1 and return its id.

    Raises BadRequest for a name that is empty, too long or taken.
    """
    application_id = new_id()
    async with desk.database.transaction() as connection:
        organization = await desk.lookups.on(connection, actor).organization(
            organization_id, Permission.CREATE_APPLICATION, permissions.application(application_id)
        )
        name = checked_name(name)
        await insert_application(connection, application_id, organization.id, name)
        await applications.manifests_insert(
            connection, application_id=application_id, version=1, content=DEFAULT_MANIFEST, author_id=actor.user_id
        )
        await desk.audit.record(
            connection,
            actor,
            "create_application",
            str(permissions.application(application_id)),
            organization_id=organization.id,
            after={"name": name},
        )
    return application_id


async def insert_application(connection: Connection, application_id: str, organization_id: str, name: str) -> None:
    """Write an application without a manifest. Raises BadRequest for a name that is taken."""
    with refuse_duplicate(*_taken(name)):
        await store.insert(connection, application_id=application_id, organization_id=organization_id, name=name)


async def read_application(desk: Desk, actor: Actor, application_id: str) -> Application:
    """Return an application."""
    async with desk.database.connection() as connection:
        return await desk.lookups.on(connection, actor).application(application_id, Permission.READ)


async def rename_application(desk: Desk, actor: Actor, application_id: str, name: str) -> None:
    """Give an application another name. Raises BadRequest for a name that is bad or taken."""
    async with desk.database.transaction() as connection:
        application = await desk.lookups.on(connection, actor).application(application_id, Permission.EDIT_APPLICATION)
        name = checked_name(name)
        with refuse_duplicate(*_taken(name)):
            await store.rename(connection, application_id=application.id, name=name)
        await desk.audit.record(
            connection,
            actor,
            "rename_application",
            str(permissions.application(application.id)),
            organization_id=application.organization_id,
            before={"name": application.name},
            after={"name": name},
        )


async def delete_application(desk: Desk, actor: Actor, application_id: str) -> None:
    """Delete an application with its manifests, revisions and destroyed instances.

    Raises BadRequest while it has instances that are not destroyed.
    """
    async with desk.database.transaction() as connection:
        application = await desk.lookups.on(connection, actor).application(
            application_id, Permission.DELETE_APPLICATION
        )
        await store.lock_for_deletion(connection, application_id=application.id)
        active = await store.active_count(connection, application_id=application.id) or 0
        if active:
            raise BadRequest(
                f"The application {application.name!r} has instances that are not destroyed ({active}).",
                "Destroy them first.",
                code="ApplicationInUse",
            )
        await store.delete_instances(connection, application_id=application.id)
        await store.delete(connection, application_id=application.id)
        await desk.audit.record(
            connection,
            actor,
            "delete_application",
            str(permissions.application(application.id)),
            organization_id=application.organization_id,
            before={"name": application.name},
        )


def _taken(name: str) -> tuple[str, str]:
    return f"There is an application named {name!r} already. Choose another name.", "NameTaken"
