"""Environments through the API (reference §4, Environments; conformance.md, "Beyond the reference")."""

import asyncio
from typing import Any

import httpx
import pytest
import yaml

from tests.support.service import UNKNOWN, Api, Caller, accepted, fresh_name, refused

POLICIES = "policies:\n  provisionVms.hardwareId: m1.small\n  execrun.ignoreFail: true\n"


async def new_environment(api: Api, name: str | None = None) -> str:
    created = await api.post(f"organizations/{api.organization}/environments", {"name": name or fresh_name("env")})
    assert list(accepted(created)) == ["id"]
    return str(created.json()["id"])


async def listed(api: Api) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in accepted(await api.get(f"organizations/{api.organization}/environments"))}


async def policies(api: Api, environment: str) -> Any:
    answer = await api.get(f"environments/{environment}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-yaml"
    return yaml.safe_load(answer.text)["policies"]


async def make_default(api: Api, environment: str | None) -> httpx.Response:
    return await api.put(f"organizations/{api.organization}/defaultEnvironment", {"environmentId": environment})


async def test_a_list_item_has_exactly_the_fields_of_the_reference(api: Api) -> None:
    environment = await new_environment(api, "A name")
    found = await listed(api)
    assert found[environment] == {"id": environment, "name": "A name", "isDefault": False}
    assert found[api.environment] == {"id": api.environment, "name": "default", "isDefault": True}


async def test_a_list_shows_only_what_the_caller_may_read(api: Api) -> None:
    shown, hidden = await new_environment(api), await new_environment(api)
    reader = await api.member(f"Read: [/environments/{shown}]")
    rows = accepted(await reader.get(f"organizations/{api.organization}/environments"))
    assert [row["id"] for row in rows] == [shown]
    refused(await reader.get(f"environments/{hidden}"), 403, "NotAllowed")


async def test_a_list_can_be_read_page_by_page(api: Api) -> None:
    for _ in range(3):
        await new_environment(api)
    target: str | None = f"/api/1/organizations/{api.organization}/environments?limit=2"
    found: list[str] = []
    while target is not None:
        answer = await api.client.get(f"http://launchbay{target}")
        page = [row["id"] for row in accepted(answer)]
        assert 1 <= len(page) <= 2
        found += page
        link = answer.headers.get("link")
        target = None if link is None else link[1 : link.index(">")]
    assert found == sorted(await listed(api))


async def test_policies_come_back_as_they_were_imported_and_can_be_imported_again(api: Api) -> None:
    environment = await new_environment(api)
    assert await policies(api, environment) == {}
    assert accepted(await api.put_yaml(f"environments/{environment}", POLICIES)) == {}
    exported = await api.send("GET", f"environments/{environment}", Accept="application/x-yaml")
    assert exported.text == POLICIES
    other = await new_environment(api)
    accepted(await api.put_yaml(f"environments/{other}", exported.text))
    assert await policies(api, other) == {"provisionVms.hardwareId": "m1.small", "execrun.ignoreFail": True}


async def test_an_import_replaces_all_policies_and_touches_nothing_else(api: Api) -> None:
    environment = await new_environment(api)
    accepted(await api.put_yaml(f"environments/{environment}", POLICIES))
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "m"}]}))
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {wait.delay: 3}"))
    assert await policies(api, environment) == {"wait.delay": 3}
    assert accepted(await api.get(f"environments/{environment}/markers")) == {"markers": [{"name": "m"}]}


