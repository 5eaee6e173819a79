"""The users of an organization (reference §2, User; conformance.md, "Beyond the reference").

The organization that made an account manages it: it disables the account, and sees its sign-ins in the audit log. Other
organizations invite the account, and can only end the membership again.

An account may have been made by somebody who only claims to be its person. So nothing is given to an account because
of its address: a membership waits until the person accepts it, with the link that the organization has handed to them
(decision 0095).
"""

import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from launchbay.auth import gate, permissions
from launchbay.auth.audit import record_for_operator
from launchbay.auth.permissions import Permission
from launchbay.auth.tokens import hash_token
from launchbay.errors import BadRequest, Conflict, NotAllowed, NotFound
from launchbay.ids import is_id, new_id
from launchbay.limits import ERASED_AT_ONCE, INVITATION_LIFETIME_DAYS
from launchbay.model.email_address import canonical_email
from launchbay.store import organizations, second_factors, users, wrong_sign_ins
from launchbay.store.database import Connection, Database, unique_violation_as
from launchbay.store.users import (
    AccountRow,
    CredentialsRow,
    OrganizationUserRow,
    PendingMemberRow,
    PendingMembershipRow,
    SignInState,
    Traces,
    User,
)
from launchbay.store.wrong_sign_ins import BlockedRow
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.roles import require_another_administrator, require_gift, roles_named
from launchbay.usecases.sign_in import Invitation, invite, require_own_password

_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all
R = TypeVar("R", OrganizationUserRow, AccountRow)


class UserView(NamedTuple, Generic[R]):
    """A member, and what the caller may do to them.

    A pending one has not accepted yet.
    """

    row: R
    can_evict: bool
    can_manage_roles: bool
    is_pending: bool = False


class UserFilter(NamedTuple):
    """Whom a list of users has: those who fit each of these.

    `words` are parts of a name or an address, `roles` parts of the name of a role, in lower case. `factors` are kinds
    of second factors, or `none`. How people sign in is known of those alone whom the caller manages.
    """

    words: Sequence[str] = ()
    roles: Sequence[str] = ()
    factors: Sequence[str] = ()
    is_disabled: bool = False
    email: str | None = None


class CreatedUser(NamedTuple):
    """Who was added. Only a new account with a password has no invitation.

    An account that existed before becomes a member when its person accepts: `is_pending`.
    """

    id: str
    invitation: Invitation | None
    is_pending: bool


async def list_users(ctx: Context, organization_id: str) -> list[UserView[OrganizationUserRow]]:
    """Return the users of an organization whom the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await users.list_by_organization(work.connection, organization_id=organization_id)
        return await _readable(work, organization_id, rows)


_ANYBODY = UserFilter()


async def list_users_after(
    ctx: Context, organization_id: str, after: str, count: int
) -> list[UserView[OrganizationUserRow]]:
    """Return a page of these users in the order of their IDs."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await _find(work, organization_id, after, count, _ANYBODY)
        return await _readable(work, organization_id, rows) if rows else []


