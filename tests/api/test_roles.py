"""Roles and their assignment (reference §4, Roles; conformance.md, "Organizations, roles, permissions")."""

import asyncio
from typing import Any, NoReturn

import pytest

from launchbay.errors import Unavailable
from launchbay.ids import is_id
from launchbay.limits import ROLE_TEXT_BYTES, ROLE_TEXTS_BYTES
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.store.users import Role
from tests.support.databases import Databases, until_locked
from tests.support.service import (
    UNKNOWN,
    Api,
    Caller,
    Person,
    accepted,
    fresh_name,
    join,
    person,
    refused,
    running_api,
    user_named,
)

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


async def test_an_organization_whose_roles_were_too_large_before_the_limit_can_shrink_them(api: Api) -> None:
    administrator, organization, _ = await api.outsider()
    async with api.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO roles (id, organization_id, name, permissions, kind)"
            " SELECT launchbay_new_id(), %s, 'role ' || n, repeat('#', %s), 'custom' FROM generate_series(1, %s) n",
            [organization, ROLE_TEXT_BYTES, ROLE_TEXTS_BYTES // ROLE_TEXT_BYTES + 1],
        )
    roles = f"organizations/{organization}/roles"
    large = next(row for row in accepted(await administrator.get(roles)) if row["name"] == "role 1")
    refused(await administrator.post(roles, {"name": "one more", "permissions": TEXT}), 400)
    text = "#" * ROLE_TEXT_BYTES
    accepted(await administrator.put(f"roles/{large['id']}", {"name": "renamed", "permissions": text}))
    accepted(await administrator.put(f"roles/{large['id']}", {"name": "renamed", "permissions": "# shorter"}))
    refused(await administrator.put(f"roles/{large['id']}", {"name": "renamed", "permissions": text}), 400)


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


@pytest.mark.slow
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


async def explained(caller: Caller, **query: str) -> Any:
    document = accepted(await caller.get("permissions/explain", **query))
    assert set(document) == {"allowed", "reason", "role", "entry", "pattern", "rules", "heldBy"}
    return document


async def role(api: Api, text: str) -> str:
    name = fresh_name("role")
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    return name


async def test_an_answer_names_the_role_the_entry_and_the_pattern_that_decided(api: Api) -> None:
    app = await api.application()
    name = await role(api, f"- Read: [/*]\n- CreateInstance: [/environments/*, /applications/{app}]\n")
    who = await person(api, name)
    answer = await explained(api, user=who.id, permission="CreateInstance", path=f"/applications/{app}")
    assert answer == {
        "allowed": True,
        "role": name,
        "entry": f"CreateInstance: [/environments/*, /applications/{app}]",
        "pattern": f"/applications/{app}",
        "rules": [],
        "heldBy": answer["heldBy"],
        "reason": f"Role '{name}' allows it by '/applications/{app}' in "
        f"'CreateInstance: [/environments/*, /applications/{app}]'.",
    }
    assert await explained(who, permission="CreateInstance", path=f"/applications/{app}") == answer


async def test_a_denial_says_what_is_missing(api: Api) -> None:
    app, other = await api.application(), await api.application()
    who = await person(api, await role(api, f"- EditApplication: [/applications/{other}]\n"))
    denied = await explained(api, user=who.id, permission="EditApplication", path=f"/applications/{app}")
    assert (denied["allowed"], denied["role"], denied["entry"], denied["pattern"]) == (False, None, None, None)
    assert f"does not cover /applications/{app}" in denied["reason"]
    denied = await explained(api, user=who.id, permission="DeleteApplication", path=f"/applications/{app}")
    assert "No role held names DeleteApplication" in denied["reason"]