async def test_policies_that_cannot_be_read_are_refused_with_their_place_and_change_nothing(api: Api) -> None:
    environment = await new_environment(api)
    accepted(await api.put_yaml(f"environments/{environment}", POLICIES))
    answer = await api.put_yaml(f"environments/{environment}", "policies:\n  a.b: [1]\n")
    assert "Line 2, column 8" in refused(answer, 400, "InvalidPolicies")
    assert "launch" not in await policies(api, environment)
    assert len(await policies(api, environment)) == 2


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("machines.jump: ops@:22", "The policy 'machines.jump': Invalid host 'ops@:22'"),
        ("machines.jump: a,b,,c", "Invalid host ''"),
        ("machines.jump: a,a,a,a,a,a,a,a,a", "There are 9 jump hosts in a row. Limit: 8."),
        ("machines.jump: 5", "Invalid jump hosts"),
        ("outgoing.allow: 127.0.0.1/99", "The policy 'outgoing.allow': "),
    ],
)
async def test_a_policy_with_a_form_of_its_own_is_refused_with_its_place(api: Api, policy: str, told: str) -> None:
    environment = await new_environment(api)
    answer = await api.put_yaml(f"environments/{environment}", f"policies:\n  a.b: 1\n  {policy}\n")
    message = refused(answer, 400, "InvalidPolicies")
    assert told in message
    assert f"Line 3, column {3 + len(policy.partition(' ')[0]) + 1}" in message


@pytest.mark.parametrize("content_type", ["application/json", "text/yaml", ""])
async def test_policies_of_another_content_type_are_400(api: Api, content_type: str) -> None:
    answer = await api.send("PUT", f"environments/{api.environment}", POLICIES.encode(), content_type=content_type)
    refused(answer, 400, "WrongContentType")


async def test_the_caller_wins_over_the_body_and_the_body_over_a_missing_object(api: Api) -> None:
    refused(await api.caller(None).put_yaml(f"environments/{UNKNOWN}", "]["), 401)
    refused(await api.send("PUT", f"environments/{UNKNOWN}", b"\xff", content_type="application/x-yaml"), 400)
    refused(await api.put_yaml(f"environments/{UNKNOWN}", "]["), 404)
    reader = await api.member("Read: [/*]")
    refused(await reader.put_yaml(f"environments/{api.environment}", "]["), 403)


async def test_a_clone_has_everything_but_being_the_default(api: Api) -> None:
    source = await new_environment(api)
    accepted(await make_default(api, source))
    accepted(await api.put_yaml(f"environments/{source}", POLICIES))
    offers = {"markers": {"markers": [{"name": "m"}]}, "properties": {"properties": [_property("p", 1, "int")]}}
    for part, body in offers.items():
        accepted(await api.put(f"environments/{source}/{part}", body))
    clone = accepted(await api.post(f"environments/{source}/clone", {"name": "A clone"}))
    accepted(await make_default(api, api.environment))
    assert clone == {"id": clone["id"], "name": "A clone"}
    assert await policies(api, clone["id"]) == await policies(api, source)
    for part, body in offers.items():
        assert accepted(await api.get(f"environments/{clone['id']}/{part}")) == body
    assert (await listed(api))[clone["id"]]["isDefault"] is False
    accepted(await api.put_yaml(f"environments/{source}", "policies: {}"))
    assert await policies(api, clone["id"]) != {}


async def test_clones_without_a_name_get_names_of_their_own(api: Api) -> None:
    source = await new_environment(api, "x" * 255)
    answers = await asyncio.gather(*(api.post(f"environments/{source}/clone") for _ in range(5)))
    names = {accepted(answer)["name"] for answer in answers}
    assert len(names) == 5
    assert all(len(name) <= 255 and name.startswith("Copy of xxx") for name in names)
    again = await api.send("POST", f"environments/{source}/clone", content_type="application/x-www-form-urlencoded")
    assert set(accepted(again)) == {"id", "name"}
    assert accepted(await api.post(f"environments/{source}/clone", {"name": None}))["name"] not in names


async def test_a_clone_without_a_name_is_a_numbered_copy_of_its_source(api: Api) -> None:
    source = await new_environment(api, "Shop")
    answers = [accepted(await api.post(f"environments/{source}/clone"))["name"] for _ in range(3)]
    assert answers == ["Copy of Shop", "Copy of Shop (2)", "Copy of Shop (3)"]


