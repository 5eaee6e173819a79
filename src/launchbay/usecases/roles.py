"""Roles, and who holds them (reference §4, Roles).

Every change holds the organization's row locked: roles, memberships and assignments change one after the other.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cache, partial
from typing import NamedTuple

from launchbay.auth import gate
from launchbay.auth import permissions as auth_permissions
from launchbay.auth.gate import Grants, RoleEntry, read_role_text
from launchbay.auth.permissions import Permission, Resource, parse_resource
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.ids import is_id, new_id
from launchbay.limits import CHANGE_RULES_CHECKED, GROUP_ROLES, MIB, ROLE_TEXTS_BYTES
from launchbay.model.changes import GOVERNED
from launchbay.planning.names import DESTROY
from launchbay.store import audit, organizations
from launchbay.store import users as store
from launchbay.store.database import unique_violation_as
from launchbay.store.users import (
    FirstHolder,
    GroupRoles,
    HolderCounts,
    Role,
    RoleHolder,
    RoleKind,
    leaves_no_administrator,
)
from launchbay.usecases.context import Context, Work, name_taken, validate_name


async def require_another_administrator(work: Work, organization_id: str, user_id: str) -> None:
    """Refuse what would take the last administrator away. Raises BadRequest.

    The caller holds the organization's row locked, so that two requests cannot each take one of two.
    """
    administrators = await store.list_administrators(work.connection, organization_id=organization_id)
    if leaves_no_administrator(administrators, user_id):
        raise BadRequest(
            "This is the last administrator of the organization.",
            "Give the role Administrator to somebody else first.",
            code="LastAdministrator",
        )


_UNKNOWN_SHOWN = 20
_LACKING_SHOWN = 5
_ENTRY_CHARS = 300
_INLINE = 50  # patterns: comparing more takes milliseconds for who has long roles


async def list_roles(ctx: Context, organization_id: str) -> list[Role]:
    """Return the roles of an organization that the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_roles_by_organization(work.connection, organization_id=organization_id)
    return await work.lookup.permitted(organization_id, Permission.READ, rows, auth_permissions.role)


async def read_role(ctx: Context, role_id: str) -> Role:
    async with ctx.read() as work:
        return await work.lookup.role(role_id, Permission.READ)