async def test_the_environment_of_a_launch_and_of_an_instance_counts(api: Api) -> None:
    dev = await api.offer()
    app = await api.application()
    who = await person(api, await role(api, f"- CreateInstance: [/applications/*, /environments/{dev}]\n"))
    launch = {"permission": "CreateInstance", "path": f"/applications/{app}"}
    assert (await explained(who, **launch, touching=f"/environments/{dev}"))["allowed"] is True
    assert (await explained(who, **launch, touching=f"/environments/{api.environment}"))["allowed"] is False
    instance = await api.launch(app, environmentId=api.environment)
    path = f"/applications/{app}/instances/{instance}"
    denied = await explained(who, permission="CreateInstance", path=path)
    assert f"does not cover /environments/{api.environment}" in denied["reason"]
    await api.settled(instance)
    assert (await explained(api, permission="RunInstanceWorkflow", path=f"{path}/workflows/a.b/c"))["allowed"] is True


async def test_the_answer_is_what_happens(api: Api) -> None:
    app = await api.application()
    for text in (
        "",
        "- Read: [/*]",
        "- EditApplication: [/environments/*]",
        f"- EditApplication: [/applications/{app}]",
    ):
        who = await person(api, await role(api, text))
        allowed = (await explained(who, permission="EditApplication", path=f"/applications/{app}"))["allowed"]
        answer = await who.put_yaml(f"applications/{app}/manifest", "launch:\n  steps: []\n")
        assert (answer.status_code == 200) is allowed


async def test_a_change_counts_at_once_and_a_disabled_account_may_nothing(api: Api) -> None:
    app = await api.application()
    who = await person(api, "Guest")
    query = {"user": who.id, "permission": "Read", "path": f"/applications/{app}"}
    path = f"organizations/{api.organization}/users/{who.id}"
    assert (await explained(api, **query))["allowed"] is True
    accepted(await api.delete(f"{path}/roles", ["Guest"]))
    assert (await explained(api, **query))["allowed"] is False
    accepted(await api.put(f"{path}/roles", ["Guest"]))
    accepted(await api.put(path, {"enabled": False}))
    assert "disabled" in (await explained(api, **query))["reason"]


async def test_about_others_only_who_manages_their_roles_may_ask(api: Api) -> None:
    app = await api.application()
    who = await person(api)
    query = {"user": who.id, "permission": "Read", "path": f"/applications/{app}"}
    refused(await (await api.member("Read: [/*]")).get("permissions/explain", **query), 403, "NotAllowed")
    await explained(await api.member(f"ManageRoles: [/users/{who.id}]"), **query)
    outsider, organization, _ = await api.outsider()
    refused(await outsider.get("permissions/explain", **query), 403, "NotAllowed")
    [stranger] = accepted(await outsider.get(f"organizations/{organization}/users"))
    refused(await api.get("permissions/explain", **{**query, "user": stranger["id"]}), 404, "NotFound")
    refused(await api.get("permissions/explain", **{**query, "user": UNKNOWN}), 404, "NotFound")


async def test_a_path_of_a_user_may_need_the_organization(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, "Guest", organization=organization, by=outsider)
    query = {"permission": "Read", "path": f"/users/{who.id}"}
    assert (await explained(who, **query))["allowed"] is True
    await join(api, api.organization, who)
    assert organization in refused(await who.get("permissions/explain", **query), 400, "BadRequest")
    assert (await explained(who, **query, organization=organization))["allowed"] is True
    assert (await explained(who, **query, organization=api.organization))["allowed"] is False
    refused(await outsider.get("permissions/explain", **query, organization=api.organization), 403, "NotAllowed")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"permission": "Fly"}, 400),
        ({"permission": None}, 400),
        ({"path": None}, 400),
        ({"path": "applications"}, 400),
        ({"path": "/applications/x/instances"}, 400),
        ({"path": "/galaxies/x"}, 400),
        ({"path": "/applications/" + "x" * 3000}, 404),
        ({"path": "/applications/*"}, 404),
        ({"path": f"/applications/{UNKNOWN}"}, 404),
        ({"path": f"/roles/{UNKNOWN}"}, 404),
        ({"path": f"/users/{UNKNOWN}"}, 404),
        ({"path": "/users/é"}, 404),
        ({"path": "/services/😀"}, 404),
        ({"touching": "x"}, 400),
        ({"touching": f"/environments/{UNKNOWN}"}, 404),
        ({"user": "nonsense"}, 400),
        ({"organization": UNKNOWN}, 400),
    ],
)
async def test_bad_questions_are_refused(api: Api, change: dict[str, str | None], status: int) -> None:
    app = await api.application()
    query = {"permission": "Read", "path": f"/applications/{app}", **change}
    answer = await api.get("permissions/explain", **{name: text for name, text in query.items() if text is not None})
    refused(answer, status)
    instance = f"/applications/{app}/instances/{UNKNOWN}"
    refused(await api.get("permissions/explain", permission="Read", path=instance), 404, "NotFound")