async def test_a_clone_needs_a_free_name_and_both_permissions(api: Api) -> None:
    source = await new_environment(api)
    refused(await api.post(f"environments/{source}/clone", {"name": "default"}), 400, "NameTaken")
    refused(await api.post(f"environments/{source}/clone", {"name": " "}), 400, "InvalidName")
    refused(await api.post(f"environments/{source}/clone", {"name": 3}), 400, "WrongField")
    refused(await api.send("POST", f"environments/{source}/clone", b"{}", content_type="text/plain"), 400)
    reader = await api.member("Read: [/*]")
    refused(await reader.post(f"environments/{source}/clone", {}), 403, "NotAllowed")
    maker = await api.member("CreateEnvironment: [/environments/*]")
    refused(await maker.post(f"environments/{source}/clone", {}), 403, "NotAllowed")
    both = await api.member("CreateEnvironment: [/environments/*]", f"Read: [/environments/{source}]")
    accepted(await both.post(f"environments/{source}/clone", {}))


def _property(name: str, value: Any, type_: str) -> dict[str, Any]:
    return {"name": name, "value": value, "type": type_}


async def test_properties_of_every_type_come_back_with_exactly_their_fields_in_their_order(api: Api) -> None:
    environment = await new_environment(api)
    sent = [
        _property("text", "ä\n", "string"),
        _property("count", 2**63 - 1, "int"),
        _property("on", False, "bool"),
        _property("any", {"b": [1, {"a": None}], "a": 0.5}, "object"),
        _property("hosts", ["a", "b"], "list<string>"),
        _property("sizes", {"b": [1], "a": []}, "map<string,list<int>>"),
    ]
    accepted(await api.put(f"environments/{environment}/properties", {"properties": sent}))
    shown = accepted(await api.get(f"environments/{environment}/properties"))
    assert shown == {"properties": sent}
    assert [list(entry) for entry in shown["properties"]] == [["name", "value", "type"]] * len(sent)
    assert list(shown["properties"][3]["value"]) == ["b", "a"]
    accepted(await api.put(f"environments/{environment}/properties", {"properties": []}))
    assert accepted(await api.get(f"environments/{environment}/properties")) == {"properties": []}


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([_property("n", "x", "int")], "doesn't match its type"),
        ([_property("n", 1, "number")], "Unknown type 'number'"),
        ([_property("n", 1, "double")], "can't have the type double"),
        ([_property("n", 1, "int"), _property("n", 2, "int")], "Duplicate property 'n'"),
        ([_property("", 1, "int")], "Invalid property name"),
        ([{"name": "n", "type": "int"}], "value: this field is required"),
        ([{"name": "n", "value": 1}], "type: this field is required"),
        ([{"name": 5, "value": 1, "type": "int"}], "name: expected a string, got a whole number"),
        (["n"], "expected an object, got a string"),
        ({"n": 1}, "expected a list, got an object"),
        (None, "expected a list, got null"),
    ],
)
async def test_properties_that_cannot_be_kept_are_400_and_change_nothing(api: Api, entries: Any, says: str) -> None:
    kept = {"properties": [_property("kept", 1, "int")]}
    environment = await new_environment(api)
    accepted(await api.put(f"environments/{environment}/properties", kept))
    assert says in refused(await api.put(f"environments/{environment}/properties", {"properties": entries}), 400)
    assert accepted(await api.get(f"environments/{environment}/properties")) == kept


@pytest.mark.parametrize("body", [[], {}, {"markers": [{"name": "m"}, {"name": "m"}]}, {"markers": [{}]}, "x", 1])
async def test_markers_that_cannot_be_kept_are_400(api: Api, body: Any) -> None:
    refused(await api.put(f"environments/{api.environment}/markers", body), 400)


async def test_markers_are_replaced(api: Api) -> None:
    environment = await new_environment(api)
    for names in (["a", "b"], ["c"], []):
        body = {"markers": [{"name": name} for name in names]}
        assert accepted(await api.put(f"environments/{environment}/markers", body)) == {}
        assert accepted(await api.get(f"environments/{environment}/markers")) == body