async def count_holders(ctx: Context, organization_id: str) -> dict[str, HolderCounts]:
    """Return how many people and service accounts hold each role, by the role's ID."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.count_role_holders(work.connection, organization_id=organization_id)
    return {row.id: row for row in rows}


async def list_first_holders(ctx: Context, role_id: str, count: int) -> tuple[int, list[FirstHolder]]:
    """Return how many hold a role, and the first of them.

    Those whom the caller may not read don't count.
    """
    async with ctx.read() as work:
        role = await work.lookup.role(role_id, Permission.READ)
        allows = partial(work.lookup.allows, role.organization_id, Permission.READ)
        reads_all = allows(auth_permissions.user(auth_permissions.EVERY))
        rows = await store.list_first_holders(
            work.connection,
            organization_id=role.organization_id,
            role_id=role.id,
            count=count if reads_all else None,
        )
    found = [row for row in rows if allows(auth_permissions.user(row.id))]
    return found[0].holders if reads_all and found else len(found), found[:count]


class HolderChange(NamedTuple):
    """What a holder of a role would gain and lose; other roles allow `kept`."""

    holder: RoleHolder
    gains: tuple[RoleEntry, ...]
    losses: tuple[RoleEntry, ...]
    kept: tuple[RoleEntry, ...]


class LostChange(NamedTuple):
    """A change by a holder, and the permission that they would lose."""

    at: datetime
    by: str
    operation: str
    object: str
    permission: Permission


class RecentLosses(NamedTuple):
    """How many of the holders' last changes were compared, and which would be refused.

    `missing` says why none was.
    """

    changes: int = 0
    refused: tuple[LostChange, ...] = ()
    missing: str | None = None


class RoleCheck(NamedTuple):
    """What is wrong with a text, and what saving it would change.

    `errors` prevent saving. A warning is about a pattern that names no object. `hidden` counts holders whom the caller
    may not read.
    """

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    changes: tuple[HolderChange, ...]
    hidden: int
    names: Mapping[str, str]  # of the objects in the patterns, by ID
    recent: RecentLosses | None = None


async def check_role(ctx: Context, organization_id: str, permissions: str, role_id: str | None = None) -> RoleCheck:
    """Check the text of a role before it is saved.

    Without a role it is about a new one, which nobody holds. Two entries are compared as `gate.is_within` does, so what
    only several entries allow together counts as gained.
    """
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
        if role_id is None:
            work.lookup.require(organization_id, Permission.MANAGE_ROLES, auth_permissions.role(new_id()))
            before: tuple[RoleEntry, ...] = ()
        else:
            role = await work.lookup.role(role_id, Permission.MANAGE_ROLES)
            if role.organization_id != organization_id:
                raise NotFound(f"There is no role {role_id[:80]!r} in the organization.")
            before = gate.entries_of_role(role.kind, role.permissions)
        rows = await store.list_roles_by_organization(work.connection, organization_id=organization_id)
        holders = (
            []
            if role_id is None
            else await store.list_role_holders(work.connection, organization_id=organization_id, role_id=role_id)
        )
        try:
            after = read_role_text(permissions)
        except BadRequest as error:
            return RoleCheck(error.messages, (), (), 0, {})
        named = {each for entry in (*before, *after) for each in _ids_in(entry)}
        found = await audit.list_names(work.connection, organization_id=organization_id, ids=sorted(named))
        visible = [
            row
            for row in holders
            if work.lookup.allows(organization_id, Permission.READ, auth_permissions.user(row.id))
        ]
        recent = await _recent_losses(work, organization_id, visible, rows, before, after)
    changes, lacking = await asyncio.to_thread(
        _compared, before, after, visible, rows, work.lookup.grants(organization_id)
    )
    names = {row.id: row.name for row in found}
    warnings = tuple(
        f"{entry.permission}: nothing has the ID {each}, so the pattern allows nothing."
        for entry in after
        for each in _ids_in(entry)
        if each not in names
    )
    whole = tuple(
        f"{entry} allows nothing: the log isn't split by objects. Write '{entry.permission}: [/*]'."
        for entry in after
        if gate.is_of_no_use(entry)
    )
    errors = tuple(f"{each}: you lack this yourself, so you can't give it." for each in lacking[:_UNKNOWN_SHOWN])
    return RoleCheck(
        errors, tuple(dict.fromkeys(warnings + whole)), changes, len(holders) - len(visible), names, recent
    )


async def _recent_losses(
    work: Work,
    organization_id: str,
    holders: Sequence[RoleHolder],
    roles: Sequence[Role],
    before: Sequence[RoleEntry],
    after: Sequence[RoleEntry],
) -> RecentLosses:
    """Return which of the last changes by holders a new text would refuse."""
    if not work.lookup.holds(organization_id, Permission.VIEW_AUDIT):
        return RecentLosses(missing="You need the permission ViewAudit to compare the text with recent changes.")
    rows = await audit.list_recent_by(
        work.connection,
        organization_id=organization_id,
        actor_ids=[each.id for each in holders],
        operations=list(GOVERNED),
        limit=CHANGE_RULES_CHECKED,
    )
    return RecentLosses(len(rows), await asyncio.to_thread(_lost, rows, holders, roles, before, after))


def _lost(
    rows: Sequence[audit.RecentByRow],
    holders: Sequence[RoleHolder],
    roles: Sequence[Role],
    before: Sequence[RoleEntry],
    after: Sequence[RoleEntry],
) -> tuple[LostChange, ...]:
    known = {role.id: gate.entries_of_role(role.kind, role.permissions) for role in roles}
    others = {each.id: [gate.RoleGrants(role, known[role]) for role in each.other_role_ids] for each in holders}
    grants = {
        each: [Grants((*held, gate.RoleGrants("", tuple(text)))) for text in (before, after)]
        for each, held in others.items()
    }
    found: list[LostChange] = []
    for row in rows:
        needed = _needed_for(row)
        if needed is None or row.actor_id not in grants:
            continue
        permission, touched = needed
        then, now = (gate.decide(each, permission, touched).allowed for each in grants[row.actor_id])
        if then and not now:
            found.append(LostChange(row.at, row.actor_email, row.operation, row.object, permission))
    return tuple(found)


_NEEDED = {
    "launch_application": Permission.CREATE_INSTANCE,
    "run_workflow": Permission.RUN_INSTANCE_WORKFLOW,
    "schedule_workflow": Permission.SCHEDULE_INSTANCE_WORKFLOW,
    "reschedule_workflow": Permission.SCHEDULE_INSTANCE_WORKFLOW,
    "delete_instance": Permission.DELETE_INSTANCE,
}


def _needed_for(row: audit.RecentByRow) -> tuple[Permission, tuple[Resource, ...]] | None:
    """Return the permission that a change took, and what it touched."""
    try:
        resource = parse_resource(row.object)
    except BadRequest:
        return None
    environment = () if row.environment_id is None else (auth_permissions.environment(row.environment_id),)
    if GOVERNED[row.operation] == "edit":
        edits = {"applications": Permission.EDIT_APPLICATION, "environments": Permission.EDIT_ENVIRONMENT}
        permission = edits.get(resource.kind)
        return None if permission is None else (permission, (resource,))
    if row.operation == "launch_application":
        return _NEEDED[row.operation], (auth_permissions.application(resource.segments[1]), *environment)
    if resource.kind != "applications":
        return None
    if resource.segments[-1] == DESTROY:
        return Permission.EDIT_INSTANCE, (auth_permissions.instance(*resource.segments[1:4:2]), *environment)
    return _NEEDED.get(row.operation, Permission.EDIT_INSTANCE), (resource, *environment)


def _compared(
    before: Sequence[RoleEntry],
    after: Sequence[RoleEntry],
    holders: Sequence[RoleHolder],
    roles: Sequence[Role],
    grants: Grants,
) -> tuple[tuple[HolderChange, ...], list[RoleEntry]]:
    """Return what a new text changes for holders, and what these grants lack."""
    known = {role.id: gate.entries_of_role(role.kind, role.permissions) for role in roles}
    gains, losses = gate.entries_beyond(after, before), gate.entries_beyond(before, after)

    @cache  # many hold the same roles
    def change(other_role_ids: frozenset[str]) -> tuple[tuple[RoleEntry, ...], ...]:
        others = [entry for each in other_role_ids for entry in known[each]]
        new, gone = gate.entries_beyond(gains, others), gate.entries_beyond(losses, others)
        changed = {*new, *gone}
        return tuple(new), tuple(gone), tuple(entry for entry in (*gains, *losses) if entry not in changed)

    changes = tuple(HolderChange(row, *change(frozenset(row.other_role_ids))) for row in holders)
    return changes, gate.beyond(grants, gains)


def _ids_in(entry: RoleEntry) -> list[str]:
    """Return the IDs of objects that the patterns of an entry name."""
    return [segment for pattern in entry.patterns for segment in pattern.segments[1:4:2] if is_id(segment)]


async def create_role(ctx: Context, organization_id: str, name: str, permissions: str) -> Role:
    """Create a role; its text is kept as it is.

    Raises BadRequest with the place of what is wrong in the text, and NotAllowed beyond the caller's own rights.
    """
    role_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.MANAGE_ROLES, auth_permissions.role(role_id)
        )
        name = validate_name(name)
        await require_own_rights(work, organization.id, read_role_text(permissions))
        await _check_size(work, organization.id, role_id, permissions)
        with unique_violation_as(*name_taken("a role", name)):
            await store.insert_role(
                work.connection,
                id=role_id,
                organization_id=organization.id,
                name=name,
                permissions=permissions,
                kind=RoleKind.CUSTOM,
            )
        after = {"name": name, "permissions": permissions}
        await work.audit("create_role", organization, after=after, at=auth_permissions.role(role_id))
        return await work.lookup.role(role_id, Permission.MANAGE_ROLES)


async def _check_size(work: Work, organization_id: str, role_id: str, permissions: str, before: str = "") -> None:
    """Raise BadRequest if a role grows, and all roles are then too large.

    Decisions for who holds all of them would take long.
    """
    if len(permissions.encode()) <= len(before.encode()):
        return  # the roles of an organization may be larger from before the limit, and must be able to shrink
    await organizations.lock(work.connection, organization_id=organization_id)  # others may add roles meanwhile
    others = await store.sum_role_bytes(work.connection, organization_id=organization_id, but=role_id) or 0
    if others + len(permissions.encode()) > ROLE_TEXTS_BYTES:
        raise BadRequest(
            f"The permissions of all roles of an organization have at most {ROLE_TEXTS_BYTES // MIB} MiB together.",
            "Delete roles, or write patterns with '*' instead of one for each object.",
        )


async def update_role(ctx: Context, role_id: str, name: str, permissions: str) -> None:
    """Replace name and text of a role.

    What the role gains must be within the caller's own rights; what it has already may stay. Raises NotAllowed, also
    for the built-in Administrator, and BadRequest.
    """
    async with ctx.begin() as work:
        role = await _for_change(work, role_id)
        if not role.can_edit:
            raise _built_in(role)
        name = validate_name(name)
        gained = gate.entries_beyond(read_role_text(permissions), read_role_text(role.permissions))
        await require_own_rights(work, role.organization_id, gained)
        await _check_size(work, role.organization_id, role.id, permissions, role.permissions)
        with unique_violation_as(*name_taken("a role", name)):
            await store.update_role(work.connection, id=role.id, name=name, permissions=permissions)
        before = {"name": role.name, "permissions": role.permissions}
        await work.audit("update_role", role, before, {"name": name, "permissions": permissions})


async def delete_role(ctx: Context, role_id: str) -> None:
    """Delete a role, which revokes it from everybody. Raises NotAllowed for the built-in Administrator."""
    async with ctx.begin() as work:
        role = await _for_change(work, role_id)
        if not role.can_delete:
            raise _built_in(role)
        await store.delete_role(work.connection, id=role.id)
        await work.audit("delete_role", role, before={"name": role.name, "permissions": role.permissions})


async def assign_roles(ctx: Context, organization_id: str, user_id: str, names: Sequence[str]) -> None:
    """Give roles to a member, or offer them to somebody invited.

    Raises BadRequest naming the roles that do not exist, and NotAllowed for roles beyond the caller's own rights.
    """
    async with ctx.begin() as work:
        before, is_pending = await _held_by(work, organization_id, user_id)
        wanted = await roles_named(work, organization_id, names)
        await require_gift(work, organization_id, user_id, wanted)
        role_ids = [role.id for role in wanted]
        if is_pending:
            await store.offer_roles(
                work.connection, organization_id=organization_id, user_id=user_id, role_ids=role_ids
            )
        else:
            await store.assign_role(work.connection, user_id=user_id, role_ids=role_ids)
        after = {"roles": sorted({*before, *(role.name for role in wanted)})}
        at = auth_permissions.user(user_id)
        await work.audit("assign_roles", organization_id, {"roles": before}, after, at=at)


async def revoke_roles(ctx: Context, organization_id: str, user_id: str, names: Sequence[str]) -> None:
    """Take roles from a member, or from the offer to somebody invited.

    Raises BadRequest naming the roles that do not exist, and when nobody would be administrator any more.
    """
    async with ctx.begin() as work:
        before, is_pending = await _held_by(work, organization_id, user_id)
        unwanted = await roles_named(work, organization_id, names)
        require_assignment(work, organization_id, user_id, unwanted)
        role_ids = [role.id for role in unwanted]
        if is_pending:
            await store.withdraw_roles(
                work.connection, organization_id=organization_id, user_id=user_id, role_ids=role_ids
            )
        else:
            if any(role.kind is RoleKind.ADMINISTRATOR for role in unwanted):
                await require_another_administrator(work, organization_id, user_id)
            await store.revoke_role(work.connection, user_id=user_id, role_ids=role_ids)
        after = {"roles": sorted({*before} - {role.name for role in unwanted})}
        at = auth_permissions.user(user_id)
        await work.audit("revoke_roles", organization_id, {"roles": before}, after, at=at)


async def list_group_roles(ctx: Context, organization_id: str) -> list[GroupRoles]:
    """Return which roles the groups of the identity provider have in an organization."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id, Permission.MANAGE_ROLES)
        return await store.list_group_roles(work.connection, organization_id=organization_id)


