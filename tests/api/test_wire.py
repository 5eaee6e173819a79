"""The answers of the reference's other calls, to the byte where it shows none; `test_contract.py` has the first part.

And what goes beside them: field errors, kinds of values, versions of the path.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import yaml

from launchbay.web.responses import HTML
from tests.support.manifests import TYPED, WORKFLOWS
from tests.support.pages import browser, send
from tests.support.served import ENDPOINTS
from tests.support.service import ANSWERS, PERSON_PASSWORD, Api, Ids, Person, accepted, fresh_name, person, refused

Ask = Callable[[Api, Ids], Awaitable[httpx.Response]]
Shape = bytes | set[str] | list[set[str]]  # the very bytes, the keys of an object, of each object in an array

EMPTY = b"{}"
TEXT = "- Read: ['/*']\n"
ROLE = {"id", "name", "canEdit", "canDelete"}
SERVICE = {
    *("id", "name", "typeId", "typeName", "zoneId", "zoneName", "organizationId", "interfaces", "parameters"),
    *("status", "internalId"),
}
INT_PROPERTY = {"name": "size", "type": "int", "value": 3}

REST: dict[str, tuple[Ask, Shape]] = {
    "list_users": (
        lambda api, ids: api.get(f"organizations/{api.organization}/users"),
        [{"id", "name", "email", "roles", "canEvict", "canManageRoles"}],
    ),
    "list_roles": (lambda api, ids: api.get(f"organizations/{api.organization}/roles"), [ROLE]),
    "create_role": (
        lambda api, ids: api.post(
            f"organizations/{api.organization}/roles", {"name": fresh_name(), "permissions": TEXT}
        ),
        ROLE | {"permissions"},
    ),
    "read_role": (lambda api, ids: api.get(f"roles/{ids['role']}"), ROLE | {"permissions"}),
    "update_role": (
        lambda api, ids: api.put(f"roles/{ids['role']}", {"name": ids["role name"], "permissions": TEXT}),
        EMPTY,
    ),
    "assign_roles": (
        lambda api, ids: api.put(f"organizations/{api.organization}/users/{ids['user']}/roles", [ids["role name"]]),
        EMPTY,
    ),
    "revoke_roles": (
        lambda api, ids: api.delete(f"organizations/{api.organization}/users/{ids['user']}/roles", [ids["role name"]]),
        EMPTY,
    ),
    "delete_role": (lambda api, ids: api.delete(f"roles/{ids['other role']}"), EMPTY),
    "list_environments": (
        lambda api, ids: api.get(f"organizations/{api.organization}/environments"),
        [{"id", "name", "isDefault"}],
    ),
    "replace_policies": (
        lambda api, ids: api.put_yaml(f"environments/{ids['environment']}", "policies: {a.b: true}"),
        EMPTY,
    ),
    "clone_environment": (lambda api, ids: api.post(f"environments/{ids['environment']}/clone"), {"id", "name"}),
    "replace_markers": (
        lambda api, ids: api.put(f"environments/{ids['environment']}/markers", {"markers": [{"name": "m"}]}),
        EMPTY,
    ),
    "read_markers": (
        lambda api, ids: api.get(f"environments/{ids['environment']}/markers"),
        b'{"markers":[{"name":"m"}]}',
    ),
    "replace_properties": (
        lambda api, ids: api.put(f"environments/{ids['environment']}/properties", {"properties": [INT_PROPERTY]}),
        EMPTY,
    ),
    "read_properties": (lambda api, ids: api.get(f"environments/{ids['environment']}/properties"), {"properties"}),
    "read_service": (lambda api, ids: api.get(f"services/{ids['service']}"), SERVICE),
    "update_service": (lambda api, ids: api.put(f"services/{ids['service']}", {"name": fresh_name()}), SERVICE),
    "run_service_command": (
        lambda api, ids: api.post(f"services/{ids['service']}/list", {}),
        [{"resources", "waiting"}],
    ),
    "reconfigure_instance": (
        lambda api, ids: api.put(f"instances/{ids['instance']}/configuration", {"parameters": {"label": "x"}}),
        EMPTY,
    ),
}
# Of other kinds: YAML, pages, and the exchange of a token, which is not below /api/1.
ELSEWHERE = {"read_policies", "refresh_token_page", "generate_token", "exchange_token"}


@pytest.fixture(scope="module")
async def ids(api: Api) -> Ids:
    organization = f"organizations/{api.organization}"
    names = fresh_name("role"), fresh_name("role")
    roles = [accepted(await api.post(f"{organization}/roles", {"name": n, "permissions": TEXT}))["id"] for n in names]
    pool = {"name": fresh_name(), "typeId": "builtin:static_resource_pool"}
    service = accepted(
        await api.post(f"{organization}/services", {**pool, "parameters": {"configuration.resources": ["a"]}})
    )
    return {
        "role": roles[0],
        "role name": names[0],
        "other role": roles[1],
        "user": (await person(api)).id,
        "environment": accepted(await api.post(f"{organization}/environments", {"name": fresh_name()}))["id"],
        "service": service["id"],
        "instance": await api.running(WORKFLOWS, parameters={"label": "x"}),
    }


def test_every_call_of_the_reference_is_held_to_its_answer() -> None:
    assert {row.operation_id for row in ENDPOINTS if not row.extension} == {*ANSWERS, *REST, *ELSEWHERE}


@pytest.mark.parametrize("operation", REST)
async def test_success_is_200_with_exactly_the_keys_or_bytes(api: Api, ids: Ids, operation: str) -> None:
    ask, shape = REST[operation]
    if operation == "read_markers":
        accepted(await REST["replace_markers"][0](api, ids))
    answer = await ask(api, ids)
    assert answer.status_code == 200, answer.text
    assert [value for name, value in answer.headers.raw if name.lower() == b"content-type"] == [b"application/json"]
    assert answer.headers["content-length"] == str(len(answer.content))
    if isinstance(shape, bytes):
        assert answer.content == shape
        return
    document = answer.json()
    items, keys = (document, shape[0]) if isinstance(shape, list) else ([document], shape)
    assert items, "an empty list shows no keys"
    assert [set(item) for item in items] == [keys] * len(items)


async def test_policies_go_out_as_yaml_without_a_charset_whatever_is_accepted(api: Api, ids: Ids) -> None:
    accepted(await api.put_yaml(f"environments/{ids['environment']}", "policies: {a.b: true, a.c: some-value}"))
    for accept in ("application/x-yaml", "application/json", "*/*"):
        answer = await api.client.get(f"environments/{ids['environment']}", headers={"Accept": accept})
        assert answer.status_code == 200
        assert [value for name, value in answer.headers.raw if name.lower() == b"content-type"] == [
            b"application/x-yaml"
        ]
        assert yaml.safe_load(answer.content) == {"policies": {"a.b": True, "a.c": "some-value"}}


async def test_the_exchange_of_a_token_answers_token_and_whole_seconds_as_json(api: Api) -> None:
    who: Person = await person(api)
    async with browser(api) as visitor:
        page = await visitor.get("/refreshToken")
        assert page.headers["content-type"] == HTML
        token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token
        answer = await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token})
    document = accepted(answer)
    assert set(document) == {"jwtBearer", "expiresIn"}
    assert type(document["expiresIn"]) is int
    accepted(await api.caller(f"Bearer {document['jwtBearer']}").get("organizations"))


@pytest.mark.parametrize("path", ["api/2/organizations", "api/1.0/organizations", "api/organizations", "organizations"])
async def test_only_the_first_version_of_the_path_is_there(api: Api, path: str) -> None:
    refused(await api.client.get(httpx.URL(api.client.base_url).join(f"/{path}")), 404, "UnknownPath")


async def test_a_new_field_of_the_body_and_of_the_query_harms_no_call_of_the_reference(api: Api, ids: Ids) -> None:
    accepted(await api.put(f"roles/{ids['role']}?x=1", {"name": ids["role name"], "permissions": TEXT, "x": 1}))
    accepted(await api.put(f"environments/{ids['environment']}/markers?x", {"markers": [{"name": "m"}], "x": 1}))
    accepted(await api.post(f"services/{ids['service']}/list?x", {"x": 1}))


@pytest.mark.parametrize("content", [b"", b"   ", b"[]", b'"text"', b"garbage{"])
async def test_a_body_on_get_is_ignored(api: Api, ids: Ids, content: bytes) -> None:
    for path in ("organizations", f"roles/{ids['role']}", f"instances/{ids['instance']}"):
        answer = await api.send("GET", path, content, content_type="application/x-nonsense")
        assert answer.status_code == 200


async def test_the_identifier_of_a_service_is_made_of_the_organization_and_its_id(api: Api, ids: Ids) -> None:
    document: dict[str, Any] = accepted(await api.get(f"services/{ids['service']}"))
    assert document["internalId"] == f"{api.organization}.services.{ids['service']}"
    assert set(document["status"]) == {"name", "pending"}
    assert type(document["status"]["pending"]) is bool


async def test_a_configuration_moves_no_end_and_no_schedule(api: Api) -> None:
    application = await api.application(TYPED)
    given = {"input.size": "3", "input.tags": ["a"]}
    instance = await api.launch(application, parameters=given, destroyInterval=7_200_000)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/actions.default/schedule", {"interval": "3600000"}))
    before = await api.document(instance)
    schedules = accepted(await api.get(f"instances/{instance}/schedules"))
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": given | {"input.size": "4"}}))
    after = await api.settled(instance)
    assert after["parameters"]["input.size"] != before["parameters"]["input.size"]
    assert after["destroyAt"] == before["destroyAt"]
    assert accepted(await api.get(f"instances/{instance}/schedules")) == schedules