async def test_what_an_environment_offers_reaches_what_is_launched_in_it(api: Api) -> None:
    environment = await new_environment(api)
    application = await api.application(NEEDY)
    answer = await api.post(f"applications/{application}/launch", {"environmentId": environment})
    assert "needs property 'size'" in refused(answer, 400)
    properties = {"properties": [_property("size", "3", "int")]}
    accepted(await api.put(f"environments/{environment}/properties", properties))
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {wait.delay: 0}"))
    document = await api.settled(await api.launch(application, environmentId=environment))
    assert document["status"] == "Running", document["errorMessage"]
    assert document["returnValues"] == {"result.size": 3}


NEEDY = """
application:
  interfaces:
    result: {size: bind(workflow#result.size)}
  bindings: [[workflow, needs]]
  components:
    needs: {type: reference.Service, interfaces: {properties: {size: publish-signal(int)}}}
    workflow:
      type: workflow.Instance
      required: [properties]
      interfaces:
        properties: {size: consume-signal(int)}
        result: {size: publish-signal(int)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - rest: {action: wait, parameters: {delay: 3600}}
              - look: {action: getEnvironmentProperties, output: {seen: result}}
            return: {size: {value: "{$.seen.properties.size}"}}
"""


async def test_names_are_free_within_the_organization_and_can_be_changed(api: Api) -> None:
    environment, name = await new_environment(api), fresh_name("env")
    assert accepted(await api.put(f"environments/{environment}/name", {"name": f"  {name} "})) == {}
    assert (await listed(api))[environment]["name"] == name
    taken = refused(await api.put(f"environments/{environment}/name", {"name": "default"}), 400, "NameTaken")
    assert "'default' already" in taken
    refused(await api.post(f"organizations/{api.organization}/environments", {"name": name}), 400, "NameTaken")
    refused(await api.post(f"organizations/{api.organization}/environments", {"name": "x" * 256}), 400, "InvalidName")
    refused(await api.post(f"organizations/{api.organization}/environments", {}), 400, "WrongField")
    outsider, organization, _ = await api.outsider()
    accepted(await outsider.post(f"organizations/{organization}/environments", {"name": name}))


async def test_an_unused_environment_can_be_deleted(api: Api) -> None:
    environment = await new_environment(api)
    assert accepted(await api.delete(f"environments/{environment}")) == {}
    refused(await api.get(f"environments/{environment}"), 404, "NotFound")
    refused(await api.delete(f"environments/{environment}"), 404, "NotFound")


async def test_the_default_environment_cannot_be_deleted(api: Api) -> None:
    sentence = refused(await api.delete(f"environments/{api.environment}"), 400, "DefaultEnvironment")
    assert "Make another one the default first" in sentence


async def test_an_environment_with_instances_cannot_be_deleted_until_they_are_gone(api: Api) -> None:
    environment = await new_environment(api)
    instance = await api.running(None, environmentId=environment)
    assert "has instances (1)" in refused(await api.delete(f"environments/{environment}"), 400, "EnvironmentInUse")
    await api.run(instance, "destroy")
    refused(await api.delete(f"environments/{environment}"), 400, "EnvironmentInUse")
    accepted(await api.delete(f"instances/{instance}"))
    accepted(await api.delete(f"environments/{environment}"))


async def test_launches_and_a_deletion_at_the_same_moment_are_never_a_500(api: Api) -> None:
    application = await api.application()
    for _ in range(5):
        environment = await new_environment(api)
        launches = (api.post(f"applications/{application}/launch", {"environmentId": environment}) for _ in range(4))
        *launched, deleted = await asyncio.gather(*launches, api.delete(f"environments/{environment}"))
        assert {answer.status_code for answer in launched} <= {200, 400, 409}
        assert deleted.status_code in {200, 400}
        if deleted.status_code == 200:
            assert 200 not in {answer.status_code for answer in launched}


