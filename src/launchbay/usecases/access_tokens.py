"""Access tokens of people and of service accounts: what programs call the API with.

A token is of one organization. Its scope limits what its owner may do there at the time of each request. Everybody
makes their own tokens. Who may assign the roles of a service account makes tokens for it.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from launchbay import limits
from launchbay.auth import gate, permissions
from launchbay.auth.gate import RoleEntry, read_role_text
from launchbay.auth.permissions import Permission
from launchbay.auth.tokens import hash_token, new_access_token
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.ids import canonical_id, new_id
from launchbay.quotas.bounds import Quota
from launchbay.store import access_tokens as store
from launchbay.store import users
from launchbay.store.access_tokens import ListedTokenRow, OwnTokenRow
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.roles import require_assignment, require_gift, require_own_rights, roles_named

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token, here and nowhere else in clear."""

    id: str
    token: str = field(repr=False)
    name: str
    scope: tuple[str, ...] | None
    expires_at: datetime


async def create_access_token(
    ctx: Context, organization_id: str, *, name: str, scope: Sequence[str] | None, days: int, owner_id: str | None
) -> NewToken:
    """Make a token for the caller, or for a service account.

    Each text of the scope is an entry of a role; None allows everything that the owner may do in the organization. A
    token makes tokens within its own scope only, which end with it. Raises BadRequest, NotFound, NotAllowed.
    """
    acting = ctx.actor.token
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        owner_id = canonical_id(owner_id) if owner_id else ctx.actor.user_id
        entries = None if scope is None else _read_scope(scope)
        if owner_id != ctx.actor.user_id:
            await require_service_account(work, organization.id, owner_id, scope=entries)
        name = validate_name(name)
        if not 1 <= days <= limits.ACCESS_TOKEN_DAYS:
            raise BadRequest(f"days: a token ends after 1 to {limits.ACCESS_TOKEN_DAYS} days, not {days}.")
        if acting is not None and acting.scope is not None:
            await _require_within(entries, read_role_text(acting.scope))
        # One at a time, so that two requests can't both make the last one that is allowed.
        await users.lock(work.connection, user_id=owner_id)
        if (await store.count_by_owner(work.connection, user_id=owner_id) or 0) >= limits.ACCESS_TOKENS:
            raise BadRequest(
                f"This owner has {limits.ACCESS_TOKENS} access tokens, which is the limit.",
                "Revoke one that nobody needs.",
                code="TooMany",
            )
        await work.admit(organization.id, {Quota.ACCESS_TOKENS: 1})
        token, token_id = new_access_token(), new_id()
        row = await store.insert(
            work.connection,
            id=token_id,
            organization_id=organization.id,
            user_id=owner_id,
            name=name,
            scope=None if entries is None else "".join(f"- {entry}\n" for entry in entries),
            token_hash=hash_token(token),
            parent_id=None if acting is None else acting.id,
            lifetime_s=days * _DAY_S,
        )
        assert row is not None, "an insert answers its row"
        shown = None if entries is None else tuple(map(str, entries))
        after = {"name": name, "scope": shown, "token": work.fingerprint(token)}
        await work.audit("create_access_token", organization, after=after, at=_path(owner_id, token_id))
    return NewToken(token_id, token, name, shown, row.expires_at)


async def list_access_tokens(ctx: Context, organization_id: str, owner_id: str | None = None) -> list[ListedTokenRow]:
    """Return the caller's tokens, and those of owners whom the caller manages.

    With `owner_id`, they are those of one owner.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_organization(work.connection, organization_id=organization_id, owner_id=owner_id)
    return [row for row in rows if _may_see(work, organization_id, row.user_id)]


async def list_own(ctx: Context) -> list[OwnTokenRow]:
    """Return the caller's tokens in all organizations that the caller belongs to."""
    async with ctx.read() as work:
        await work.lookup.require_caller()
        return await store.list_by_owner(work.connection, user_id=ctx.actor.user_id)


async def revoke_access_token(ctx: Context, organization_id: str, token_id: str) -> None:
    """End a token, and all that were made with it.

    Raises NotFound, NotAllowed.
    """
    acting = ctx.actor.token
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        rows = await store.list_by_organization(work.connection, organization_id=organization.id, owner_id=None)
        row = next((each for each in rows if each.id == token_id), None)
        if row is None:
            raise NotFound(f"There is no access token {token_id!r}.", "List the access tokens to find the ID.")
        is_own = row.user_id == ctx.actor.user_id if acting is None else row.id == acting.id
        if not is_own:
            work.lookup.require(organization.id, Permission.MANAGE_USERS, permissions.user(row.user_id))
        await store.delete(work.connection, id=row.id)
        await work.audit("revoke_access_token", organization, before={"name": row.name}, at=_path(row.user_id, row.id))


def _may_see(work: Work, organization_id: str, owner_id: str) -> bool:
    is_own = owner_id == work.actor.user_id
    return is_own or work.lookup.allows(organization_id, Permission.MANAGE_USERS, permissions.user(owner_id))


async def require_service_account(
    work: Work, organization_id: str, owner_id: str, *, scope: Collection[RoleEntry] | None = None
) -> None:
    """Raise unless the caller may make tokens for the owner.

    A token acts with the owner's roles, so the caller must be allowed to assign each of them. What it allows must be
    within the caller's own rights: these roles, or the scope that limits them.
    """
    await work.lookup.member(organization_id, owner_id, Permission.MANAGE_ROLES)
    found = await store.list_service_accounts(work.connection, organization_id=organization_id, id=owner_id)
    if not found:
        raise NotAllowed("Only people themselves make their access tokens.", "Make one for a service account.")
    held = await roles_named(work, organization_id, found[0].roles)
    if scope is None:
        await require_gift(work, organization_id, owner_id, held)
    else:
        require_assignment(work, organization_id, owner_id, held)
        await require_own_rights(work, organization_id, scope)


def _read_scope(scope: Sequence[str]) -> tuple[RoleEntry, ...]:
    entries = read_role_text("".join(f"- {entry}\n" for entry in scope))
    if not entries:
        raise BadRequest(
            "scope: a token needs an entry, such as 'Read: [/*]'.",
            "Leave the scope out for everything that its owner may do.",
            code="InvalidRole",
        )
    return entries


async def _require_within(entries: Sequence[RoleEntry] | None, scope: Sequence[RoleEntry]) -> None:
    if entries is None or len(await asyncio.to_thread(gate.entries_beyond, entries, scope)) > 0:
        own = ", ".join(map(str, scope))
        raise NotAllowed(f"A token can't make one that allows more than itself: {own}.", "Give a narrower scope.")


def _path(owner_id: str, token_id: str) -> str:
    return f"{permissions.user(owner_id)}/accessTokens/{token_id}"
