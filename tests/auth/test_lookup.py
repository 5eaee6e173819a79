"""The lookup against a real database: what is found, what is refused, in how many queries, how soon a change counts."""

import dataclasses
from typing import Any

import pytest

from launchbay.auth import permissions
from launchbay.auth.lookup import Lookup, Lookups
from launchbay.auth.permissions import Permission
from launchbay.errors import NotAllowed, NotAuthenticated, NotFound
from launchbay.ids import new_id
from launchbay.model.instance import InstanceStatus
from launchbay.store import users
from launchbay.store.database import Connection, Database
from launchbay.store.page_scope import PageScope
from tests.support.statements import counted, note_statements
from tests.support.worlds import Organization, actor_for, counting, give_role, make_organization, make_user

READ_ALL = "- Read: [/*]"
READ = Permission.READ


class World:
    """Ann belongs to `home`; `foreign` is another organization."""

    def __init__(self, database: Database, home: Organization, foreign: Organization, ann: str) -> None:
        self.database = database
        self.home = home
        self.foreign = foreign
        self.ann = ann
        self.forgotten: list[str] = []
        self.lookups = Lookups(self.forgotten.append)

    def on(self, connection: Connection, stamp: int | None = None) -> Lookup:
        return self.lookups.bind(connection, actor_for(self.ann, stamp))


@pytest.fixture
async def world(database: Database) -> World:
    async with database.transaction() as connection:
        home = await make_organization(connection, "Home")
        foreign = await make_organization(connection, "Foreign")
        ann = await make_user(connection, organization=home.id)
    return World(database, home, foreign, ann)


async def get(lookup: Lookup, noun: str, organization: Organization, permission: Permission = READ) -> Any:
    match noun:
        case "organization":
            return await lookup.organization(organization.id, permission)
        case "application":
            return await lookup.application(organization.application, permission)
        case "revision":
            return await lookup.revision(organization.revision, permission)
        case "environment":
            return await lookup.environment(organization.environment, permission)
        case "service":
            return await lookup.service(organization.service, permission)
        case "role":
            return await lookup.role(organization.administrator_role, permission)
        case "instance":
            return await lookup.instance(organization.instance, permission)
    raise AssertionError(noun)


NOUNS = ["organization", "application", "revision", "environment", "service", "role", "instance"]


@pytest.mark.anyio
@pytest.mark.parametrize("noun", NOUNS)
async def test_an_object_is_found_when_it_is_there_and_allowed(world: World, noun: str) -> None:
    async with world.database.transaction() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
        found = await get(world.on(connection), noun, world.home)
        cursor = await connection.execute(f"SELECT * FROM {noun}s WHERE id = %s".encode(), [found.id])
        row = await cursor.fetchone()
        assert row is not None
        stored = dict(zip([column.name for column in cursor.description or ()], row, strict=True))
        shown = dataclasses.asdict(found)
        if noun == "revision":
            assert shown.pop("organization_id") == world.home.id
        assert shown.items() <= stored.items()


@pytest.mark.anyio
@pytest.mark.parametrize("noun", NOUNS)
async def test_an_object_that_exists_but_is_not_allowed_is_refused(world: World, noun: str) -> None:
    async with world.database.transaction() as connection:
        await give_role(connection, world.home.id, world.ann, "- ViewAudit: [/*]")
        with pytest.raises(NotAllowed, match="You need the permission Read"):
            await get(world.on(connection), noun, world.home)


@pytest.mark.anyio
@pytest.mark.parametrize("noun", NOUNS)
async def test_an_object_of_a_foreign_organization_is_refused_as_not_allowed(world: World, noun: str) -> None:
    async with world.database.transaction() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
        # Not even an assignment there counts, without membership.
        await users.assign_role(connection, role_ids=[world.foreign.administrator_role], user_id=world.ann)
        with pytest.raises(NotAllowed):
            await get(world.on(connection), noun, world.foreign)


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", ["a" * 24, "", "x", "\0", "\ud800", "0" * 23, "G" * 24, "0" * 10_000])
async def test_an_object_that_does_not_exist_is_not_found(world: World, wrong: str) -> None:
    nowhere = Organization(wrong, wrong, wrong, wrong, wrong, wrong, wrong)
    async with world.database.connection() as connection:
        for noun in NOUNS:
            with pytest.raises(NotFound, match=f"There is no {noun} "):
                await get(world.on(connection), noun, nowhere)