_Pairs = frozenset[tuple[str, str]]  # groups with names of roles


async def replace_group_roles(ctx: Context, organization_id: str, wanted: Sequence[GroupRoles]) -> None:
    """Replace which roles the groups have.

    Members get and lose them at their next sign-in through the provider.

    The caller needs the permission to give each of the roles that change to any user, and what is added must be within
    the caller's own rights. Raises BadRequest for roles that the organization does not have.
    """
    new = frozenset((validate_name(row.group), name) for row in wanted for name in row.roles)
    await _change_group_roles(ctx, organization_id, lambda _: new)


async def set_group_roles(ctx: Context, organization_id: str, group: str, role_names: Collection[str]) -> None:
    """Set which roles one group has, as `replace_group_roles` does for all."""
    group = validate_name(group)
    new = {(group, name) for name in role_names}
    await _change_group_roles(ctx, organization_id, lambda old: new | {pair for pair in old if pair[0] != group})


async def _change_group_roles(
    ctx: Context, organization_id: str, change: Callable[[_Pairs], AbstractSet[tuple[str, str]]]
) -> None:
    async with ctx.begin() as work:
        await work.lookup.organization(organization_id, Permission.MANAGE_ROLES)
        await organizations.lock(work.connection, organization_id=organization_id)
        before = await store.list_group_roles(work.connection, organization_id=organization_id)
        old = frozenset((row.group, name) for row in before for name in row.roles)
        new = change(old)
        if len(new) > GROUP_ROLES:
            raise BadRequest(f"An organization has at most {GROUP_ROLES} roles of groups.", "Map fewer groups.")
        roles = {role.name: role for role in await roles_named(work, organization_id, {name for _, name in old | new})}
        anybody = new_id()
        require_assignment(work, organization_id, anybody, [roles[name] for _, name in sorted(old - new)])
        await require_gift(work, organization_id, anybody, [roles[name] for name in sorted({n for _, n in new - old})])
        pairs = sorted(new)
        await store.delete_group_roles(work.connection, organization_id=organization_id)
        await store.insert_group_roles(
            work.connection,
            role_ids=[roles[name].id for _, name in pairs],
            groups=[group for group, _ in pairs],
        )
        await ctx.app.ports.apply_groups(work, organization_id)
        shown = [{"groups": [f"{group}: {name}" for group, name in sorted(each)]} for each in (old - new, new - old)]
        await work.audit(
            "replace_group_roles", organization_id, *shown, at=f"/organizations/{organization_id}/groupRoles"
        )


