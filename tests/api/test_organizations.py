"""Organizations through the API (reference §4, Organizations; conformance.md, "Beyond the reference")."""

import pytest

from tests.support.service import UNKNOWN, Api, accepted, fresh_name, refused


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


async def test_who_may_create_users_may_create_organizations_and_nobody_else(api: Api) -> None:
    for entries in ([], ["Read: [/*]"], ["ManageUsers: [/users/" + UNKNOWN + "]"], ["ManageRoles: [/*]"]):
        member = await api.member(*entries)
        assert "ManageUsers" in refused(await member.post("organizations", {"name": "mine"}), 403, "NotAllowed")
    accepted(await (await api.member("ManageUsers: [/users/*]")).post("organizations", {"name": "mine"}))


async def test_an_organization_is_renamed_by_who_manages_all_users(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    accepted(await outsider.put(f"organizations/{organization}", {"name": "  renamed  "}))
    assert accepted(await outsider.get(f"organizations/{organization}"))["name"] == "renamed"
    member = await api.member("Read: [/*]", organization=organization)
    refused(await member.put(f"organizations/{organization}", {"name": "no"}), 403, "NotAllowed")
    assert accepted(await member.get(f"organizations/{organization}"))["name"] == "renamed"


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