@pytest.mark.anyio
@pytest.mark.parametrize("noun", NOUNS)
async def test_a_read_is_one_query_once_the_grants_are_known(world: World, noun: str) -> None:
    async with world.database.transaction() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
    async with counting(world.database) as connection:
        await get(world.on(connection), noun, world.home)
        assert connection.counts["statements"] == 2
        await get(world.on(connection), noun, world.home)
        assert connection.counts["statements"] == 3


async def test_a_changed_role_counts_for_the_next_request_and_costs_one_query_once(world: World) -> None:
    async with world.database.transaction() as connection:
        role = await give_role(connection, world.home.id, world.ann, READ_ALL)
    async with counting(world.database) as connection:
        await world.on(connection).application(world.home.application, READ)
        async with world.database.connection() as other:
            await users.update_role(other, id=role, name="role", permissions="- Read: [/services/*]")
        before = connection.counts["statements"]
        with pytest.raises(NotAllowed):
            await world.on(connection).application(world.home.application, READ)
        assert connection.counts["statements"] == before + 2
        await world.on(connection).service(world.home.service, READ)
        assert connection.counts["statements"] == before + 3


@pytest.mark.anyio
@pytest.mark.parametrize("change", ["revoke", "delete the role", "leave"])
async def test_what_is_taken_away_is_gone_with_the_next_request(world: World, change: str) -> None:
    async with world.database.transaction() as connection:
        role = await give_role(connection, world.home.id, world.ann, READ_ALL)
    async with world.database.connection() as connection:
        await world.on(connection).instance(world.home.instance, READ)
        if change == "revoke":
            await users.revoke_role(connection, role_ids=[role], user_id=world.ann)
        elif change == "leave":
            await users.leave_organization(connection, organization_id=world.home.id, user_id=world.ann)
        else:
            await users.delete_role(connection, id=role)
        with pytest.raises(NotAllowed):
            await world.on(connection).instance(world.home.instance, READ)


async def test_coming_back_to_an_organization_starts_without_roles(world: World) -> None:
    async with world.database.transaction() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
        await users.leave_organization(connection, organization_id=world.home.id, user_id=world.ann)
        await users.join_organization(connection, organization_id=world.home.id, user_id=world.ann)
        await world.on(connection).organization(world.home.id)
        with pytest.raises(NotAllowed):
            await world.on(connection).application(world.home.application, READ)


async def test_grants_seen_in_a_transaction_that_fails_are_given_to_nobody_later(world: World) -> None:
    async with world.database.transaction() as connection:
        role = await give_role(connection, world.home.id, world.ann, "- Read: []")

    async def failing() -> None:
        async with world.database.transaction() as connection:
            await users.update_role(connection, id=role, name="role", permissions=READ_ALL)
            await world.on(connection).application(world.home.application, READ)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    async with world.database.connection() as connection:
        # Another change: with a counted stamp it would now reach the number that the failed transaction had.
        await users.update_role(connection, id=role, name="role", permissions="- Read: [/services/*]")
        with pytest.raises(NotAllowed):
            await world.on(connection).application(world.home.application, READ)


async def test_a_disabled_user_is_no_caller_any_more_whatever_they_ask_for(world: World) -> None:
    async with world.database.connection() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
        await world.on(connection).application(world.home.application, READ)
        await users.set_enabled(connection, id=world.ann, enabled=False)
        for ask in (
            world.on(connection).application(world.home.application, READ),
            world.on(connection).application(world.foreign.application, READ),
            world.on(connection).application("no id", READ),
            world.on(connection).caller(),
        ):
            with pytest.raises(NotAuthenticated, match="disabled"):
                await ask


async def test_a_deleted_user_is_no_caller_any_more(world: World) -> None:
    async with world.database.connection() as connection:
        await connection.execute("DELETE FROM users")
        with pytest.raises(NotAuthenticated, match="no longer exists"):
            await world.on(connection).application("no id", READ)


async def test_a_new_password_ends_what_was_verified_under_the_old_one(world: World) -> None:
    async with world.database.connection() as connection:
        row = await users.get_credentials(connection, email="ann@example.org")
        assert row is not None
        assert (await world.on(connection, row.access_stamp).caller()).id == world.ann
        await users.set_password(connection, id=world.ann, password_hash="another")
        with pytest.raises(NotAuthenticated, match="password of this account was changed"):
            await world.on(connection, row.access_stamp).caller()
        assert world.forgotten == [world.ann]
        assert (await world.on(connection).caller()).id == world.ann, "a session token does not depend on the password"