async def find_users(
    ctx: Context, organization_id: str, after: str, count: int, wanted: UserFilter = _ANYBODY
) -> list[OrganizationUserRow]:
    """Return so many users who fit a filter, those after an ID."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await _find(work, organization_id, after, count, wanted)


async def _find(
    work: Work, organization_id: str, after: str, count: int, wanted: UserFilter
) -> list[OrganizationUserRow]:
    needed = [Permission.READ]
    if wanted.factors or wanted.is_disabled:
        needed.append(Permission.MANAGE_USERS)
    grants = work.lookup.grants(organization_id)
    if not all(gate.may_concern(grants, permission, "users") for permission in needed):
        return []
    found: list[OrganizationUserRow] = []
    size = count
    while len(found) < count:
        rows = await users.list_page(
            work.connection,
            organization_id=organization_id,
            after=after,
            count=size,
            words=list(wanted.words),
            roles=list(wanted.roles),
            factors=list(wanted.factors),
            is_disabled=wanted.is_disabled,
            email=wanted.email,
        )
        allowed = rows
        for permission in needed:
            allowed = await work.lookup.permitted(organization_id, permission, allowed, permissions.user)
        found += allowed
        if len(rows) < size:
            break
        after, size = rows[-1].id, 2 * size  # few of them may be readable
    return found[:count]


async def _readable(
    work: Work, organization_id: str, rows: Sequence[OrganizationUserRow]
) -> list[UserView[OrganizationUserRow]]:
    administrators = await users.list_administrators(work.connection, organization_id=organization_id)
    readable = await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.user)
    grants = work.lookup.grants(organization_id)
    return [
        UserView(row, gate.can_evict(grants, row.id, administrators), gate.can_manage_roles(grants, row.id))
        for row in readable
    ]


async def list_user_names(
    ctx: Context, organization_id: str, *, ids: Collection[str] | None = None, most: int | None = None
) -> dict[str, str]:
    """Return the names of users whom the caller may read, by ID.

    With `ids` they are of these users, in any order. `most` is how many of all are enough.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if ids is not None:
            rows = await users.list_users_by_id(work.connection, organization_id=organization_id, ids=list(ids))
        else:
            reads_all = work.lookup.allows(organization_id, Permission.READ, permissions.user(permissions.EVERY))
            rows = await users.list_user_names(
                work.connection, organization_id=organization_id, most=most if reads_all else None
            )
    return {
        row.id: row.name
        for row in await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.user)
    }


async def list_member_names(
    ctx: Context, organization_id: str, ids: Iterable[str | None], *, also: Iterable[str] = ()
) -> dict[str, str]:
    """Return the names of these members of an organization by ID, service accounts too.

    They are for what somebody did: lists of runs name them for whoever may read the run. `also` are IDs of people who
    may have left: their names say so.
    """
    left = set(also)
    wanted = {each for each in ids if each is not None} | left
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await users.list_member_names(
            work.connection, organization_id=organization_id, ids=sorted(wanted), also=sorted(left)
        )
    return {row.id: row.name for row in rows}


async def list_people_of_instance(ctx: Context, organization_id: str, instance_id: str) -> dict[str, str]:
    """Return the names of people whom the pages of an instance name, by ID.

    The instance must have been looked up.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await users.list_people_of_instance(
            work.connection, organization_id=organization_id, instance_id=instance_id
        )
    return {row.id: row.name for row in rows}


async def find_user(ctx: Context, organization_id: str, email: str) -> str:
    """Return the ID of the user with an address.

    Raises BadRequest, and NotFound if the caller may not read them.
    """
    wanted = UserFilter(email=canonical_email(email))
    found = await find_users(ctx, organization_id, "", 1, wanted)
    if not found:
        raise NotFound(f"No user that you can see has the address {wanted.email}.", "Look for them under Users.")
    return found[0].id


async def count_weak_members(ctx: Context, organization_id: str) -> int:
    """Return how many members whom the caller manages sign in with a password alone."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if not work.lookup.holds(organization_id, Permission.MANAGE_USERS):
            return 0
        manages = partial(work.lookup.allows, organization_id, Permission.MANAGE_USERS)
        rows = await users.count_weak_members(
            work.connection, organization_id=organization_id, all=manages(permissions.user(permissions.EVERY))
        )
    return sum(row.people for row in rows if row.id is None or manages(permissions.user(row.id)))


