"""Organizations through the API (reference §4, Organizations; conformance.md, "Beyond the reference")."""

import asyncio

import pytest

from launchbay.auth.permissions import Permission
from tests.support.databases import Databases
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, person, refused, running_api


async def test_an_organization_is_created_with_all_that_comes_with_one(api: Api) -> None:
    name = fresh_name("organization")
    created = accepted(await api.post("organizations", {"name": name}))
    assert list(created) == ["id"]
    organization = created["id"]
    assert accepted(await api.get(f"organizations/{organization}")) == {"id": organization, "name": name}
    assert created["id"] in [row["id"] for row in accepted(await api.get("organizations"))]
    [environment] = accepted(await api.get(f"organizations/{organization}/environments"))
    assert (environment["name"], environment["isDefault"]) == ("default", True)
    roles = {row["name"]: row for row in accepted(await api.get(f"organizations/{organization}/roles"))}
    assert {name: (row["canEdit"], row["canDelete"]) for name, row in roles.items()} == {
        "Administrator": (False, False),
        "Guest": (True, True),
    }
    [user] = accepted(await api.get(f"organizations/{organization}/users"))
    assert user["roles"] == ["Administrator"]
    accepted(await api.post(f"organizations/{organization}/applications", {"name": "first"}))


ARCHIVE = {
    "version": 1,
    "name": "imported",
    "services": {},
    "environments": {"default": {"default": True}},
    "applications": {},
    "roles": {},
    "users": {},
    "mentions": {},
    "holes": [],
}
DOORS: tuple[tuple[str, dict[str, object]], ...] = (
    ("organizations", {"name": "mine"}),
    ("archives", {"archive": ARCHIVE}),
    ("archives", {"archive": ARCHIVE, "plan": True}),
)


async def created_by(api: Api, user_id: str) -> int:
    async with api.database.connection() as connection:
        query = "SELECT count(*) FROM organizations WHERE creator_id = %s"
        (found,) = await (await connection.execute(query, [user_id])).fetchone() or (0,)
    return int(found)


@pytest.mark.features("directories")
async def test_administrators_of_the_server_create_organizations_and_nobody_else(api: Api) -> None:
    outsider, _, _ = await api.outsider()
    members = [
        await api.member(*entries)
        for entries in ([], ["Read: [/*]"], ["ManageUsers: [/users/*]"], [f"{each}: [/*]" for each in Permission])
    ]
    for who in (outsider, *members):
        for path, body in DOORS:
            refusal = refused(await who.post(path, body), 403, "NotAllowed")
            assert "Only administrators of this server can create organizations." in refusal
            assert "organization_creators" in refusal
    deputy = await person(api, "Administrator")
    for path, body in DOORS:
        accepted(await deputy.post(path, body))
    assert await created_by(api, deputy.id) == 2
    accepted(await api.delete(f"organizations/{api.organization}/users/{deputy.id}/roles", ["Administrator"]))
    refused(await deputy.post("organizations", {"name": "mine"}), 403, "NotAllowed")


@pytest.mark.parametrize("setting", ["user-managers", "server-administrators, {id}", "{id}"])
async def test_the_setting_lets_others_create_organizations_too(databases: Databases, setting: str) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        role = fresh_name("role")
        body = {"name": role, "permissions": "- ManageUsers: [/users/*]\n"}
        accepted(await api.post(f"organizations/{api.organization}/roles", body))
        who = await person(api, role)
        refused(await who.post("organizations", {"name": "mine"}), 403, "NotAllowed")
    async with running_api(url, engine=False, organization_creators=setting.format(id=who.id)) as api:
        again = who.at(api)
        made = accepted(await again.post("organizations", {"name": "mine"}))["id"]
        assert api.parts.quotas.tenants.of(made) == f"{who.id}/{made}"
        member = await api.member("Read: [/*]", "ManageUsers: [/users/" + UNKNOWN + "]")
        refused(await member.post("organizations", {"name": "mine"}), 403, "NotAllowed")
        other = await api.post("organizations", {"name": "theirs"})
        assert (other.status_code == 200) is (setting != "{id}")
    databases.drop(url)


@pytest.mark.features("directories")
async def test_of_twenty_creations_at_once_exactly_the_quota_is_made(databases: Databases) -> None:
    url = databases.create()
    async with (
        running_api(url, engine=False, quota_organizations=7) as first,
        running_api(url, engine=False, quota_organizations=7) as second,
    ):
        who = await person(first, "Administrator")
        servers = [who, who.at(second)]
        answers = await asyncio.gather(*(servers[number % 2].post(*DOORS[number // 2 % 2]) for number in range(20)))
        assert sorted(each.status_code for each in answers) == [200] * 7 + [400] * 13
        assert await created_by(first, who.id) == 7
        for path, body in DOORS:
            assert "raise the setting quota_organizations" in refused(await who.post(path, body), 400, "QuotaExceeded")
        accepted(await first.post("organizations", {"name": "of another person"}))
    databases.drop(url)


async def test_an_organization_is_renamed_by_who_manages_all_users(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    accepted(await outsider.put(f"organizations/{organization}", {"name": "  renamed  "}))
    assert accepted(await outsider.get(f"organizations/{organization}"))["name"] == "renamed"
    member = await api.member("Read: [/*]", organization=organization)
    refused(await member.put(f"organizations/{organization}", {"name": "no"}), 403, "NotAllowed")
    assert accepted(await member.get(f"organizations/{organization}"))["name"] == "renamed"
    # Those whose IDs begin as the next ones do aren't all.
    some = await api.member(f"ManageUsers: ['/users/{organization[0]}*']", organization=organization)
    answer = refused(await some.put(f"organizations/{organization}", {"name": "no"}), 403, "NotAllowed")
    assert "You need the permission ManageUsers for /users/*." in str(answer)


@pytest.mark.parametrize("name", ["", "   ", "x" * 256])
async def test_a_bad_name_is_refused(api: Api, name: str) -> None:
    refused(await api.post("organizations", {"name": name}), 400, "InvalidName")
    refused(await api.put(f"organizations/{api.organization}", {"name": name}), 400, "InvalidName")


async def test_a_foreign_organization_is_403_and_an_unknown_one_404(api: Api) -> None:
    _, organization, _ = await api.outsider()
    for path in ("", "/users", "/roles"):
        refused(await api.get(f"organizations/{organization}{path}"), 403, "NotAllowed")
        refused(await api.get(f"organizations/{UNKNOWN}{path}"), 404, "NotFound")
        refused(await api.get(f"organizations/nonsense{path}"), 404, "NotFound")
    refused(await api.put(f"organizations/{organization}", {"name": "taken over"}), 403, "NotAllowed")
    refused(await api.put(f"organizations/{UNKNOWN}", {"name": "nothing"}), 404, "NotFound")


@pytest.mark.parametrize("body", [{}, {"name": None}, {"name": 1}, {"name": ["x"]}])
async def test_a_body_without_a_name_is_400_before_anything_else(api: Api, body: dict[str, object]) -> None:
    assert "name" in refused(await api.post("organizations", body), 400, "WrongField")
    refused(await api.put(f"organizations/{UNKNOWN}", body), 400, "WrongField")
