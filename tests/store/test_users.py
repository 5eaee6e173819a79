"""Every change of roles, memberships and assignments raises the stamp of its organization, and of no other."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from launchbay.store import organizations, users
from launchbay.store.database import Connection, Database
from launchbay.store.users import RoleKind
from tests.support.databases import until_locked
from tests.support.worlds import Organization, give_role, make_organization, make_user


async def stamp(connection: Connection, organization_id: str) -> int:
    cursor = await connection.execute("SELECT access_stamp FROM organizations WHERE id = %s", [organization_id])
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


Change = Callable[[Connection, Organization, str, str], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "role made": lambda c, o, user, role: give_role(c, o.id, user, "", "another"),
    "role renamed": lambda c, o, user, role: users.update_role(c, id=role, name="new", permissions="- Read: [/*]"),
    "role edited": lambda c, o, user, role: users.update_role(c, id=role, name="role", permissions=""),
    "role deleted": lambda c, o, user, role: users.delete_role(c, id=role),
    "role assigned": lambda c, o, user, role: users.assign_role(c, role_ids=[o.administrator_role], user_id=user),
    "role revoked": lambda c, o, user, role: users.revoke_role(c, role_ids=[role], user_id=user),
    "member left": lambda c, o, user, role: users.leave_organization(c, organization_id=o.id, user_id=user),
    "user deleted": lambda c, o, user, role: c.execute("DELETE FROM users WHERE id = %s", [user]),
}


@pytest.mark.anyio
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_raises_the_stamp_of_its_organization_and_no_other(database: Database, change: str) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection, "Home")
        other = await make_organization(connection, "Other")
        user = await make_user(connection, organization=home.id)
        role = await give_role(connection, home.id, user, "- Read: [/*]")
        before = await stamp(connection, home.id), await stamp(connection, other.id)
        await CHANGES[change](connection, home, user, role)
        assert await stamp(connection, home.id) > before[0]
        assert await stamp(connection, other.id) == before[1]


async def test_joining_raises_the_stamp_and_joining_twice_is_nothing(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection)
        user = await make_user(connection)
        before = await stamp(connection, home.id)
        assert await users.join_organization(connection, organization_id=home.id, user_id=user) == 1
        assert await stamp(connection, home.id) > before
        assert await users.join_organization(connection, organization_id=home.id, user_id=user) == 0


async def test_an_organization_goes_with_everything_in_it(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection)
        user = await make_user(connection, organization=home.id)
        await give_role(connection, home.id, user, "")
        await connection.execute("DELETE FROM instances")
        await connection.execute("DELETE FROM organizations")
        assert await users.list_held_roles(connection, user_id=user, organization_id=home.id) == []


async def test_assigning_twice_and_revoking_what_is_not_held_change_nothing(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection)
        user = await make_user(connection, organization=home.id)
        role = await give_role(connection, home.id, user, "")
        assert await users.assign_role(connection, role_ids=[role, home.administrator_role], user_id=user) == 1
        assert await users.revoke_role(connection, role_ids=[role], user_id=user) == 1
        assert await users.revoke_role(connection, role_ids=[role], user_id=user) == 0


async def test_members_are_listed_with_the_roles_they_hold_in_this_organization(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection, "Home")
        other = await make_organization(connection, "Other")
        ann = await make_user(connection, organization=home.id)
        bob = await make_user(connection, "bob@example.org", organization=home.id)
        await users.join_organization(connection, organization_id=other.id, user_id=ann)
        await give_role(connection, home.id, ann, "", "writer")
        await give_role(connection, home.id, ann, "", "reader")
        await give_role(connection, other.id, ann, "", "elsewhere")
        members = await users.list_by_organization(connection, organization_id=home.id)
        assert {member.id: member.roles for member in members} == {ann: ["reader", "writer"], bob: []}
        assert [member.roles for member in await users.list_by_organization(connection, organization_id=other.id)] == [
            ["elsewhere"]
        ]


async def test_roles_are_listed_with_their_kind(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection)
        await give_role(connection, home.id, await make_user(connection, organization=home.id), "# text", "mine")
        # By kind: the ids, which the list follows, are in no order within a second.
        listed = {
            role.kind: role for role in await users.list_roles_by_organization(connection, organization_id=home.id)
        }
        assert set(listed) == {RoleKind.ADMINISTRATOR, RoleKind.CUSTOM}
        administrator, mine = listed[RoleKind.ADMINISTRATOR], listed[RoleKind.CUSTOM]
        assert (administrator.can_edit, administrator.can_delete) == (False, False)
        assert (mine.can_edit, mine.can_delete, mine.permissions) == (True, True, "# text")


async def test_administrators_are_the_enabled_members_who_hold_the_role(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection, "Home")
        ann, disabled, gone = [
            await make_user(connection, f"{name}@example.org", organization=home.id)
            for name in ("ann", "disabled", "gone")
        ]
        for user in (ann, disabled, gone):
            await users.assign_role(connection, role_ids=[home.administrator_role], user_id=user)
        await users.set_enabled(connection, id=disabled, enabled=False)
        await users.leave_organization(connection, organization_id=home.id, user_id=gone)
        assert await users.list_administrators(connection, organization_id=home.id) == [ann]


async def test_two_administrators_removing_each_other_leave_one(database: Database) -> None:
    async with database.connection() as connection:
        home = await make_organization(connection)
        pair = [await make_user(connection, f"{n}@example.org", organization=home.id) for n in "ab"]
        for user in pair:
            await users.assign_role(connection, role_ids=[home.administrator_role], user_id=user)

    async def remove(user: str) -> None:
        async with database.transaction() as connection:
            await organizations.lock(connection, organization_id=home.id)
            administrators = await users.list_administrators(connection, organization_id=home.id)
            if len(administrators) > 1:
                await until_locked(database.url)
                await users.revoke_role(connection, role_ids=[home.administrator_role], user_id=user)

    await asyncio.gather(*(remove(user) for user in pair))
    async with database.connection() as connection:
        assert len(await users.list_administrators(connection, organization_id=home.id)) == 1