async def sign_in_states(ctx: Context, organization_id: str, ids: Collection[str]) -> dict[str, SignInState]:
    """Return by ID how those of these members sign in whom the caller manages."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if not work.lookup.holds(organization_id, Permission.MANAGE_USERS):
            return {}
        rows = await users.list_sign_in_states(work.connection, organization_id=organization_id, ids=list(ids))
    manages = partial(work.lookup.allows, organization_id, Permission.MANAGE_USERS)
    return {row.id: row for row in rows if manages(permissions.user(row.id))}


async def read_user(ctx: Context, organization_id: str, user_id: str) -> UserView[AccountRow]:
    async with ctx.read() as work:
        try:
            await work.lookup.member(organization_id, user_id, Permission.READ)
        except NotFound:
            pending = await _pending_member(work, organization_id, user_id)
            if pending is None:
                raise
            await work.lookup.organization(organization_id, Permission.READ, permissions.user(user_id))
            account = AccountRow(
                pending.id,
                pending.name,
                pending.email,
                enabled=True,
                is_invited=True,
                created_at=pending.created_at,
                roles=pending.roles,
            )
            grants = work.lookup.grants(organization_id)
            can_evict = gate.can_evict(grants, user_id, ())
            return UserView(account, can_evict, gate.can_manage_roles(grants, user_id), is_pending=True)
        row = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id)
        if row is None:
            raise NotFound(f"The user {user_id} has just left the organization.")
        administrators = await users.list_administrators(work.connection, organization_id=organization_id)
    grants = work.lookup.grants(organization_id)
    return UserView(row, gate.can_evict(grants, row.id, administrators), gate.can_manage_roles(grants, row.id))


async def create_user(
    ctx: Context,
    organization_id: str,
    *,
    email: str,
    name: str,
    password: str | None,
    role_names: Sequence[str],
    is_for_program: bool = False,
) -> CreatedUser:
    """Add a new account to an organization, or invite the existing one.

    A new account without a password gets an invitation too. The password of an account for a program never expires,
    because a program can't choose one of its own. Raises BadRequest for what is wrong with the fields, for roles that
    do not exist, for a member, and for a password given for an existing account: it is not ours to change.
    """
    if is_for_program and password is None:
        raise BadRequest(
            "An account for a program needs a password: a program can't follow an invitation.",
            "Set a password, or leave isForProgram out.",
            code="InvalidField",
            field="password",
        )
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
            await _require_addable(work, organization_id, user_id, email, has_password=password is not None)
        else:
            with unique_violation_as(f"The account {email} was created by another request. Retry.", "Taken"):
                await users.insert(work.connection, id=user_id, email=email, name=name, password_hash=password_hash)
            await users.join_organization(work.connection, organization_id=organization_id, user_id=user_id)
            if password_hash is None:
                invitation = await invite(work.connection, user_id)
            else:
                lifetime_s = 0.0 if is_for_program else ctx.app.given_password_days * 86_400
                await users.mark_password_given(work.connection, id=user_id, lifetime_s=lifetime_s)
        await require_gift(work, organization_id, user_id, wanted)
        role_ids = [role.id for role in wanted]
        if existing is None:
            await users.assign_role(work.connection, user_id=user_id, role_ids=role_ids)
        else:
            invitation = await invite_account(work, organization_id, user_id, name, role_ids)
        await work.audit(
            "create_user",
            organization_id,
            after={
                "email": email,
                "name": name,
                "isNewAccount": existing is None,
                # Of the hash: a fingerprint of the password itself could be guessed at by who has the server's key.
                "password": None if password_hash is None else work.fingerprint(password_hash),
                "roles": [role.name for role in wanted],
                **({"isForProgram": True} if is_for_program else {}),
            },
            at=permissions.user(user_id),
        )
    return CreatedUser(user_id, invitation, is_pending=existing is not None)


async def update_user(ctx: Context, organization_id: str, user_id: str, *, enabled: bool) -> None:
    """Disable or enable a user's account, in every organization that it belongs to.

    Raises NotAllowed when the caller may not manage the user in the organization that made the account, and BadRequest
    when that one would be left without an administrator. What the user is elsewhere does not matter: else everybody
    could escape it by joining, or making, another organization.
    """
    async with ctx.begin() as work:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        managing = await _managing(work.connection, user_id)
        for touched_id in managing:
            await organizations.lock(work.connection, organization_id=touched_id)
        await users.lock(work.connection, user_id=user_id)
        if await _managing(work.connection, user_id) != managing:
            raise Conflict("The user's organizations were changed by another request. Retry.")
        user = await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        for touched_id in managing:
            await _for_whole_account(work, touched_id, user_id)
            if not enabled:
                await require_another_administrator(work, touched_id, user_id)
        await users.set_enabled(work.connection, id=user_id, enabled=enabled)
        if not enabled:
            await users.end_credentials(work.connection, user_id=user_id)
        for touched_id in managing:
            before, after = {"enabled": user.enabled}, {"enabled": enabled}
            await work.audit("update_user", touched_id, before, after, at=permissions.user(user_id))
    ctx.app.sign_in.invalidate(user_id)


async def reset_second_factors(ctx: Context, organization_id: str, user_id: str) -> None:
    """Remove a user's second factors and recovery codes, and end their sessions and tokens.

    Raises NotAllowed when the caller may not manage the user in the organization that made the account.
    """
    async with ctx.begin() as work:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        managing = await _managing(work.connection, user_id)
        for touched_id in managing:
            await _for_whole_account(work, touched_id, user_id)
        await second_factors.delete_all(work.connection, user_id=user_id)
        await second_factors.forget_attempts(work.connection, user_id=user_id)
        await users.end_credentials(work.connection, user_id=user_id)
        for touched_id in managing:
            await work.audit("reset_second_factors", touched_id, at=permissions.user(user_id))
    ctx.app.sign_in.invalidate(user_id)


async def account_with_password(connection: Connection, email: str) -> CredentialsRow:
    """Return the account whose password the operator may reset.

    Raises NotFound for an unknown address, and BadRequest for an invalid one and an account without a password.
    """
    account = await users.get_credentials(connection, email=canonical_email(email))
    if account is None:
        raise NotFound(f"No account has the email address {email}.", "launchbay user list shows the addresses.")
    if account.password_hash is not None:
        return account
    if await users.has_identity(connection, user_id=account.id):
        raise BadRequest(
            f"{account.email} signs in through the identity provider and has no password here.", "Reset it there."
        )
    raise BadRequest(
        f"{account.email} has no password yet: the link of the invitation sets the first one.",
        "If the link is lost, remove the user and invite again.",
    )


async def reset_password(
    connection: Connection, email: str, password_hash: str, *, lifetime_s: float, removes_second_factors: bool
) -> CredentialsRow:
    """Replace a forgotten password for the operator.

    The person must choose another one at the next sign-in. Everything that the person is signed in with ends, and so
    do blocks because of wrong attempts. A `lifetime_s` of 0 has no end. Returns the account as it was. Raises as
    `account_with_password`.
    """
    account = await account_with_password(connection, email)
    await users.lock(connection, user_id=account.id)
    await users.set_password(connection, id=account.id, password_hash=password_hash)
    await users.mark_password_given(connection, id=account.id, lifetime_s=lifetime_s)
    await users.end_credentials(connection, user_id=account.id)
    await wrong_sign_ins.delete_by_user(connection, user_id=account.id)
    await second_factors.forget_attempts(connection, user_id=account.id)
    if removes_second_factors:
        await second_factors.delete_all(connection, user_id=account.id)
    managing: Sequence[str | None] = await _managing(connection, account.id) or [None]
    for organization_id in managing:
        await record_for_operator(
            connection,
            "reset_password",
            str(permissions.user(account.id)),
            organization_id=organization_id,
            after={"removesSecondFactors": removes_second_factors},
        )
    return account


class Erasure(NamedTuple):
    """What to erase: a removed person. `address` and `name` are patterns of PostgreSQL."""

    ids: list[str]
    address: str
    pseudonym: str
    name: str = r'"name":"(?!erased-)(?:[^"\\]|\\.)*"'


async def erasure_of(connection: Connection, email: str, of_features: Sequence[Traces]) -> Erasure:
    """Return what to erase of a person whose account is removed.

    The pseudonym is made of the ID of the account, so another call continues one that was interrupted. Raises
    BadRequest while there is such an account, and NotFound if nothing has the address.
    """
    email = canonical_email(email)
    if await users.get_by_email(connection, email=email) is not None:
        raise BadRequest(
            f"There is an account {email}.", "Remove it from all organizations first: launchbay user remove."
        )
    # Not in the middle of another address: ann@example.org is in joann@example.org.
    address = r"(?<![\w.+-])" + re.sub(r"(\W)", r"\\\1", email) + r"(?![\w-]|\.\w)"
    await users.allow_long_statements(connection)
    found = set(await users.list_ids_of_address(connection, address=address))
    for traces in of_features:
        if traces.ids is not None:
            found.update(await traces.ids(connection, address=address))
    ids = sorted(found)
    if not ids:
        raise NotFound(f"Neither the audit log nor an answer has the address {email}.")
    return Erasure(ids, address, f"erased-{ids[-1][-8:]}")


async def count_traces(
    connection: Connection, erasure: Erasure, of_features: Sequence[Traces]
) -> list[tuple[str, int]]:
    """Return how many rows of each kind an erasure changes, without those of none."""
    counts = {"audit entries": await users.count_in_entries(connection, **erasure._asdict())}
    for traces in (*users.traces, *of_features):
        counts[traces.kind] = await traces.count(connection, address=erasure.address)
    return [(kind, rows) for kind, rows in counts.items() if rows]


async def erase_person(database: Database, erasure: Erasure, of_features: Sequence[Traces]) -> None:
    """Replace the address and name of a removed person, in short transactions.

    The audit log comes last: an erasure that was interrupted finds the person's IDs there.
    """
    for erase_in in (each.erase for each in (*users.traces, *of_features)):
        changed = ERASED_AT_ONCE
        while changed == ERASED_AT_ONCE:
            async with database.transaction() as connection:
                await users.allow_long_statements(connection)
                changed = await erase_in(
                    connection, address=erasure.address, pseudonym=erasure.pseudonym, count=ERASED_AT_ONCE
                )
    touched: Counter[str] = Counter()
    after = 0
    while True:
        async with database.transaction() as connection:
            until = await users.end_of_entries(connection, after=after, count=ERASED_AT_ONCE)
            if until is None:
                break
            touched.update(
                await users.erase_entries(
                    connection,
                    after=after,
                    until=until,
                    **erasure._asdict(),
                    new_name=f'"name":"{erasure.pseudonym}"',
                )
            )
            after = until
    async with database.transaction() as connection:
        for organization_id, entries in touched.items():
            await record_for_operator(
                connection,
                "erase_person",
                str(permissions.user(erasure.ids[-1])),
                organization_id=organization_id or None,
                after={"pseudonym": erasure.pseudonym, "entries": entries},
            )


async def remove_user(ctx: Context, organization_id: str, user_id: str) -> None:
    """Remove a user from an organization, or withdraw the invitation.

    An account that belongs to no other organization is deleted. Raises BadRequest for the last administrator.
    """
    async with ctx.begin() as work:
        try:
            await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        except NotFound:
            if not await _withdrawn(work, organization_id, user_id):
                raise
            return
        await organizations.lock(work.connection, organization_id=organization_id)
        await users.lock(work.connection, user_id=user_id)
        # As it is now, after waiting.
        user = await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        is_deleted = await end_membership(work, "remove_user", organization_id, user)
    if is_deleted:
        ctx.app.sign_in.invalidate(user_id)


async def list_sign_in_blocks(ctx: Context, organization_id: str) -> list[BlockedRow]:
    """Return the blocked users whom the caller may manage."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id, Permission.MANAGE_USERS)
        rows = await wrong_sign_ins.list_blocked(work.connection, organization_id=organization_id)
    manages = partial(work.lookup.allows, organization_id, Permission.MANAGE_USERS)
    return [row for row in rows if manages(permissions.user(row.id))]


