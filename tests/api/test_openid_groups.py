"""Roles that follow the groups of the identity provider."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.external_services import OPENID_CLIENT, Provider, sign_in
from tests.support.service import Api, Person, accepted, person, refused, running_api, user_named

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
async def api(databases: Databases, provider: Provider) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(
        url, engine=False, oidc_issuer=provider.issuer, oidc_groups_claim="groups", **OPENID_CLIENT
    ) as api:
        for name in ("Builder", "Tester"):
            accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": ""}))
        yield api
    databases.drop(url)


async def map_groups(api: Api, **roles: list[str]) -> None:
    body = [{"group": group, "roles": names} for group, names in roles.items()]
    accepted(await api.put(f"organizations/{api.organization}/groupRoles", body))


async def arrive(api: Api, provider: Provider, who: Person, subject: str, **claims: Any) -> list[str]:
    """Sign in with these claims, and return the roles held then."""
    await provider.know(subject, email=who.email, email_verified=True, **claims)
    assert (await sign_in(api, subject)).status == 200
    roles: list[str] = (await user_named(api, who.id))["roles"]
    return roles


@pytest.mark.slow
async def test_roles_come_and_go_with_groups_and_those_given_by_hand_stay(api: Api, provider: Provider) -> None:
    await map_groups(api, builders=["Builder", "Guest"], testers=["Tester"])
    who = await person(api, "Guest")
    assert await arrive(api, provider, who, "gina", groups=["builders", "others"]) == ["Builder", "Guest"]
    assert await arrive(api, provider, who, "gina", groups=["testers"]) == ["Guest", "Tester"]
    accepted(await api.put(f"organizations/{api.organization}/users/{who.id}/roles", ["Tester"]))
    assert await arrive(api, provider, who, "gina", groups=[]) == ["Guest", "Tester"]
    rows = accepted(await api.get(f"organizations/{api.organization}/audit?object=/users/{who.id}"))
    synchronized = [(row["before"], row["after"]) for row in rows if row["operation"] == "synchronize_roles"]
    assert synchronized == [
        ({"lost": []}, {"gained": ["Builder"]}),
        ({"lost": ["Builder"]}, {"gained": ["Tester"]}),
    ]


async def test_a_missing_claim_means_no_groups(api: Api, provider: Provider) -> None:
    await map_groups(api, builders=["Builder"])
    who = await person(api, "Guest")
    assert await arrive(api, provider, who, "hal", groups="builders") == ["Builder", "Guest"]
    assert await arrive(api, provider, who, "hal") == ["Guest"]


async def test_a_reference_to_groups_changes_nothing(api: Api, provider: Provider) -> None:
    await map_groups(api, builders=["Builder"])
    who = await person(api, "Guest")
    assert await arrive(api, provider, who, "ida", groups=["builders"]) == ["Builder", "Guest"]
    assert await arrive(api, provider, who, "ida", _claim_names={"groups": "src1"}) == ["Builder", "Guest"]
    assert await arrive(api, provider, who, "ida", groups={"not": "a list"}) == ["Builder", "Guest"]


async def test_groups_reach_no_organization_that_the_person_does_not_belong_to(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    accepted(await outsider.put(f"organizations/{organization}/groupRoles", [{"group": "all", "roles": ["Guest"]}]))
    who = await person(api, "Guest")
    await arrive(api, provider, who, "jon", groups=["all"])
    assert who.id not in [row["id"] for row in accepted(await outsider.get(f"organizations/{organization}/users"))]


async def test_only_who_may_give_a_role_to_anybody_maps_groups_to_it(api: Api) -> None:
    path = f"organizations/{api.organization}/groupRoles"
    body = [{"group": "all", "roles": ["Administrator"]}]
    for text in ("Read: [/*]", "ManageRoles: [/users/000000000000000000000000, /roles/*]"):
        member = await api.member(text)
        refused(await member.put(path, body), 403, "NotAllowed")
    refused(await api.put(path, [{"group": "all", "roles": ["Pilot"]}]), 400, "UnknownRole")
    refused(await api.put(path, [{"group": " ", "roles": ["Guest"]}]), 400, "InvalidName")
    accepted(await api.put(path, [{"group": "all", "roles": ["Guest"]}]))
    assert accepted(await api.get(path)) == [{"group": "all", "roles": ["Guest"]}]