async def test_a_renewed_hash_ends_nothing(world: World) -> None:
    async with world.database.connection() as connection:
        await users.set_password(connection, id=world.ann, password_hash="old")
        row = await users.get_credentials(connection, email="ann@example.org")
        assert row is not None
        assert await users.renew_hash(connection, id=world.ann, password_hash="new", old_hash="old") == 1
        await world.on(connection, row.access_stamp).caller()
        assert await users.renew_hash(connection, id=world.ann, password_hash="newer", old_hash="old") == 0


async def test_an_administrator_may_do_everything_although_the_stored_text_says_nothing(world: World) -> None:
    async with world.database.connection() as connection:
        await connection.execute("UPDATE roles SET permissions = ''")
        await users.assign_role(connection, role_ids=[world.home.administrator_role], user_id=world.ann)
        for permission in Permission:
            await world.on(connection).instance(world.home.instance, permission, workflow="destroy")


async def test_a_stored_role_that_cannot_be_read_grants_nothing_and_harms_no_other(world: World) -> None:
    async with world.database.connection() as connection:
        await give_role(connection, world.home.id, world.ann, "- Fly: [", "broken")
        await give_role(connection, world.home.id, world.ann, "- Read: [/applications/*]", "good")
        await world.on(connection).application(world.home.application, READ)
        with pytest.raises(NotAllowed):
            await world.on(connection).environment(world.home.environment, READ)


async def test_an_instance_is_reached_through_its_application_and_its_environment(world: World) -> None:
    elsewhere = new_id()
    async with world.database.connection() as connection:
        await give_role(
            connection,
            world.home.id,
            world.ann,
            f"- EditInstance: [/applications/*, /environments/{world.home.environment}]\n"
            f"- Read: [/applications/*, /environments/{elsewhere}]\n"
            "- RunInstanceWorkflow: [/applications/*/instances/*/workflows/safe.*]",
        )
        lookup = world.on(connection)
        found = await lookup.instance(world.home.instance, Permission.EDIT_INSTANCE)
        assert found.status is InstanceStatus.RUNNING
        with pytest.raises(NotAllowed):
            await lookup.instance(world.home.instance, READ)
        await lookup.instance(world.home.instance, Permission.RUN_INSTANCE_WORKFLOW, workflow="safe.restart")
        with pytest.raises(NotAllowed, match=r"/workflows/wipe with /environments/"):
            await lookup.instance(world.home.instance, Permission.RUN_INSTANCE_WORKFLOW, workflow="wipe")


async def test_a_launch_needs_application_and_environment_in_one_entry(world: World) -> None:
    async with world.database.connection() as connection:
        await give_role(
            connection, world.home.id, world.ann, f"- CreateInstance: [/applications/*, /environments/{new_id()}]"
        )
        environment = permissions.environment(world.home.environment)
        with pytest.raises(NotAllowed):
            await world.on(connection).application(world.home.application, Permission.CREATE_INSTANCE, environment)
        await world.on(connection).application(world.home.application, Permission.CREATE_INSTANCE)


async def test_members_are_found_and_others_are_not(world: World) -> None:
    async with world.database.connection() as connection:
        await give_role(connection, world.home.id, world.ann, "- ManageUsers: [/users/*]")
        bob = await make_user(connection, "bob@example.org", organization=world.home.id)
        eve = await make_user(connection, "eve@example.org", organization=world.foreign.id)
        lookup = world.on(connection)
        assert (await lookup.member(world.home.id, bob, Permission.MANAGE_USERS)).email == "bob@example.org"
        for organization_id, user_id in ((world.home.id, eve), (world.home.id, "x"), ("x", bob), (new_id(), bob)):
            with pytest.raises(NotFound):
                await lookup.member(organization_id, user_id, Permission.MANAGE_USERS)
        with pytest.raises(NotAllowed):
            await lookup.member(world.foreign.id, eve, Permission.MANAGE_USERS)
        with pytest.raises(NotAllowed):
            await lookup.member(world.home.id, bob, Permission.MANAGE_ROLES)


