"""Who belongs to an organization, as its identity provider says (decision 0229).

A provider decides about memberships of one organization alone. An account belongs to its person, and maybe to other
organizations: its address, name, password and state stay as they are.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict, NotAllowed, NotFound
from launchbay.feature import Stuck
from launchbay.features.scim import rows as store
from launchbay.features.scim.rows import GroupRow, MemberOfGroup, PersonRow
from launchbay.ids import canonical_id, new_id
from launchbay.limits import (
    KIB,
    SCIM_DOCUMENT_BYTES,
    SCIM_GROUPS,
    SCIM_PAGE,
    SCIM_PEOPLE,
    SCIM_REFUSAL_CHARS,
    SCIM_REFUSALS,
)
from launchbay.store import organizations, users
from launchbay.store.database import Connection, unique_violation_as
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.users import end_membership, invite_account


class PeopleFilter(NamedTuple):
    """Which people; None is any."""

    id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    external_id: str | None = None
    display_name: str | None = None
    is_active: bool | None = None


class GroupFilter(NamedTuple):
    """Which groups; None is any."""

    id: str | None = None
    external_id: str | None = None
    display_name: str | None = None
    member_id: str | None = None


class Person(NamedTuple):
    """What a provider says of a person.

    `document` is JSON that it gets again. `name` is for a new account.
    """

    user_name: str
    external_id: str | None
    address: str
    name: str
    is_active: bool
    document: str


class FoundPerson(NamedTuple):
    """A person with the groups that they are in."""

    row: PersonRow
    groups: tuple[store.GroupOfPerson, ...]

    @property
    def id(self) -> str:
        assert self.row.id is not None, "an empty page has no people"
        return self.row.id


class Group(NamedTuple):
    """What a provider says of a group; its members are IDs of people."""

    name: str
    external_id: str | None
    members: frozenset[str]


class FoundGroup(NamedTuple):
    """A group; without `has_members`, nobody read who is in it."""

    row: GroupRow
    members: tuple[MemberOfGroup, ...]
    has_members: bool = True

    @property
    def id(self) -> str:
        assert self.row.id is not None, "an empty page has no groups"
        return self.row.id


class Refusal(msgspec.Struct, rename="camel"):
    """A request of a provider that was refused."""

    at: str  # ISO 8601
    request: str
    status: int
    problem: str


@dataclass(frozen=True, slots=True)
class Activity:
    """What the provider of an organization did last."""

    row: store.ActivityRow | None
    refusals: tuple[Refusal, ...]


async def require_provisioner(ctx: Context) -> str:
    """Return the organization of the caller's token. Raises NotAllowed.

    Tokens of people end with them, so a provider has a service account.
    """
    async with ctx.read() as work:
        return await _organization(work)


async def _organization(work: Work) -> str:
    token = work.actor.token
    if token is None or not await store.is_service_account(work.connection, user_id=work.actor.user_id):
        raise NotAllowed(
            "SCIM needs an access token of a service account.",
            "An administrator makes one for the identity provider, with the permission ProvisionUsers alone.",
            code="NotProvisioner",
        )
    return (await work.lookup.organization(token.organization_id, Permission.PROVISION_USERS)).id


async def find_people(
    ctx: Context, wanted: PeopleFilter, *, skipped: int = 0, count: int = SCIM_PAGE
) -> tuple[int, list[FoundPerson]]:
    """Return how many people match, and some of them, by ID."""
    async with ctx.read() as work:
        organization_id = await _organization(work)
        return await _people(work.connection, organization_id, wanted, skipped=skipped, count=count)


async def read_person(ctx: Context, person_id: str) -> FoundPerson:
    async with ctx.read() as work:
        return await _person(work.connection, await _organization(work), person_id)


async def create_person(ctx: Context, person: Person) -> FoundPerson:
    """Make a person known, and a member if active.

    A member whom the provider didn't make becomes its own. Raises Conflict for who is known already, BadRequest.
    """
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        if (await store.count_people(work.connection, organization_id=organization_id) or 0) >= SCIM_PEOPLE:
            raise BadRequest(f"A provider sends at most {SCIM_PEOPLE} people.", code="TooMany")
        account = await users.get_by_email(work.connection, email=person.address)
        found: list[FoundPerson] = []
        if account is not None:
            _, found = await _people(work.connection, organization_id, PeopleFilter(user_id=account.id))
        if found and found[0].row.document is not None:
            raise Conflict(f"There is a user with the account {person.address} already.", code="Taken")
        before = found[0] if found else None
        person_id, user_id, ended = await _set_active(work, organization_id, before, person)
        await _put(work, organization_id, before, person_id, user_id, person)
        await _apply_groups(work, organization_id)
        at = permissions.user(user_id or person_id)
        await work.audit("provision_user", organization_id, after=_shown(person), at=at)
        made = await _person(work.connection, organization_id, person_id)
    if ended is not None:
        ctx.app.sign_in.invalidate(ended)
    return made


async def change_person(ctx: Context, person_id: str, change: Callable[[FoundPerson], Person]) -> FoundPerson:
    """Replace what a provider says of a person.

    `change` gets what is known under the lock, in a thread.

    Who isn't active anymore leaves the organization, at once: roles, sessions there, tokens and schedules end with the
    membership. Raises NotFound, Conflict, BadRequest for the last administrator, and what `change` raises.
    """
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        found = await _person(work.connection, organization_id, person_id)
        person = await asyncio.to_thread(change, found)  # a patch takes a while
        _, user_id, ended = await _set_active(work, organization_id, found, person)
        await _put(work, organization_id, found, found.id, user_id, person)
        await _apply_groups(work, organization_id)
        at = permissions.user(user_id or found.id)
        await work.audit("update_provisioned_user", organization_id, _before(found), _shown(person), at=at)
        changed = await _person(work.connection, organization_id, found.id)
    if ended is not None:
        ctx.app.sign_in.invalidate(ended)
    return changed


async def delete_person(ctx: Context, person_id: str, check: Callable[[FoundPerson], None]) -> None:
    """Forget a person, and end the membership. Raises as `change_person`."""
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        found = await _person(work.connection, organization_id, person_id)
        check(found)
        ended = await _leave(work, organization_id, found)
        await store.delete_person(work.connection, organization_id=organization_id, id=found.id)
        at = permissions.user(found.row.user_id or found.id)
        await work.audit("delete_provisioned_user", organization_id, _before(found), at=at)
    if ended is not None:
        ctx.app.sign_in.invalidate(ended)


async def find_groups(
    ctx: Context, wanted: GroupFilter, *, skipped: int = 0, count: int = SCIM_PAGE, with_members: bool = True
) -> tuple[int, list[FoundGroup]]:
    """Return how many groups match, and some of them, by ID."""
    async with ctx.read() as work:
        organization_id = await _organization(work)
        return await _groups(
            work.connection, organization_id, wanted, skipped=skipped, count=count, with_members=with_members
        )


async def read_group(ctx: Context, group_id: str, *, with_members: bool = True) -> FoundGroup:
    async with ctx.read() as work:
        return await _group(work.connection, await _organization(work), group_id, with_members=with_members)


async def create_group(ctx: Context, group: Group) -> FoundGroup:
    """Make a group with its members.

    Raises Conflict for a name that is taken, BadRequest.
    """
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        if (await store.count_groups(work.connection, organization_id=organization_id) or 0) >= SCIM_GROUPS:
            raise BadRequest(f"An organization has at most {SCIM_GROUPS} groups of its provider.", code="TooMany")
        group_id, name = new_id(), validate_name(group.name, "displayName")
        await _require_free(work, organization_id, name)
        await store.insert_group(
            work.connection, id=group_id, organization_id=organization_id, name=name, external_id=group.external_id
        )
        await _add(work, organization_id, group_id, group.members)
        await _apply_groups(work, organization_id)
        after = {"name": name, "externalId": group.external_id, "added": sorted(group.members)}
        await work.audit("create_provisioned_group", organization_id, after=after, at=_path(organization_id, group_id))
        return await _group(work.connection, organization_id, group_id)


async def change_group(ctx: Context, group_id: str, change: Callable[[FoundGroup], Group]) -> FoundGroup:
    """Replace name and members of a group, from what is known under the lock.

    `change` runs in a thread. Members get and lose the roles that are mapped to it. Raises NotFound, Conflict,
    BadRequest, what `change` raises.
    """
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        found = await _group(work.connection, organization_id, group_id)
        group = await asyncio.to_thread(change, found)
        name = validate_name(group.name, "displayName")
        if name != found.row.name:
            await _require_free(work, organization_id, name)
        await store.update_group(
            work.connection, id=found.id, organization_id=organization_id, name=name, external_id=group.external_id
        )
        members = {each.id for each in found.members}
        added, removed = group.members - members, members - group.members
        await _add(work, organization_id, found.id, added)
        await store.remove_members(work.connection, group_id=found.id, ids=sorted(removed))
        await _apply_groups(work, organization_id)
        before = {"name": found.row.name, "externalId": found.row.external_id, "removed": sorted(removed)}
        after = {"name": name, "externalId": group.external_id, "added": sorted(added)}
        await work.audit(
            "update_provisioned_group", organization_id, before, after, at=_path(organization_id, found.id)
        )
        return await _group(work.connection, organization_id, found.id)


async def delete_group(ctx: Context, group_id: str, check: Callable[[FoundGroup], None]) -> None:
    """Delete a group, which takes its roles from its members.

    Raises NotFound, Conflict.
    """
    async with ctx.begin() as work:
        organization_id = await _locked(work)
        found = await _group(work.connection, organization_id, group_id)
        check(found)
        await store.delete_group(work.connection, organization_id=organization_id, id=found.id)
        await _apply_groups(work, organization_id)
        before = {"name": found.row.name, "members": len(found.members)}
        await work.audit("delete_provisioned_group", organization_id, before, at=_path(organization_id, found.id))


async def apply_groups(work: Work, organization_id: str) -> None:
    """Give the roles of groups to members, where a provider sends groups. Raises Conflict.

    Implements the port: it runs when roles are mapped to groups, and when somebody becomes a member.
    """
    if await store.has_groups(work.connection, organization_id=organization_id):
        await _apply_groups(work, organization_id)


async def provisioned_in(connection: Connection, user_id: str) -> Sequence[str]:
    """Return the organizations whose providers say over SCIM which groups a person has."""
    return await store.list_provisioned_in(connection, user_id=user_id)


async def note_success(ctx: Context, organization_id: str) -> None:
    """Remember when the provider was last here."""
    async with ctx.app.database.transaction() as connection:
        await store.note_success(connection, organization_id=organization_id)


async def note_refusal(ctx: Context, organization_id: str, request: str, status: int, problem: str) -> None:
    """Remember what was refused to the provider, for those who set it up."""
    now = ctx.app.clock.now().isoformat(timespec="seconds")
    refusal = Refusal(now, request[:SCIM_REFUSAL_CHARS], status, problem[:SCIM_REFUSAL_CHARS])
    async with ctx.app.database.transaction() as connection:
        await store.note_refusal(
            connection,
            organization_id=organization_id,
            refusal=msgspec.json.encode(refusal).decode(),
            most=SCIM_REFUSALS,
        )


async def read_activity(ctx: Context, organization_id: str) -> Activity | None:
    """Return what the provider did last, or None for who doesn't manage all users."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        if not work.lookup.allows(organization_id, Permission.MANAGE_USERS, permissions.user(permissions.EVERY)):
            return None
        row = await store.get_activity(work.connection, organization_id=organization_id)
    return Activity(row, () if row is None else _refusals(row.refusals))


