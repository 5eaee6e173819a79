"""The first start on an empty database: an organization, its built-in parts and the administrator (api-decisions)."""

import secrets
from dataclasses import dataclass

from launchbay.access.grants import ADMINISTRATOR_TEXT, GUEST_TEXT
from launchbay.access.passwords import Passwords
from launchbay.ids import new_id
from launchbay.model.role import RoleKind
from launchbay.service_types.vault import SecureStore
from launchbay.service_types.workflow_service import WorkflowService
from launchbay.store import environments, organizations, roles, services, users
from launchbay.store.pool import Connection, Database

FIRST_START_LOCK = 0x6C61756E6368  # any number that nobody else locks


@dataclass(frozen=True, slots=True)
class FirstAdministrator:
    """The account that the first start made; the password is shown once and kept only as a hash."""

    email: str
    password: str
    is_generated: bool


async def first_start(
    database: Database, passwords: Passwords, *, organization: str, email: str, password: str
) -> FirstAdministrator | None:
    """Create the organization and its administrator on an empty database; None when there is an organization already.

    Several servers may start at once: an advisory lock lets one of them do it.
    """
    generated = not password
    password = password or secrets.token_urlsafe(18)
    password_hash = await passwords.hash(password)
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [FIRST_START_LOCK])
        if await organizations.any_exists(connection):
            return None
        user_id = new_id()
        await users.insert(connection, id=user_id, email=email, name="Administrator", password_hash=password_hash)
        await create_organization(connection, organization, user_id)
    return FirstAdministrator(email, password, generated)


async def create_organization(connection: Connection, name: str, administrator_id: str) -> str:
    """Create an organization with its default environment and services, its roles and its first administrator."""
    organization_id = new_id()
    await organizations.insert(connection, organization_id=organization_id, name=name)
    environment_id = new_id()
    await environments.insert(
        connection, environment_id=environment_id, organization_id=organization_id, name="default", is_default=True
    )
    await _add_services(connection, organization_id, environment_id)
    administrator_role = new_id()
    for role_id, role, kind, permissions in (
        (administrator_role, "Administrator", RoleKind.ADMINISTRATOR, ADMINISTRATOR_TEXT),
        (new_id(), "Guest", RoleKind.GUEST, GUEST_TEXT),
    ):
        await roles.insert(
            connection, id=role_id, organization_id=organization_id, name=role, kind=kind, permissions=permissions
        )
    await users.join_organization(connection, organization_id=organization_id, user_id=administrator_id)
    await roles.assign(connection, role_ids=[administrator_role], user_id=administrator_id)
    return organization_id


async def _add_services(connection: Connection, organization_id: str, environment_id: str) -> None:
    """Give an organization its zone, and its default environment the two services that need no setting up."""
    zone_id = new_id()
    await services.insert_zone(connection, zone_id=zone_id, organization_id=organization_id, name="Default")
    for name, type_id in (
        ("Default workflow service", WorkflowService.id),
        ("Default credentials service", SecureStore.id),
    ):
        service_id = new_id()
        await services.insert(
            connection,
            service_id=service_id,
            organization_id=organization_id,
            zone_id=zone_id,
            name=name,
            type_id=type_id,
            parameters="{}",
        )
        await services.offer(connection, environment_id=environment_id, service_id=service_id)