async def test_a_member_without_roles_sees_the_organization_and_nothing_in_it(world: World) -> None:
    async with world.database.connection() as connection:
        lookup = world.on(connection)
        assert (await lookup.organization(world.home.id)).name == "Home"
        assert not lookup.allows(world.home.id, READ, permissions.application(world.home.application))
        with pytest.raises(NotAllowed, match="You need the permission ViewAudit in this organization"):
            await lookup.organization(world.home.id, Permission.VIEW_AUDIT)
        with pytest.raises(NotAllowed, match="do not belong"):
            await lookup.organization(world.foreign.id)


async def test_a_creation_needs_the_permission_for_the_new_object(world: World) -> None:
    async with world.database.connection() as connection:
        new = new_id()
        await give_role(connection, world.home.id, world.ann, f"- CreateApplication: [/applications/{new}]")
        await world.on(connection).organization(
            world.home.id, Permission.CREATE_APPLICATION, permissions.application(new)
        )
        with pytest.raises(NotAllowed):
            await world.on(connection).organization(
                world.home.id, Permission.CREATE_APPLICATION, permissions.application(new_id())
            )


async def test_rows_of_a_list_are_decided_without_queries(world: World) -> None:
    async with counting(world.database) as connection:
        async with world.database.connection() as other:
            await give_role(other, world.home.id, world.ann, f"- Read: [/applications/{world.home.application}]")
        lookup = world.on(connection)
        await lookup.organization(world.home.id)
        before = connection.counts["statements"]
        assert lookup.allows(world.home.id, READ, permissions.application(world.home.application))
        assert not lookup.allows(world.home.id, READ, permissions.application(new_id()))
        assert connection.counts["statements"] == before
        with pytest.raises(AssertionError, match="look something"):
            lookup.allows(world.foreign.id, READ, permissions.application(new_id()))


async def test_a_page_knows_its_organization_from_the_object_that_it_looked_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.database.connection() as connection:
        await give_role(connection, world.home.id, world.ann, f"- Read: [/applications/{world.home.application}]")
    note_statements(monkeypatch)
    scope = PageScope(world.database.pool)
    scope.begin()
    async with world.database.connection() as connection:
        lookup = world.on(connection)
        await lookup.application(world.home.application, READ)
        with counted() as reads:
            assert await world.on(connection).member_of(world.home.id) == world.home.id
            await world.on(connection).require_caller()
            with pytest.raises(NotAllowed, match="You need the permission ViewAudit in this organization"):
                await world.on(connection).member_of(world.home.id, Permission.VIEW_AUDIT)
        assert reads.statements == []
        with pytest.raises(NotAllowed, match="do not belong"):
            await world.on(connection).member_of(world.foreign.id)
        with pytest.raises(NotFound):
            await world.on(connection).member_of("x")
    await scope.end()


async def test_a_right_that_is_taken_away_counts_for_the_next_page(world: World) -> None:
    async with world.database.connection() as connection:
        role = await give_role(
            connection, world.home.id, world.ann, f"- Read: [/applications/{world.home.application}]"
        )
    assert await _opens(world)
    async with world.database.transaction() as connection:
        await users.update_role(connection, id=role, name="role", permissions="- Read: [/services/*]")
    assert not await _opens(world)


async def _opens(world: World) -> bool:
    """Return whether a page of the application opens."""
    scope = PageScope(world.database.pool)
    scope.begin()
    try:
        async with world.database.connection() as connection:
            await world.on(connection).application(world.home.application, READ)
    except NotAllowed:
        return False
    finally:
        await scope.end()
    return True


async def test_a_page_makes_an_object_of_its_row_once_and_asks_each_time_for_the_permission(world: World) -> None:
    async with world.database.connection() as connection:
        await give_role(connection, world.home.id, world.ann, READ_ALL)
        stranger = await make_user(connection, "bob@example.org", organization=world.foreign.id)
    scope = PageScope(world.database.pool)
    scope.begin()
    try:
        async with world.database.connection() as connection:
            found = await world.on(connection).instance(world.home.instance, READ)
            assert await world.on(connection).instance(world.home.instance, READ) is found
            with pytest.raises(NotAllowed, match="EditInstance"):
                await world.on(connection).instance(world.home.instance, Permission.EDIT_INSTANCE)
            with pytest.raises(NotAllowed, match="do not belong"):
                await world.lookups.bind(connection, actor_for(stranger)).instance(world.home.instance, READ)
        await scope.release()
        async with world.database.connection() as connection:
            assert await world.on(connection).instance(world.home.instance, READ) is not found
    finally:
        await scope.end()