async def find_stuck(connection: Connection) -> list[Stuck]:
    """Return the organizations whose provider is refused."""
    return [
        Stuck(
            "identity provider",
            each.organization,
            "its last request was refused: " + "; ".join(found.problem for found in _refusals(each.refusals)[:1]),
            "Its settings page, under Users, shows the last refusals. docs/howto/scim.md says what a provider sends.",
        )
        for each in await store.list_failing(connection)
    ]


def _refusals(text: str) -> tuple[Refusal, ...]:
    return msgspec.json.decode(text, type=tuple[Refusal, ...])


async def _locked(work: Work) -> str:
    organization_id = await _organization(work)
    await organizations.lock(work.connection, organization_id=organization_id)
    return await _organization(work)  # as it is now, after waiting


async def _people(
    connection: Connection, organization_id: str, wanted: PeopleFilter, *, skipped: int = 0, count: int = SCIM_PAGE
) -> tuple[int, list[FoundPerson]]:
    rows = await store.list_people(
        connection, organization_id=organization_id, skipped=skipped, count=count, **wanted._asdict()
    )
    return rows[0].total, await _with_groups(connection, organization_id, rows)


async def _with_groups(connection: Connection, organization_id: str, rows: Sequence[PersonRow]) -> list[FoundPerson]:
    ids = [row.id for row in rows if row.id is not None]
    groups = await store.list_groups_of_people(connection, organization_id=organization_id, ids=ids) if ids else []
    by_person: defaultdict[str, list[store.GroupOfPerson]] = defaultdict(list)
    for group in groups:
        by_person[group.id].append(group)
    return [FoundPerson(row, tuple(by_person[row.id])) for row in rows if row.id is not None]


