"""Why something is allowed or not (api-decisions, "Beyond the reference")."""

from typing import Any

import pytest

from tests.api.people import person
from tests.api.running import UNKNOWN, Api, Caller, accepted, fresh_name, refused


async def explained(caller: Caller, **query: str) -> Any:
    document = accepted(await caller.get("permissions/explain", **query))
    assert set(document) == {"allowed", "reason", "role", "entry", "pattern"}
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
    accepted(await api.post(f"organizations/{api.organization}/users", {"email": who.email, "name": "Both"}))
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