async def roles_named(work: Work, organization_id: str, names: Iterable[str]) -> list[Role]:
    """Return the roles of these names. Raises BadRequest naming those that do not exist."""
    wanted = set(names)
    if not wanted:
        return []
    rows = await store.list_roles_by_organization(work.connection, organization_id=organization_id)
    known = {role.name: role for role in rows}
    unknown = sorted(wanted - known.keys())
    if unknown:
        shown = ", ".join(repr(name[:100]) for name in unknown[:_UNKNOWN_SHOWN])
        more = f" and {len(unknown) - _UNKNOWN_SHOWN} more" if len(unknown) > _UNKNOWN_SHOWN else ""
        raise BadRequest(
            f"The organization has no role named {shown}{more}.",
            "List the roles of the organization.",
            code="UnknownRole",
            field="roles",
        )
    return [known[name] for name in sorted(wanted)]


def require_assignment(work: Work, organization_id: str, user_id: str, touched: Iterable[Role]) -> None:
    """Refuse roles that the caller may not give to this user or take away.

    Raises NotAllowed.

    One by one: an entry with patterns for roles, such as `ManageRoles: [/users/*, /roles/<one>]`, is about those alone.
    """
    for role in touched:
        work.lookup.require(
            organization_id, Permission.MANAGE_ROLES, auth_permissions.user(user_id), auth_permissions.role(role.id)
        )


