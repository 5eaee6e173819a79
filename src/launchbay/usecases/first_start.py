"""The first start on an empty database: an organization, its built-in parts and the administrator (api-decisions)."""

import secrets
from dataclasses import dataclass

from launchbay.auth.authentication import Passwords
from launchbay.auth.gate import ADMINISTRATOR_TEXT, GUEST_TEXT
from launchbay.ids import new_id
from launchbay.service_types.builtin import SecureStore, WorkflowService
from launchbay.store import environments, organizations, services, users
from launchbay.store.database import Connection, Database
from launchbay.store.users import RoleKind

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
    organization_id = await create_empty_organization(connection, name, administrator_id)
    environment_id = new_id()
    await environments.insert(
        connection, environment_id=environment_id, organization_id=organization_id, name="default", is_default=True
    )
    await _add_services(connection, organization_id, environment_id)
    await users.roles_insert(
        connection,
        id=new_id(),
        organization_id=organization_id,
        name="Guest",
        kind=RoleKind.GUEST,
        permissions=GUEST_TEXT,
    )
    return organization_id


async def create_empty_organization(connection: Connection, name: str, administrator_id: str) -> str:
    """Create an organization with nothing but its zone, the role Administrator, and who holds it; return its id."""
    organization_id, role_id = new_id(), new_id()
    await organizations.insert(connection, organization_id=organization_id, name=name)
    await services.insert_zone(connection, zone_id=new_id(), organization_id=organization_id, name="Default")
    await users.roles_insert(
        connection,
        id=role_id,
        organization_id=organization_id,
        name="Administrator",
        kind=RoleKind.ADMINISTRATOR,
        permissions=ADMINISTRATOR_TEXT,
    )
    await users.join_organization(connection, organization_id=organization_id, user_id=administrator_id)
    await users.assign(connection, role_ids=[role_id], user_id=administrator_id)
    return organization_id


async def _add_services(connection: Connection, organization_id: str, environment_id: str) -> None:
    """Give the default environment the two services that need no setting up."""
    [zone] = await services.zones(connection, organization_id=organization_id)
    for name, type_id in (
        ("Default workflow service", WorkflowService.id),
        ("Default credentials service", SecureStore.id),
    ):
        service_id = new_id()
        await services.insert(
            connection,
            service_id=service_id,
            organization_id=organization_id,
            zone_id=zone.id,
            name=name,
            type_id=type_id,
            parameters="{}",
        )
        await services.offer(connection, environment_id=environment_id, service_id=service_id)