async def sign_in_blocked_s(ctx: Context, organization_id: str, user_id: str) -> int:
    """Return the seconds until a blocked user can sign in.

    0 if the user isn't blocked, or if the caller can't manage the user.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if not work.lookup.allows(organization_id, Permission.MANAGE_USERS, permissions.user(user_id)):
            return 0
        rows = await wrong_sign_ins.list_blocked(work.connection, organization_id=organization_id)
    return next((row.blocked_s for row in rows if row.id == user_id), 0)


async def lift_sign_in_block(ctx: Context, organization_id: str, user_id: str) -> None:
    """Forget a user's wrong attempts to sign in. Raises NotFound without any."""
    async with ctx.begin() as work:
        user = await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        if not await wrong_sign_ins.delete_by_user(work.connection, user_id=user.id):
            raise NotFound("There are no wrong attempts to sign in to this account.")
        await work.audit("lift_sign_in_block", organization_id, at=permissions.user(user_id))


async def _withdrawn(work: Work, organization_id: str, user_id: str) -> bool:
    pending = await _pending_member(work, organization_id, user_id)
    if pending is None:
        return False
    await work.lookup.organization(organization_id, Permission.MANAGE_USERS, permissions.user(user_id))
    await users.withdraw_pending_membership(work.connection, organization_id=organization_id, user_id=user_id)
    before = {"email": pending.email, "name": pending.name, "roles": pending.roles}
    await work.audit("remove_user", organization_id, before, at=permissions.user(user_id))
    return True