async def require_gift(work: Work, organization_id: str, user_id: str, given: Sequence[Role]) -> None:
    """Refuse roles that the caller may not give to this user.

    They must be assignable, and within the caller's own rights. Raises NotAllowed.
    """
    require_assignment(work, organization_id, user_id, given)
    entries = [entry for role in given for entry in gate.entries_of_role(role.kind, role.permissions)]
    await require_own_rights(work, organization_id, entries)


async def require_own_rights(work: Work, organization_id: str, entries: Collection[RoleEntry]) -> None:
    """Refuse entries that allow more than the caller may do.

    Raises NotAllowed naming them.

    ManageRoles says whose roles and which ones somebody manages. It never hands out what its holder lacks: else every
    holder could become an administrator.
    """
    grants = work.lookup.grants(organization_id)
    held = (entry for role in grants.roles for entry in role.entries)
    size = 0 if gate.holds_everything(grants) else sum(len(entry.patterns) for entry in (*entries, *held))
    lacking = await asyncio.to_thread(gate.beyond, grants, entries) if size > _INLINE else gate.beyond(grants, entries)
    if lacking:
        shown = "; ".join(str(entry)[:_ENTRY_CHARS] for entry in lacking[:_LACKING_SHOWN])
        more = f" and {len(lacking) - _LACKING_SHOWN} more" if len(lacking) > _LACKING_SHOWN else ""
        raise NotAllowed(
            f"Nobody can give rights beyond their own, and you lack {shown}{more}.",
            "Leave them out, or ask an administrator who has them.",
            code="BeyondOwnRights",
        )


