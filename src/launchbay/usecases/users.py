"""The users of an organization (reference §2, User; conformance.md, "Beyond the reference").

An account belongs to everybody who counts it among their members. So what reaches beyond one organization (disabling)
needs the permission in each of them, and a password is set by others only when the account is made.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from launchbay.auth import gate, permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict, NotAllowed, NotFound
from launchbay.ids import new_id
from launchbay.model.email_address import canonical_email
from launchbay.store import organizations, users
from launchbay.store.database import unique_violation_as
from launchbay.store.users import AccountRow, OrganizationUserRow
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.roles import require_another_administrator, require_assignment, roles_named
from launchbay.usecases.sign_in import Invitation, invite

R = TypeVar("R", OrganizationUserRow, AccountRow)


class UserView(NamedTuple, Generic[R]):
    """A member, in a list or in full, and what the caller may do to them."""

    row: R
    can_evict: bool
    can_manage_roles: bool


class CreatedUser(NamedTuple):
    """Who was added; `invitation` is for a new account without a password."""

    id: str
    invitation: Invitation | None


async def list_users(ctx: Context, organization_id: str) -> list[UserView[OrganizationUserRow]]:
    """Return the users of an organization whom the caller may read."""
    async with ctx.read() as work:
        organization = await work.lookup.organization(organization_id)
        rows = await users.list_by_organization(work.connection, organization_id=organization.id)
        administrators = await users.list_administrators(work.connection, organization_id=organization.id)
    grants = work.lookup.grants(organization.id)
    return [
        UserView(row, gate.can_evict(grants, row.id, administrators), gate.can_manage_roles(grants, row.id))
        for row in rows
        if work.lookup.allows(organization.id, Permission.READ, permissions.user(row.id))
    ]


async def read_user(ctx: Context, organization_id: str, user_id: str) -> UserView[AccountRow]:
    async with ctx.read() as work:
        await work.lookup.member(organization_id, user_id, Permission.READ)
        row = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id)
        if row is None:
            raise NotFound(f"The user {user_id} has just left the organization.")
        administrators = await users.list_administrators(work.connection, organization_id=organization_id)
    grants = work.lookup.grants(organization_id)
    return UserView(row, gate.can_evict(grants, row.id, administrators), gate.can_manage_roles(grants, row.id))


async def create_user(
    ctx: Context, organization_id: str, *, email: str, name: str, password: str | None, role_names: Sequence[str]
) -> CreatedUser:
    """Add a user to an organization: a new account, or the existing one with this email address.

    A new account without a password gets an invitation. Raises BadRequest for what is wrong with the fields, for roles
    that do not exist, for a member, and for a password given for an account that exists: it is not ours to change.
    """
    user_id = new_id()
    async with ctx.read() as work:
        await _for_new_user(work, organization_id, user_id)
    email, name = canonical_email(email), validate_name(name)
    password_hash = None if password is None else await ctx.app.passwords.hash_new(password, email)
    async with ctx.begin() as work:
        await _for_new_user(work, organization_id, user_id)
        await organizations.lock(work.connection, organization_id=organization_id)
        wanted = await roles_named(work, organization_id, role_names)
        existing = await users.get_by_email(work.connection, email=email)
        invitation = None
        if existing is not None:
            user_id = existing.id
            work.lookup.require(organization_id, Permission.MANAGE_USERS, permissions.user(user_id))
            await _add_existing(work, organization_id, user_id, email, has_password=password is not None)
        else:
            with unique_violation_as(f"The account {email} was created by another request. Retry.", "Taken"):
                await users.insert(work.connection, id=user_id, email=email, name=name, password_hash=password_hash)
            await users.join_organization(work.connection, organization_id=organization_id, user_id=user_id)
            if password_hash is None:
                invitation = await invite(work.connection, user_id)
        require_assignment(work, organization_id, user_id, wanted)
        await users.assign_role(work.connection, user_id=user_id, role_ids=[role.id for role in wanted])
        await work.audit(
            "create_user",
            organization_id,
            after={
                "email": email,
                "name": name if existing is None else existing.name,
                "isNewAccount": existing is None,
                # Of the hash: a fingerprint of the password itself could be guessed at by who has the server's key.
                "password": None if password_hash is None else work.fingerprint(password_hash),
                "roles": [role.name for role in wanted],
            },
            at=permissions.user(user_id),
        )
    return CreatedUser(user_id, invitation)


async def update_user(ctx: Context, organization_id: str, user_id: str, *, enabled: bool) -> None:
    """Disable or enable a user's account, in every organization that it belongs to.

    Raises NotAllowed when the caller may not manage the user in each of them, and BadRequest when one of them would be
    left without an administrator.
    """
    async with ctx.begin() as work:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        everywhere = await users.list_organization_ids(work.connection, user_id=user_id) or []
        for touched_id in everywhere:
            await organizations.lock(work.connection, organization_id=touched_id)
        await users.lock(work.connection, user_id=user_id)
        if await users.list_organization_ids(work.connection, user_id=user_id) != everywhere:
            raise Conflict("The user's organizations were changed by another request. Retry.")
        user = await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        for touched_id in everywhere:
            await _for_whole_account(work, touched_id, user_id)
            if not enabled:
                await require_another_administrator(work, touched_id, user_id)
        await users.set_enabled(work.connection, id=user_id, enabled=enabled)
        if not enabled:
            await users.end_credentials(work.connection, user_id=user_id)
        for touched_id in everywhere:
            before, after = {"enabled": user.enabled}, {"enabled": enabled}
            await work.audit("update_user", touched_id, before, after, at=permissions.user(user_id))
    ctx.app.sign_in.invalidate(user_id)


async def remove_user(ctx: Context, organization_id: str, user_id: str) -> None:
    """Remove a user from an organization; an account that belongs to no other one is deleted.

    Raises BadRequest for the last administrator.
    """
    async with ctx.begin() as work:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        await organizations.lock(work.connection, organization_id=organization_id)
        await users.lock(work.connection, user_id=user_id)
        # As it is now, after waiting.
        user = await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        await require_another_administrator(work, organization_id, user_id)
        member = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id)
        assert member is not None, "nobody leaves while the organization is locked"
        await users.leave_organization(work.connection, organization_id=organization_id, user_id=user_id)
        belongs_elsewhere = await users.list_organization_ids(work.connection, user_id=user_id) is not None
        if not belongs_elsewhere:
            # Nobody could ever manage it again, and whoever is invited under this address later is somebody new.
            await users.delete(work.connection, user_id=user_id)
        before = {"email": user.email, "name": user.name, "roles": member.roles}
        after = {"email": user.email, "roles": []} if belongs_elsewhere else None
        await work.audit("remove_user", organization_id, before, after, at=permissions.user(user_id))
    if not belongs_elsewhere:
        ctx.app.sign_in.invalidate(user_id)


async def _for_new_user(work: Work, organization_id: str, user_id: str) -> None:
    await work.lookup.organization(organization_id, Permission.MANAGE_USERS, permissions.user(user_id))


async def _for_whole_account(work: Work, organization_id: str, user_id: str) -> None:
    try:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
    except NotAllowed:
        raise NotAllowed(
            "This account belongs to another organization too, where you may not manage it.",
            "Remove the user from this organization instead.",
        ) from None


async def _add_existing(work: Work, organization_id: str, user_id: str, email: str, *, has_password: bool) -> None:
    if not await users.join_organization(work.connection, organization_id=organization_id, user_id=user_id):
        raise BadRequest(f"{email} is a user of this organization already.", code="AlreadyMember")
    if has_password:
        raise BadRequest(
            f"There is an account {email} already, and its password stays as it is.",
            "Leave the password out to add the account to this organization.",
            code="AccountExists",
        )