async def _for_new_user(work: Work, organization_id: str, user_id: str) -> None:
    await work.lookup.organization(organization_id, Permission.MANAGE_USERS, permissions.user(user_id))


async def _require_addable(work: Work, organization_id: str, user_id: str, email: str, *, has_password: bool) -> None:
    member = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id)
    if member is not None:
        raise BadRequest(f"{email} is a user of this organization already.", code="AlreadyMember", field="email")
    if has_password:
        raise BadRequest(
            f"There is an account {email} already, and its password stays as it is.",
            "Leave the password out to invite the account to this organization.",
            code="AccountExists",
            field="password",
        )


async def _for_whole_account(work: Work, organization_id: str, user_id: str) -> None:
    try:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
    except NotAllowed:
        raise NotAllowed(
            "Another organization manages this account, and you may not manage it there.",
            "Remove the user from this organization instead.",
        ) from None


async def _managing(connection: Connection, user_id: str) -> list[str]:
    """Return the organization that made an account, else all that it belongs to."""
    home = await users.get_home(connection, user_id=user_id)
    if home is not None:
        return [home]
    return await users.list_organization_ids(connection, user_id=user_id) or []


async def _pending_member(work: Work, organization_id: str, user_id: str) -> PendingMemberRow | None:
    if not is_id(organization_id) or not is_id(user_id):
        return None
    return await users.get_pending_member(work.connection, organization_id=organization_id, user_id=user_id)