async def _person(connection: Connection, organization_id: str, person_id: str) -> FoundPerson:
    known = canonical_id(person_id)
    row = await store.get_person(connection, organization_id=organization_id, id=known)
    if row is not None:
        return (await _with_groups(connection, organization_id, [row]))[0]
    _, found = await _people(connection, organization_id, PeopleFilter(id=known))
    if not found:
        raise NotFound(f"There is no user {person_id[:80]!r}.")
    return found[0]


async def _groups(
    connection: Connection,
    organization_id: str,
    wanted: GroupFilter,
    *,
    skipped: int = 0,
    count: int = SCIM_PAGE,
    with_members: bool = True,
) -> tuple[int, list[FoundGroup]]:
    rows = await store.list_groups(
        connection, organization_id=organization_id, skipped=skipped, count=count, **wanted._asdict()
    )
    ids = [row.id for row in rows if row.id is not None]
    members: dict[str, list[MemberOfGroup]] = {each: [] for each in ids}
    if ids and with_members:
        for member in await store.list_members(connection, organization_id=organization_id, ids=ids):
            members[member.group_id].append(member)
    found = [FoundGroup(row, tuple(members[row.id]), with_members) for row in rows if row.id is not None]
    return rows[0].total, found


async def _group(
    connection: Connection, organization_id: str, group_id: str, *, with_members: bool = True
) -> FoundGroup:
    wanted = GroupFilter(id=canonical_id(group_id))
    _, found = await _groups(connection, organization_id, wanted, with_members=with_members)
    if not found:
        raise NotFound(f"There is no group {group_id[:80]!r}.")
    return found[0]