async def checked(api: Api, text: str, role: str | None = None) -> dict[str, Any]:
    body = {"permissions": text} | ({} if role is None else {"roleId": role})
    found: dict[str, Any] = accepted(await api.post(f"organizations/{api.organization}/roles/check", body))
    return found


async def test_a_check_says_who_would_gain_and_lose_what_and_saves_nothing(api: Api) -> None:
    before = "- Read: [/*]\n- EditApplication: [/applications/*]\n"
    role, other = await new_role(api, before), await new_role(api, "- CreateInstance: [/*]\n")
    narrow, broad = await person(api, role["name"]), await person(api, role["name"], other["name"])
    after = f"- Read: [/*]\n- CreateInstance: [/applications/*, /environments/{api.environment}]\n"
    found = await checked(api, after, role["id"])
    entry = f"CreateInstance: [/applications/*, /environments/{api.environment}]"
    lost = ["EditApplication: [/applications/*]"]
    assert {row["id"]: (row["gains"], row["losses"], row["kept"]) for row in found["holders"]} == {
        narrow.id: ([entry], lost, []),
        broad.id: ([], lost, [entry]),
    }
    assert (found["errors"], found["warnings"], found["hidden"]) == ([], [], 0)
    assert accepted(await api.get(f"roles/{role['id']}"))["permissions"] == before


async def test_a_pattern_within_one_that_was_there_before_is_no_gain(api: Api) -> None:
    role = await new_role(api, "- EditInstance: [/applications/*]\n")
    await person(api, role["name"])
    [row] = (await checked(api, f"- EditInstance: [/applications/{await api.application()}]\n", role["id"]))["holders"]
    assert (row["gains"], row["losses"]) == ([], ["EditInstance: [/applications/*]"])


async def test_a_check_finds_errors_with_their_place_and_patterns_that_name_nothing(api: Api) -> None:
    found = await checked(api, "- Read: [/*]\n- DestroyInstance: [/*]\n- EditServices: [/*]\n")
    assert found["errors"][0].startswith("Line 2, column 3: 'DestroyInstance' is not a permission.")
    assert "Line 3, column 3" in found["errors"][1]
    assert "Did you mean EditService?" in found["errors"][1]
    found = await checked(api, f"- RunServiceCommand: [/services/{UNKNOWN}, /services/*]\n")
    assert found["errors"] == []
    assert found["warnings"] == [f"RunServiceCommand: nothing has the ID {UNKNOWN}, so the pattern allows nothing."]
    assert (await checked(api, f"- Read: [/environments/{api.environment}]\n"))["warnings"] == []


async def test_holders_whom_the_caller_may_not_read_are_only_counted(api: Api) -> None:
    role = await new_role(api)
    await person(api, role["name"])
    manager = await new_role(api, "- ManageRoles: [/roles/*]\n")
    someone = await person(api, manager["name"])
    body = {"permissions": "", "roleId": role["id"]}
    found = accepted(await someone.post(f"organizations/{api.organization}/roles/check", body))
    assert (found["holders"], found["hidden"]) == ([], 1)


async def test_a_role_of_another_organization_is_not_checked(api: Api) -> None:
    other = accepted(await api.post("organizations", {"name": fresh_name("organization")}))["id"]
    role = accepted(await api.post(f"organizations/{other}/roles", {"name": "elsewhere", "permissions": ""}))
    body = {"permissions": "", "roleId": role["id"]}
    refused(await api.post(f"organizations/{api.organization}/roles/check", body), 404, "NotFound")