async def invite_account(
    work: Work, organization_id: str, user_id: str, name: str, role_ids: Sequence[str]
) -> Invitation:
    """Invite an account to the organization. An earlier invitation ends."""
    token = secrets.token_urlsafe(_RANDOM_BYTES)
    expires_at = await users.put_pending_membership(
        work.connection,
        id=new_id(),
        organization_id=organization_id,
        user_id=user_id,
        name=name,
        role_ids=list(role_ids),
        token_hash=hash_token(token),
        lifetime_s=INVITATION_LIFETIME_DAYS * 24 * 3600,
    )
    assert expires_at is not None, "an insert answers its row"
    return Invitation(f"/console/invitations/{token}", expires_at)


async def list_pending_members(ctx: Context, organization_id: str) -> list[PendingMemberRow]:
    """Return the invited people whom the caller manages."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id, Permission.MANAGE_USERS)
        rows = await users.list_pending_members(work.connection, organization_id=organization_id)
    return [
        row for row in rows if work.lookup.allows(organization_id, Permission.MANAGE_USERS, permissions.user(row.id))
    ]


async def list_invitations(ctx: Context) -> list[PendingMembershipRow]:
    """Return the organizations that the caller may join, the newest invitation first."""
    async with ctx.read() as work:
        caller = await work.lookup.caller()
        return await users.list_pending_memberships(work.connection, user_id=caller.id)


async def read_invitation(ctx: Context, link: str) -> PendingMembershipRow:
    """Return what a link invites the caller to.

    Raises NotFound when it is somebody else's, used or expired.
    """
    async with ctx.read() as work:
        caller = await work.lookup.caller()
        return await _invitation(work, caller, link)


async def accept_membership(ctx: Context, link: str) -> str:
    """Join the organization that a link invites to, and return its id.

    `link` is the whole link or its last part. Raises NotFound as `read_invitation`, and NotAllowed for a password that
    must be changed first.
    """
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        found = await _invitation(work, caller, link)
        await require_own_password(work.connection, caller.id)
        await organizations.lock(work.connection, organization_id=found.organization_id)
        found = await _invitation(work, caller, link)  # as it is now, after waiting
        await users.accept_pending_membership(work.connection, user_id=caller.id, token_hash=_hash(link))
        await ctx.app.ports.apply_groups(work, found.organization_id)
        await work.audit(
            "accept_membership",
            found.organization_id,
            after={"email": caller.email, "roles": found.roles},
            at=permissions.user(caller.id),
        )
    return found.organization_id


async def decline_membership(ctx: Context, invitation_id: str) -> None:
    """End an invitation of the caller's. Raises NotFound."""
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        organization_id = await users.decline_pending_membership(work.connection, id=invitation_id, user_id=caller.id)
        if organization_id is None:
            raise _invalid()
        await ctx.app.audit.record(
            work.connection,
            replace(ctx.actor, address=""),  # who declines has nothing to do with this organization
            "decline_membership",
            str(permissions.user(caller.id)),
            organization_id=organization_id,
            before={"email": caller.email},
        )