class _Set(NamedTuple):
    """The IDs of a person, of the account, and of one that ended."""

    person_id: str
    user_id: str | None
    ended: str | None = None


async def _set_active(work: Work, organization_id: str, before: FoundPerson | None, person: Person) -> _Set:
    """Begin or end a membership, if that is what changed."""
    person_id, user_id = (new_id(), None) if before is None else (before.id, before.row.user_id)
    is_member = before is not None and before.row.is_active
    if person.is_active and not is_member:
        return _Set(person_id, await _join(work, organization_id, person))
    if before is not None and is_member and not person.is_active:
        ended = await _leave(work, organization_id, before)
        return _Set(person_id, None, ended)
    return _Set(person_id, user_id)


async def _put(
    work: Work, organization_id: str, before: FoundPerson | None, person_id: str, user_id: str | None, person: Person
) -> None:
    if len(person.document.encode()) > SCIM_DOCUMENT_BYTES:
        raise BadRequest(f"A user has at most {SCIM_DOCUMENT_BYTES // KIB} KiB.", "Map fewer attributes.")
    validate_name(person.user_name, "userName")
    # Who keeps a name and a record has it still, even if somebody was added by hand with that name.
    if before is None or before.row.document is None or person.user_name != before.row.user_name:
        _, same = await _people(work.connection, organization_id, PeopleFilter(user_name=person.user_name))
        if any(each.id != person_id and (user_id is None or each.row.user_id != user_id) for each in same):
            raise Conflict(f"There is a user {person.user_name!r} already.", code="Taken")
    with unique_violation_as(f"Another user of the provider has the account {person.address}.", "Taken"):
        put = await store.put_person(
            work.connection,
            id=person_id,
            organization_id=organization_id,
            user_id=user_id,
            user_name=person.user_name,
            address=person.address,
            external_id=person.external_id,
            document=person.document,
        )
    assert put is not None, "no other organization has the ID"