async def _held_by(work: Work, organization_id: str, user_id: str) -> tuple[list[str], bool]:
    """Look a user up for a change of roles, and lock the organization.

    Return the names of the roles held, or offered to who has not accepted yet, and whether they are offered.
    """
    try:
        await work.lookup.member(organization_id, user_id, Permission.MANAGE_ROLES)
    except NotFound:
        pending = await _offered_to(work, organization_id, user_id)
        if pending is None:
            raise
        return pending, True
    await organizations.lock(work.connection, organization_id=organization_id)
    await work.lookup.member(organization_id, user_id, Permission.MANAGE_ROLES)  # as it is now, after waiting
    member = await store.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id)
    assert member is not None, "nobody leaves while the organization is locked"
    return member.roles, False


async def _offered_to(work: Work, organization_id: str, user_id: str) -> list[str] | None:
    if not is_id(organization_id) or not is_id(user_id):
        return None
    if await store.get_pending_member(work.connection, organization_id=organization_id, user_id=user_id) is None:
        return None
    await work.lookup.organization(organization_id, Permission.MANAGE_ROLES, auth_permissions.user(user_id))
    await organizations.lock(work.connection, organization_id=organization_id)
    pending = await store.get_pending_member(work.connection, organization_id=organization_id, user_id=user_id)
    return None if pending is None else pending.roles


async def _for_change(work: Work, role_id: str) -> Role:
    role = await work.lookup.role(role_id, Permission.MANAGE_ROLES)
    await organizations.lock(work.connection, organization_id=role.organization_id)
    return await work.lookup.role(role_id, Permission.MANAGE_ROLES)  # as it is now, after waiting


def _built_in(role: Role) -> NotAllowed:
    return NotAllowed(
        f"The role {role.name!r} can't be changed.",
        "Create your own role instead.",
        code="BuiltInRole",
    )