async def test_a_role_waits_for_those_that_others_create_meanwhile_and_stays_within_the_limit(api: Api) -> None:
    administrator, organization, _ = await api.outsider()
    roles = f"organizations/{organization}/roles"
    async with api.database.transaction() as other:
        await other.execute("SELECT id FROM organizations WHERE id = %s FOR NO KEY UPDATE", [organization])
        await other.execute(
            "INSERT INTO roles (id, organization_id, name, permissions, kind)"
            " SELECT launchbay_new_id(), %s, 'role ' || n, repeat('#', %s), 'custom' FROM generate_series(1, %s) n",
            [organization, ROLE_TEXT_BYTES, ROLE_TEXTS_BYTES // ROLE_TEXT_BYTES],
        )
        creates = asyncio.create_task(administrator.post(roles, {"name": "one more", "permissions": TEXT}))
        await until_locked(api.database.url)
    refused(await creates, 400)


async def test_a_check_names_recent_changes_that_the_text_would_refuse(api: Api) -> None:
    home = f"organizations/{api.organization}"
    environment, application = await api.offer(), await api.application()
    text = "- Read: [/*]\n- CreateInstance: [/*]\n- EditInstance: [/*]\n- RunInstanceWorkflow: [/*]\n"
    role = accepted(await api.post(f"{home}/roles", {"name": fresh_name("launcher"), "permissions": text}))
    who = await person(api, role["name"])
    instance = accepted(await who.post(f"applications/{application}/launch", {"environmentId": environment}))["id"]
    await api.settled(instance)
    accepted(await who.put(f"instances/{instance}/configuration", {"parameters": {}}))

    async def refused_by(permissions: str) -> list[tuple[str, str, str]]:
        body = {"permissions": permissions, "roleId": role["id"]}
        found = accepted(await api.post(f"{home}/roles/check", body))["recent"]
        assert (found["changes"], found["missing"]) == (2, None)
        return [(each["by"], each["operation"], each["permission"]) for each in found["refused"]]

    assert await refused_by(text) == []
    assert await refused_by(text.replace("- CreateInstance: [/*]\n", "")) == [
        (who.email, "launch_application", "CreateInstance")
    ]
    elsewhere = text.replace("EditInstance: [/*]", f"EditInstance: [/applications/*, /environments/{'0' * 24}]")
    assert await refused_by(elsewhere) == [(who.email, "reconfigure_instance", "EditInstance")]
    assert await refused_by(text.replace("[/*]", f"[/applications/*, /environments/{environment}]")) == []
    blind = await api.member("ManageRoles: [/*]", "Read: [/*]", "CreateInstance: [/*]", "EditInstance: [/*]")
    found = accepted(await blind.post(f"{home}/roles/check", {"permissions": "", "roleId": role["id"]}))["recent"]
    assert (found["changes"], found["refused"]) == (0, [])
    assert "ViewAudit" in found["missing"]


async def test_a_refusal_names_who_has_the_permission_as_far_as_the_caller_may_see_them(api: Api) -> None:
    home = accepted(await api.post("organizations", {"name": fresh_name("holders")}))["id"]
    application = accepted(await api.post(f"organizations/{home}/applications", {"name": "shop"}))["id"]
    path, text = f"applications/{application}/manifest", "launch: { steps: [] }\n"
    reader = await api.member("Read: [/*]", organization=home)
    said = refused(await reader.put_yaml(path, text), 403, "NotAllowed")
    assert f"You need the permission EditApplication for /applications/{application}. " in said
    assert "EditApplication is held there by Administrator. Ask " in said
    # Who may read no users hears of roles, and who may read no roles of neither.
    other = await api.member("Read: [/applications/*, /roles/*]", organization=home)
    said = refused(await other.put_yaml(path, text), 403, "NotAllowed")
    assert "EditApplication is held there by people with the role Administrator. Ask " in said
    said = refused(await other.get(f"organizations/{home}/audit"), 403, "NotAllowed")
    assert "ViewAudit is held there by people with the role Administrator. Ask " in said
    blind = await api.member("Read: [/applications/*]", organization=home)
    said = refused(await blind.put_yaml(path, text), 403, "NotAllowed")
    assert "EditApplication is held there by people whose roles you may not see. Ask " in said
    # Who isn't a member hears of nobody.
    outsider, _, _ = await api.outsider()
    assert "held" not in refused(await outsider.put_yaml(path, text), 403, "NotAllowed")


async def held_by(caller: Caller, permission: str, path: str) -> str:
    found = accepted(await caller.get("permissions/explain", permission=permission, path=path))
    return str(found["heldBy"])


async def test_an_explanation_tells_apart_why_nobody_holds_a_permission(api: Api) -> None:
    owner, home, _ = await api.outsider()
    application = accepted(await owner.post(f"organizations/{home}/applications", {"name": "shop"}))["id"]
    path = f"/applications/{application}"
    made = {"name": "rules", "permissions": "- EditRules: [/*]\n"}
    accepted(await owner.post(f"organizations/{home}/roles", made))
    robot = {"name": "Robot", "roles": ["rules"]}
    accepted(await owner.post(f"organizations/{home}/serviceAccounts", robot))
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE roles SET kind = 'custom', permissions = %s WHERE organization_id = %s AND kind = 'administrator'",
            ["- Read: [/*]\n", home],
        )
    assert await held_by(owner, "DeleteApplication", path) == "nobody: no role allows it"
    assert await held_by(owner, "EditRules", path) == "service accounts only, with the role rules"
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE users SET enabled = false WHERE service_of = %s", [home])
    assert await held_by(owner, "EditRules", path) == "nobody: no enabled account has the role rules"


