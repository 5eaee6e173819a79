"""Service accounts: members of one organization that are programs.

They have roles as people have, but no password, so they can't sign in. Programs use their access tokens.
"""

import re
from collections.abc import Sequence

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, NotFound
from launchbay.ids import new_id
from launchbay.limits import DESCRIPTION_CHARS
from launchbay.store import access_tokens as store
from launchbay.store import organizations, users
from launchbay.store.access_tokens import ServiceAccountRow
from launchbay.store.database import unique_violation_as
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.roles import require_gift, roles_named

_DOMAIN = "service.invalid"  # RFC 2606: nobody ever gets mail there, so no identity provider verifies such an address


async def list_service_accounts(ctx: Context, organization_id: str) -> list[ServiceAccountRow]:
    """Return the service accounts of an organization that the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_service_accounts(work.connection, organization_id=organization_id, id=None)
    return await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.user)


async def read_service_account(ctx: Context, organization_id: str, account_id: str) -> ServiceAccountRow:
    async with ctx.read() as work:
        return await _found(work, organization_id, account_id, Permission.READ)


async def create_service_account(
    ctx: Context, organization_id: str, *, name: str, description: str, role_names: Sequence[str]
) -> ServiceAccountRow:
    """Create a service account with roles. Raises BadRequest, NotAllowed."""
    account_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.MANAGE_USERS, permissions.user(account_id)
        )
        name, description = validate_name(name), _validate_description(description)
        await organizations.lock(work.connection, organization_id=organization.id)
        wanted = await roles_named(work, organization.id, role_names)
        email = f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40] or 'account'}-{account_id[-6:]}@{_DOMAIN}"
        with unique_violation_as("The service account was created by another request. Retry.", "Taken"):
            await store.insert_service_account(
                work.connection,
                id=account_id,
                email=email,
                name=name,
                description=description,
                organization_id=organization.id,
            )
        await users.join_organization(work.connection, organization_id=organization.id, user_id=account_id)
        await require_gift(work, organization.id, account_id, wanted)
        await users.assign_role(work.connection, user_id=account_id, role_ids=[role.id for role in wanted])
        after = {"name": name, "description": description, "roles": [role.name for role in wanted]}
        await work.audit("create_service_account", organization, after=after, at=permissions.user(account_id))
        [row] = await store.list_service_accounts(work.connection, organization_id=organization.id, id=account_id)
    return row


async def update_service_account(
    ctx: Context,
    organization_id: str,
    account_id: str,
    *,
    name: str | None,
    description: str | None,
    enabled: bool | None,
) -> None:
    """Change what is given. Disabling ends the account's tokens. Raises BadRequest, NotFound, NotAllowed."""
    async with ctx.begin() as work:
        row = await _locked(work, organization_id, account_id)
        changed_name = row.name if name is None else validate_name(name)
        changed_text = row.description if description is None else _validate_description(description)
        await store.update_service_account(
            work.connection, id=row.id, organization_id=organization_id, name=changed_name, description=changed_text
        )
        changed_enabled = row.enabled if enabled is None else enabled
        await users.set_enabled(work.connection, id=row.id, enabled=changed_enabled)
        if not changed_enabled:
            await store.delete_by_user(work.connection, user_id=row.id)
        before = {"name": row.name, "description": row.description, "enabled": row.enabled}
        after = {"name": changed_name, "description": changed_text, "enabled": changed_enabled}
        at = permissions.user(row.id)
        await work.audit("update_service_account", organization_id, before, after, at=at)


async def delete_service_account(ctx: Context, organization_id: str, account_id: str) -> None:
    """Delete a service account with its tokens. Raises NotFound, NotAllowed."""
    async with ctx.begin() as work:
        row = await _locked(work, organization_id, account_id)
        await users.leave_organization(work.connection, organization_id=organization_id, user_id=row.id)
        await users.delete(work.connection, user_id=row.id)
        before = {"name": row.name, "description": row.description, "roles": row.roles}
        await work.audit("delete_service_account", organization_id, before, at=permissions.user(row.id))


async def _locked(work: Work, organization_id: str, account_id: str) -> ServiceAccountRow:
    """Return an account that the caller may manage, as it stays until the commit.

    What a change leaves out is written as it was read, so that a new name must not enable a disabled account.
    """
    await work.lookup.member(organization_id, account_id, Permission.MANAGE_USERS)
    await organizations.lock(work.connection, organization_id=organization_id)
    return await _found(work, organization_id, account_id, Permission.MANAGE_USERS)


async def _found(work: Work, organization_id: str, account_id: str, permission: Permission) -> ServiceAccountRow:
    await work.lookup.member(organization_id, account_id, permission)
    rows = await store.list_service_accounts(work.connection, organization_id=organization_id, id=account_id)
    if not rows:
        raise NotFound(f"There is no service account {account_id!r}.", "List the service accounts to find the ID.")
    return rows[0]


def _validate_description(text: str) -> str:
    if len(text) > DESCRIPTION_CHARS:
        raise BadRequest(
            f"A description has at most {DESCRIPTION_CHARS} characters. This one has {len(text)}.", field="description"
        )
    return text