async def test_launches_without_an_environment_go_to_the_default_one(api: Api) -> None:
    environment = await new_environment(api)
    assert accepted(await make_default(api, environment)) == {}
    assert [row["id"] for row in (await listed(api)).values() if row["isDefault"]] == [environment]
    document = await api.document(await api.launch(await api.application()))
    assert document["environmentId"] == environment
    accepted(await make_default(api, environment))
    accepted(await make_default(api, api.environment))
    assert [row["id"] for row in (await listed(api)).values() if row["isDefault"]] == [api.environment]


async def test_the_default_environment_is_one_of_the_organization(api: Api) -> None:
    outsider, organization, foreign = await api.outsider()
    refused(await make_default(api, UNKNOWN), 400, "UnknownId")
    refused(await make_default(api, "default"), 400, "UnknownId")
    refused(await make_default(api, foreign), 403, "NotAllowed")
    refused(await make_default(api, None), 400)
    path = f"organizations/{api.organization}/defaultEnvironment"
    refused(await outsider.put(path, {"environmentId": foreign}), 403)
    refused(await outsider.put(f"organizations/{UNKNOWN}/defaultEnvironment", {"environmentId": foreign}), 404)
    async with api.database.transaction() as connection:  # somebody who belongs to both
        await connection.execute(
            "INSERT INTO memberships SELECT %s, id FROM users WHERE email = %s",
            [organization, api.settings.admin_email],
        )
        await connection.execute(
            "INSERT INTO role_assignments SELECT id, (SELECT id FROM users WHERE email = %s) FROM roles"
            " WHERE organization_id = %s AND kind = 'administrator'",
            [api.settings.admin_email, organization],
        )
    refused(await make_default(api, foreign), 400, "ForeignEnvironment")


async def test_changes_of_the_default_at_the_same_moment_leave_exactly_one(api: Api) -> None:
    environments = [await new_environment(api) for _ in range(6)]
    answers = await asyncio.gather(*(make_default(api, environment) for environment in environments))
    assert {answer.status_code for answer in answers} == {200}
    assert len([row for row in (await listed(api)).values() if row["isDefault"]]) == 1
    accepted(await make_default(api, api.environment))


EDITS: list[tuple[str, str, Any]] = [
    ("PUT", "environments/{}", POLICIES),
    ("PUT", "environments/{}/name", {"name": "other"}),
    ("PUT", "environments/{}/markers", {"markers": []}),
    ("PUT", "environments/{}/properties", {"properties": []}),
    ("PUT", "environments/{}/services", {"services": []}),
    ("POST", "environments/{}/clone", {}),
    ("DELETE", "environments/{}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), EDITS)
async def test_nobody_changes_what_they_may_only_read_or_what_is_not_there(
    api: Api, method: str, path: str, body: Any
) -> None:
    environment = await new_environment(api)
    outsider, _, foreign = await api.outsider()
    reader = await api.member("Read: [/*]")

    async def send(caller: Caller, of_id: str) -> httpx.Response:
        target = path.format(of_id)
        if isinstance(body, str):
            return await caller.put_yaml(target, body)
        if method == "PUT":
            return await caller.put(target, body)
        return await (caller.post(target, body) if method == "POST" else caller.delete(target))

    refused(await send(reader, environment), 403, "NotAllowed")
    refused(await send(outsider, environment), 403, "NotAllowed")
    refused(await send(api, foreign), 403, "NotAllowed")
    refused(await send(api, UNKNOWN), 404, "NotFound")
    refused(await send(api, "not-an-id"), 404, "NotFound")
    refused(await send(api.caller(None), environment), 401)
    accepted(await send(api, environment))


async def test_nobody_reads_environments_of_another_organization(api: Api) -> None:
    outsider, _, _ = await api.outsider()
    for part in ("", "/markers", "/properties", "/services", "/instances"):
        refused(await outsider.get(f"environments/{api.environment}{part}"), 403, "NotAllowed")
    refused(await outsider.get(f"organizations/{api.organization}/environments"), 403, "NotAllowed")