async def test_many_refusals_read_the_roles_once_until_they_change(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    home = accepted(await api.post("organizations", {"name": fresh_name("many")}))["id"]
    reader = await api.member("Read: [/*]", organization=home)
    reads, read = list[str](), users.list_roles_by_organization

    async def counted(connection: Connection, *, organization_id: str) -> list[Role]:
        reads.append(organization_id)
        return await read(connection, organization_id=organization_id)

    monkeypatch.setattr(users, "list_roles_by_organization", counted)

    async def refusals(count: int) -> set[str]:
        answers = await asyncio.gather(*(reader.get(f"organizations/{home}/audit") for _ in range(count)))
        return {refused(each, 403, "NotAllowed") for each in answers}

    [said] = await refusals(20)
    assert "ViewAudit is held there by Administrator. " in said
    assert reads == [home]
    await api.member("ViewAudit: [/*]", organization=home)
    reads.clear()
    [said] = await refusals(20)
    assert "ViewAudit is held there by Administrator, Member. " in said
    assert reads == [home]


async def test_a_refusal_stays_one_if_nobody_can_be_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    home = accepted(await api.post("organizations", {"name": fresh_name("unnamed")}))["id"]
    reader = await api.member("Read: [/*]", organization=home)

    async def failing(*_: object, **__: object) -> NoReturn:
        raise Unavailable("The database is overloaded.")

    monkeypatch.setattr(users, "list_able_holders", failing)
    said = refused(await reader.get(f"organizations/{home}/audit"), 403, "NotAllowed")
    assert said.startswith("You need the permission ViewAudit in this organization. Ask an administrator ")


async def test_a_refusal_by_the_scope_of_a_token_names_the_scope_and_nobody(api: Api) -> None:
    within = f"organizations/{api.organization}"
    made = accepted(await api.post(f"{within}/accessTokens", {"name": "ci", "scope": ["Read: [/*]"]}))
    program = api.caller(f"Bearer {made['token']}")
    application = await api.application("launch: { steps: [] }\n")
    for answer in (
        await program.post(f"{within}/applications", {"name": "shop"}),
        await program.put_yaml(f"applications/{application}/manifest", "launch: { steps: [] }\n"),
    ):
        said = refused(answer, 403, "NotAllowed")
        assert "Your roles have it, but the scope of the access token 'ci' lacks it. Use a token " in said
        assert "held there by" not in said