async def _join(work: Work, organization_id: str, person: Person) -> str:
    """Make the account of an address a member, and return its ID.

    An account that exists elsewhere is invited: its person accepts the membership (decision 0095).
    """
    name = validate_name(person.name, "displayName")
    account = await users.get_by_email(work.connection, email=person.address)
    if account is None:
        user_id = new_id()
        with unique_violation_as(f"The account {person.address} was created by another request. Retry.", "Taken"):
            await users.insert(work.connection, id=user_id, email=person.address, name=name, password_hash=None)
        await users.join_organization(work.connection, organization_id=organization_id, user_id=user_id)
        return user_id
    if await store.is_service_account(work.connection, user_id=account.id):
        raise BadRequest(f"{person.address} is a service account.", "Map another attribute to the address.")
    member = await users.get_in_organization(work.connection, organization_id=organization_id, user_id=account.id)
    if member is None:
        await invite_account(work, organization_id, account.id, name, ())
    return account.id


async def _leave(work: Work, organization_id: str, found: FoundPerson) -> str | None:
    """End the membership or invitation of a person.

    Return the ID of the account if it was deleted.
    """
    user_id = found.row.user_id
    if user_id is None:
        return None
    await users.lock(work.connection, user_id=user_id)
    if await users.get_in_organization(work.connection, organization_id=organization_id, user_id=user_id) is None:
        await users.withdraw_pending_membership(work.connection, organization_id=organization_id, user_id=user_id)
        return None
    user = await users.get(work.connection, id=user_id)
    assert user is not None, "members have accounts"
    is_deleted = await end_membership(work, "deprovision_user", organization_id, user)
    return user_id if is_deleted else None


async def _require_free(work: Work, organization_id: str, name: str) -> None:
    _, same = await _groups(work.connection, organization_id, GroupFilter(display_name=name), with_members=False)
    if any(each.row.name == name for each in same):
        raise Conflict(f"There is a group {name!r} already.", code="Taken")


async def _add(work: Work, organization_id: str, group_id: str, ids: frozenset[str]) -> None:
    """Add people to a group. Raises BadRequest for those whom the organization doesn't have."""
    if not ids:
        return
    wanted = sorted(ids)
    await store.adopt(work.connection, organization_id=organization_id, ids=wanted)
    known = set(await store.list_known(work.connection, organization_id=organization_id, ids=wanted))
    unknown = [each for each in wanted if each not in known]
    if unknown:
        await _require_adoptable(work, organization_id, unknown[0])
        raise BadRequest(
            f"members: there is no user {unknown[0][:80]!r}.",
            "Groups have users as members, not groups.",
            code="UnknownId",
        )
    await store.add_members(work.connection, group_id=group_id, ids=wanted)


async def _require_adoptable(work: Work, organization_id: str, person_id: str) -> None:
    """Raise Conflict for a member whose name a record of the provider has."""
    _, found = await _people(work.connection, organization_id, PeopleFilter(id=person_id))
    if found:
        raise Conflict(
            f"members: another user has the name {found[0].row.user_name!r} already.",
            "Set that one active, or delete it. Then add the member.",
            code="Taken",
        )


async def _apply_groups(work: Work, organization_id: str) -> None:
    before = await users.list_administrators(work.connection, organization_id=organization_id)
    changed = await store.apply_groups(work.connection, organization_id=organization_id)
    if before and not await users.list_administrators(work.connection, organization_id=organization_id):
        raise Conflict(
            "This would take the role Administrator from the last one who has it.",
            "Give it to somebody else first.",
            code="LastAdministrator",
        )
    for each in changed:
        await work.audit(
            "synchronize_roles",
            organization_id,
            before={"lost": each.lost},
            after={"gained": each.gained},
            at=permissions.user(each.user_id),
        )


def _shown(person: Person) -> dict[str, object]:
    return {
        "email": person.address,
        "userName": person.user_name,
        "externalId": person.external_id,
        "active": person.is_active,
    }


def _before(found: FoundPerson) -> dict[str, object]:
    row = found.row
    return {
        "email": row.email,
        "userName": row.user_name,
        "externalId": row.external_id,
        "active": row.is_active,
    }


def _path(organization_id: str, group_id: str) -> str:
    return f"/organizations/{organization_id}/provisionedGroups/{group_id}"
