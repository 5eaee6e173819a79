"""Roles and their assignment (reference §4, Roles; api-decisions, "Organizations, roles, permissions")."""

import asyncio
from typing import Any

import pytest

from launchbay.ids import is_id
from tests.api.people import Person, person, user_named
from tests.api.running import UNKNOWN, Api, accepted, fresh_name, refused, running_api
from tests.databases import Databases

TEXT = """# what developers may do
- CreateInstance:   [/applications/*, "/environments/*"]
- 'EnvironmentEdit': [/environments/*]   # another spelling
"""


async def new_role(api: Api, text: str = "- Read: [/*]\n", name: str = "") -> dict[str, Any]:
    body = {"name": name or fresh_name("role"), "permissions": text}
    created: dict[str, Any] = accepted(await api.post(f"organizations/{api.organization}/roles", body))
    return created


async def assign(api: Api, user: str, *names: str) -> None:
    accepted(await api.put(f"organizations/{api.organization}/users/{user}/roles", list(names)))


async def revoke(api: Api, user: str, *names: str) -> None:
    accepted(await api.delete(f"organizations/{api.organization}/users/{user}/roles", list(names)))


async def held(api: Api, user: str) -> list[str]:
    roles: list[str] = (await user_named(api, user))["roles"]
    return roles


async def administrator_role(api: Api) -> str:
    rows = accepted(await api.get(f"organizations/{api.organization}/roles"))
    return next(str(row["id"]) for row in rows if row["name"] == "Administrator")


async def test_a_role_is_created_and_read_with_its_text_verbatim(api: Api) -> None:
    created = await new_role(api, TEXT)
    assert set(created) == {"id", "name", "canEdit", "canDelete", "permissions"}
    assert is_id(created["id"])
    assert (created["canEdit"], created["canDelete"], created["permissions"]) == (True, True, TEXT)
    assert accepted(await api.get(f"roles/{created['id']}")) == created


async def test_a_list_shows_roles_without_their_permissions(api: Api) -> None:
    created = await new_role(api)
    rows = accepted(await api.get(f"organizations/{api.organization}/roles"))
    assert all(set(row) == {"id", "name", "canEdit", "canDelete"} for row in rows)
    assert created["id"] in [row["id"] for row in rows]


async def test_a_role_is_modified_and_removed(api: Api) -> None:
    role = await new_role(api)
    name = fresh_name("role")
    assert accepted(await api.put(f"roles/{role['id']}", {"name": name, "permissions": TEXT})) == {}
    changed = accepted(await api.get(f"roles/{role['id']}"))
    assert (changed["name"], changed["permissions"]) == (name, TEXT)
    assert accepted(await api.delete(f"roles/{role['id']}")) == {}
    refused(await api.get(f"roles/{role['id']}"), 404, "NotFound")
    refused(await api.delete(f"roles/{role['id']}"), 404, "NotFound")