async def leave_organization(ctx: Context, organization_id: str) -> None:
    """End the caller's own membership.

    An account that belongs to no other organization is deleted. Raises BadRequest for the last administrator.
    """
    async with ctx.begin() as work:
        caller = await work.lookup.caller()
        await work.lookup.organization(organization_id)
        await organizations.lock(work.connection, organization_id=organization_id)
        await users.lock(work.connection, user_id=caller.id)
        await work.lookup.organization(organization_id)  # as it is now, after waiting
        is_deleted = await end_membership(work, "leave_organization", organization_id, caller)
    if is_deleted:
        ctx.app.sign_in.invalidate(caller.id)


async def end_membership(work: Work, operation: str, organization_id: str, user: User) -> bool:
    """End a membership, and return whether the account ended too.

    It does when it belongs to no other organization. What the person has in this one ends with the membership: roles,
    access tokens, recurring schedules. The caller has locked both. Raises BadRequest for the last administrator.
    """
    await require_another_administrator(work, organization_id, user.id)
    member = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user.id)
    assert member is not None, "nobody leaves while the organization is locked"
    await users.leave_organization(work.connection, organization_id=organization_id, user_id=user.id)
    belongs_elsewhere = await users.list_organization_ids(work.connection, user_id=user.id) is not None
    if not belongs_elsewhere:
        # Nobody could ever manage it again, and whoever is invited under this address later is somebody new.
        await users.delete(work.connection, user_id=user.id)
    before = {"email": user.email, "name": user.name, "roles": member.roles}
    after = {"email": user.email, "roles": []} if belongs_elsewhere else None
    await work.audit(operation, organization_id, before, after, at=permissions.user(user.id))
    return not belongs_elsewhere


async def _invitation(work: Work, caller: User, link: str) -> PendingMembershipRow:
    found = await users.get_pending_membership(work.connection, token_hash=_hash(link), user_id=caller.id)
    if found is None:
        raise _invalid()
    return found


def _hash(link: str) -> bytes:
    token = link.strip().rpartition("/")[2]
    if len(token) > _LONGEST or not token.isascii():
        raise _invalid()
    return hash_token(token)


def _invalid() -> NotFound:
    return NotFound(
        "This invitation was used already, has expired, or is for another account.",
        "Sign in with the account that was invited, or ask for a new invitation.",
        code="InvalidInvitation",
    )