async def test_an_empty_text_is_a_role_that_allows_nothing(api: Api) -> None:
    role = await new_role(api, "")
    who = await person(api, role["name"])
    assert accepted(await who.get(f"organizations/{api.organization}/roles")) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- Read: [/*]\n- Fly: [/*]\n", "Line 2, column 3"),
        ("- Read: [/*\n", "Line 1"),
        ("- Read: [applications]\n", "Line 1, column 10"),
        ("Read: [/*]\n", "Line 1, column 1"),
        ("- Read: [/*]\n--- \n- Read: [/*]\n", "Line 2"),
    ],
)
async def test_a_bad_text_is_refused_with_its_place_and_changes_nothing(api: Api, text: str, place: str) -> None:
    role = await new_role(api)
    body = {"name": "bad", "permissions": text}
    for answer in (
        await api.post(f"organizations/{api.organization}/roles", body),
        await api.put(f"roles/{role['id']}", body),
    ):
        assert place in refused(answer, 400, "InvalidRole")
    assert accepted(await api.get(f"roles/{role['id']}")) == role


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "&a [*a]", "- Read: [/*]\n" * 20_000, "a: &x\n<<: *x", "\x01", "é" * 40_000]
)
async def test_hostile_texts_are_refused_quickly(api: Api, text: str) -> None:
    answer = await api.post(f"organizations/{api.organization}/roles", {"name": "hostile", "permissions": text})
    refused(answer, 400)


async def test_a_name_that_is_taken_is_refused(api: Api) -> None:
    first, second = await new_role(api), await new_role(api)
    body = {"name": first["name"], "permissions": ""}
    refused(await api.post(f"organizations/{api.organization}/roles", body), 400, "NameTaken")
    refused(await api.put(f"roles/{second['id']}", body), 400, "NameTaken")
    refused(await api.put(f"roles/{second['id']}", {"name": " ", "permissions": ""}), 400, "InvalidName")


async def test_the_built_in_administrator_is_neither_edited_nor_deleted(api: Api) -> None:
    role = await administrator_role(api)
    before = accepted(await api.get(f"roles/{role}"))
    assert (before["canEdit"], before["canDelete"]) == (False, False)
    refused(await api.put(f"roles/{role}", {"name": "Weak", "permissions": ""}), 403, "BuiltInRole")
    refused(await api.delete(f"roles/{role}"), 403, "BuiltInRole")
    assert accepted(await api.get(f"roles/{role}")) == before


@pytest.mark.parametrize(
    "body", [{}, {"name": "x"}, {"name": "x", "permissions": ["- Read: [/*]"]}, {"permissions": ""}]
)
async def test_a_role_needs_name_and_permissions_as_text(api: Api, body: dict[str, Any]) -> None:
    refused(await api.post(f"organizations/{api.organization}/roles", body), 400, "WrongField")
    refused(await api.put(f"roles/{UNKNOWN}", body), 400, "WrongField")


async def test_assigning_twice_and_revoking_what_is_not_held_change_nothing(api: Api) -> None:
    role, other = await new_role(api), await new_role(api)
    who = await person(api)
    await assign(api, who.id, role["name"], role["name"])
    await assign(api, who.id, role["name"])
    await assign(api, who.id)
    await revoke(api, who.id, other["name"])
    assert await held(api, who.id) == [role["name"]]
    await revoke(api, who.id, role["name"])
    await revoke(api, who.id, role["name"])
    assert await held(api, who.id) == []


async def test_unknown_role_names_are_named_and_nothing_is_assigned(api: Api) -> None:
    role = await new_role(api)
    who = await person(api, role["name"])
    path = f"organizations/{api.organization}/users/{who.id}/roles"
    for answer in (
        await api.put(path, [role["name"], "Pilot", "administrator"]),
        await api.delete(path, [role["name"], "Pilot", "administrator"]),
    ):
        sentence = refused(answer, 400, "UnknownRole")
        assert "'Pilot'" in sentence
        assert "'administrator'" in sentence
        assert role["name"] not in sentence
    assert await held(api, who.id) == [role["name"]]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'["a", null]', b'"Guest"', b"[", b"null"])
async def test_anything_but_an_array_of_names_is_400(api: Api, content: bytes) -> None:
    path = f"organizations/{api.organization}/users/{UNKNOWN}/roles"
    for method in ("PUT", "DELETE"):
        refused(await api.send(method, path, content, content_type="application/json"), 400)
        refused(await api.send(method, path, b"[]", content_type="text/plain"), 400, "WrongContentType")
        refused(await api.send(method, path, b"[]", content_type="application/json"), 404, "NotFound")


async def test_only_members_hold_roles(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    [foreign] = accepted(await outsider.get(f"organizations/{organization}/users"))
    refused(await api.put(f"organizations/{api.organization}/users/{foreign['id']}/roles", ["Guest"]), 404, "NotFound")
    refused(await api.put(f"organizations/{organization}/users/{foreign['id']}/roles", ["Guest"]), 403, "NotAllowed")


async def test_who_manages_one_role_gives_no_other(api: Api) -> None:
    weak = await new_role(api)
    manager = await api.member(f"ManageRoles: [/users/*, /roles/{weak['id']}]", "Read: [/*]")
    who = await person(api)
    path = f"organizations/{api.organization}/users/{who.id}/roles"
    accepted(await manager.put(path, [weak["name"]]))
    refused(await manager.put(path, ["Administrator"]), 403, "NotAllowed")
    refused(await manager.put(path, [weak["name"], "Administrator"]), 403, "NotAllowed")
    assert await held(api, who.id) == [weak["name"]]
    refused(await manager.post(f"organizations/{api.organization}/roles", {"name": "x", "permissions": ""}), 403)


async def test_a_changed_role_counts_for_the_very_next_request(api: Api) -> None:
    role = await new_role(api, "")
    who = await person(api, role["name"])
    path = f"organizations/{api.organization}/applications"
    refused(await who.post(path, {"name": fresh_name()}), 403, "NotAllowed")
    for _ in range(3):
        accepted(
            await api.put(f"roles/{role['id']}", {"name": role["name"], "permissions": "- CreateApplication: [/*]"})
        )
        accepted(await who.post(path, {"name": fresh_name()}))
        accepted(await api.put(f"roles/{role['id']}", {"name": role["name"], "permissions": ""}))
        refused(await who.post(path, {"name": fresh_name()}), 403, "NotAllowed")
    accepted(await api.put(f"roles/{role['id']}", {"name": role["name"], "permissions": "- CreateApplication: [/*]"}))
    accepted(await who.post(path, {"name": fresh_name()}))
    accepted(await api.delete(f"roles/{role['id']}"))
    refused(await who.post(path, {"name": fresh_name()}), 403, "NotAllowed")


async def test_a_changed_role_counts_for_the_very_next_request_to_another_server(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as here, running_api(url) as there:
        role = await new_role(here, "- CreateApplication: [/*]")
        who = await person(here, role["name"])
        elsewhere = who.at(there)
        path = f"organizations/{here.organization}/applications"
        for _ in range(3):
            accepted(await elsewhere.post(path, {"name": fresh_name()}))
            await revoke(here, who.id, role["name"])
            refused(await elsewhere.post(path, {"name": fresh_name()}), 403, "NotAllowed")
            await assign(here, who.id, role["name"])
        accepted(await there.put(f"roles/{role['id']}", {"name": role["name"], "permissions": ""}))
        refused(await who.post(path, {"name": fresh_name()}), 403, "NotAllowed")
        accepted(await there.delete(f"organizations/{here.organization}/users/{who.id}"))
        refused(await who.get("organizations"), 401, "NotAuthenticated")
        refused(await elsewhere.get("organizations"), 401, "NotAuthenticated")
    databases.drop(url)


async def pair_of_administrators(api: Api) -> tuple[str, list[Person]]:
    """Make an organization that two persons administer, and nobody else."""
    organization = accepted(await api.post("organizations", {"name": fresh_name("organization")}))["id"]
    pair = [await person(api, "Administrator", organization=organization) for _ in range(2)]
    [founder] = [
        row["id"]
        for row in accepted(await api.get(f"organizations/{organization}/users"))
        if row["id"] not in [who.id for who in pair]
    ]
    accepted(await pair[0].delete(f"organizations/{organization}/users/{founder}"))
    accepted(await pair[1].get("organizations"))  # both are signed in: the first verification would delay one of them
    return organization, pair


@pytest.mark.parametrize("way", ["revoke", "evict", "disable"])
async def test_the_last_administrator_stays_even_when_two_are_removed_at_once(api: Api, way: str) -> None:
    for _ in range(3):
        organization, pair = await pair_of_administrators(api)
        users = f"organizations/{organization}/users"

        async def remove(caller: Person, other: Person, users: str = users) -> int:
            if way == "revoke":
                answer = await caller.delete(f"{users}/{other.id}/roles", ["Administrator"])
            elif way == "evict":
                answer = await caller.delete(f"{users}/{other.id}")
            else:
                answer = await caller.put(f"{users}/{other.id}", {"enabled": False})
            return answer.status_code

        statuses = await asyncio.gather(remove(pair[0], pair[1]), remove(pair[1], pair[0]))
        assert statuses.count(200) == 1, statuses
        survivor = pair[statuses.index(200)]
        rows = accepted(await survivor.get(users))
        [me] = [row for row in rows if row["id"] == survivor.id]
        assert me["roles"] == ["Administrator"]
        assert me["canEvict"] is False


async def test_the_last_administrator_is_refused_every_way_out(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    [me] = accepted(await outsider.get(f"organizations/{organization}/users"))
    path = f"organizations/{organization}/users/{me['id']}"
    assert me["canEvict"] is False
    refused(await outsider.delete(f"{path}/roles", ["Administrator"]), 400, "LastAdministrator")
    refused(await outsider.delete(path), 400, "LastAdministrator")
    refused(await outsider.put(path, {"enabled": False}), 400, "LastAdministrator")
    await person(api, "Administrator", organization=organization, by=outsider)
    accepted(await outsider.delete(f"{path}/roles", ["Administrator"]))
