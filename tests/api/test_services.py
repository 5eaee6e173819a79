"""Service instances through the API (reference §4, Service instances; conformance.md, "Beyond the reference")."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from launchbay.service_types import registry
from tests.support.databases import Databases
from tests.support.service import UNKNOWN, Api, Caller, accepted, fresh_name, refused, running_api
from tests.support.services import Oracle, made_vault, told

ACCOUNT = {
    "configuration.provider": "aws-ec2",
    "configuration.identity": "AKIA",
    "configuration.credential": "hunter2",
    "configuration.endpoint-url": "https://ec2.example:8443/",
}
MASK = "********"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A running service that knows one more type, as an installed package would bring it."""
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, Oracle()))
        async with running_api(url) as api:
            yield api
    databases.drop(url)


async def make(api: Api, type_id: str, parameters: Any = None, **more: Any) -> str:
    body = {"name": fresh_name("service"), "typeId": type_id, "parameters": parameters, **more}
    created = accepted(await api.post(f"organizations/{api.organization}/services", body))
    assert list(created) == ["id"]
    return str(created["id"])


async def shown(api: Caller, service: str) -> dict[str, Any]:
    document: dict[str, Any] = accepted(await api.get(f"services/{service}"))
    return document


def by_field(answer: httpx.Response, status: int = 400) -> dict[str, list[str]]:
    """Check that an answer is a refusal in the form of service update and command: field → messages."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    fields: dict[str, list[str]] = answer.json()
    assert fields
    assert all(messages and all(isinstance(text, str) for text in messages) for messages in fields.values())
    return fields


async def test_a_service_has_exactly_the_fields_of_the_reference(api: Api) -> None:
    service = await make(api, "builtin:static_resource_pool", {"configuration.resources": ["a"]}, name="Hosts")
    [zone] = accepted(await api.get(f"organizations/{api.organization}/zones"))
    assert await shown(api, service) == {
        "id": service,
        "name": "Hosts",
        "typeId": "builtin:static_resource_pool",
        "typeName": "Static resource pool",
        "zoneId": zone["id"],
        "zoneName": zone["name"],
        "organizationId": api.organization,
        "interfaces": ["resource-pool"],
        "parameters": {"configuration.resources": ["a"]},
        "status": {"name": "Ready", "pending": False},
        "internalId": f"{api.organization}.services.{service}",
    }


async def test_a_new_organization_has_two_services_in_its_default_environment(api: Api) -> None:
    outsider, organization, environment = await api.outsider()
    listed = accepted(await outsider.get(f"organizations/{organization}/services"))
    assert [(row["name"], row["typeId"]) for row in listed] == [
        ("Default credentials service", "builtin:cobalt_secure_store"),
        ("Default workflow service", "builtin:workflow_service"),
    ]
    assert accepted(await outsider.get(f"environments/{environment}/services")) == {"services": listed}
    for row in listed:
        assert set(row) == {"id", "name", "typeId"}
        assert (await shown(outsider, row["id"]))["organizationId"] == organization


async def test_service_types_tell_what_they_take_and_do(api: Api) -> None:
    types = {kind["id"]: kind for kind in accepted(await api.get(f"organizations/{api.organization}/serviceTypes"))}
    assert len([type_id for type_id in types if type_id.startswith("builtin:")]) == 10
    oracle = types["test:oracle"]
    assert set(oracle) == {"id", "name", "interfaces", "parameters", "commands"}
    assert oracle["interfaces"] == ["oracle"]
    [place, riddle, *_] = oracle["parameters"]
    assert place == {"name": "place", "type": "string", "required": True, "secret": False, "description": "Where."}
    assert (riddle["name"], riddle["secret"]) == ("riddle", True)
    [ask, _] = oracle["commands"]
    assert (ask["name"], ask["interface"]) == ("ask", "oracle")
    assert [(entry["name"], entry["type"]) for entry in ask["arguments"]][2] == ("to", "list<string>")
    assert (ask["intermediate"], ask["results"]) == (
        [{"name": "murmur", "type": "string"}],
        [{"name": "answer", "type": "object"}],
    )


async def test_a_cloud_account_is_tried_region_by_region(api: Api) -> None:
    parameters = ACCOUNT | {
        "configuration.endpoint-url": "https://127.0.0.1:9/",
        "configuration.legacy-regions": "a, b",
    }
    account = await make(api, "builtin:cloud_account", parameters)
    answer = accepted(await api.post(f"services/{account}/check", {"includeIntermediate": True}))
    assert [look["region"] for look in answer[:-1]] == ["a", "b"]
    assert answer[-1] == {"works": False, "regions": answer[:-1]}
    assert "is refused: it is a loopback address" in answer[0]["problem"]
    other = await make(api, "builtin:cloud_account", ACCOUNT | {"configuration.provider": "rackspace"})
    [final] = accepted(await api.post(f"services/{other}/check", {}))
    assert "rackspace" in final["regions"][0]["problem"]


async def test_the_credentials_service_names_the_key_pair_that_it_does_not_have(api: Api) -> None:
    services = accepted(await api.get(f"organizations/{api.organization}/services"))
    [store] = [row["id"] for row in services if row["name"] == "Default credentials service"]
    told = by_field(await api.post(f"services/{store}/get-keypair", {"arguments": {"id": "web"}}), 409)
    assert "no key pair 'web'" in str(told)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"name": " "}, "InvalidName", "1 to 255 characters"),
        ({"name": None}, "WrongField", "name"),
        ({"typeId": "builtin:nothing"}, "UnknownServiceType", "builtin:cloud_account"),
        ({"typeId": 5}, "WrongField", "typeId"),
        ({"zoneId": UNKNOWN}, "UnknownId", "Zones: "),
        ({"zoneId": ""}, "UnknownId", "Zones: "),
        ({"parameters": {}}, "InvalidParameters", "configuration.credential: This parameter is required"),
        ({"parameters": ACCOUNT | {"x": 1}}, "InvalidParameters", "x: Unknown parameter"),
        ({"parameters": ACCOUNT | {"configuration.provider": "A B"}}, "InvalidParameters", "lower-case letters"),
        ({"parameters": ACCOUNT | {"configuration.identity": " "}}, "InvalidParameters", "must not be empty"),
        ({"parameters": ACCOUNT | {"configuration.endpoint-url": "ftp://a"}}, "InvalidParameters", "https://cloud"),
        ({"parameters": ACCOUNT | {"configuration.endpoint-url": "http://a:99999"}}, "InvalidParameters", "https://"),
        ({"parameters": ACCOUNT | {"configuration.endpoint-url": "http://[a"}}, "InvalidParameters", "https://"),
        ({"parameters": ACCOUNT | {"configuration.endpoint-url": "http://u:p@a"}}, "InvalidParameters", "https://"),
        ({"parameters": ACCOUNT | {"configuration.credential": ["hunter2"]}}, "InvalidParameters", "Expected a string"),
        ({"parameters": ACCOUNT | {"configuration.credential": MASK}}, "InvalidParameters", "Send the secret itself"),
        ({"parameters": []}, "WrongField", "parameters"),
    ],
)
async def test_a_service_that_cannot_be_is_400(api: Api, change: dict[str, Any], code: str, says: str) -> None:
    path = f"organizations/{api.organization}/services"
    before = accepted(await api.get(path))
    body = {"name": "Cloud", "typeId": "builtin:cloud_account", "parameters": ACCOUNT} | change
    sentence = refused(await api.post(path, body), 400, code)
    assert says in sentence
    assert "hunter2" not in sentence
    assert accepted(await api.get(path)) == before


async def test_secrets_are_masked_for_everybody_and_sealed_at_rest(api: Api) -> None:
    service = await make(api, "builtin:cloud_account", ACCOUNT)
    reader = await api.member("Read: [/*]")
    for caller in (api, reader):
        answer = await caller.get(f"services/{service}")
        assert accepted(answer)["parameters"] == ACCOUNT | {"configuration.credential": MASK}
        assert "hunter2" not in answer.text
    assert "hunter2" not in (await api.get(f"organizations/{api.organization}/services")).text
    async with api.database.connection() as connection:
        for table in ("services", "service_secrets"):
            rows = await (await connection.execute(f"SELECT * FROM {table}".encode())).fetchall()
            assert rows
            assert "hunter2" not in str(rows)


async def test_a_secret_reaches_the_services_own_commands_and_nothing_else(api: Api) -> None:
    secret = {"riddle": "hard", "keys": {"b": [1], "a": None}}
    service = await make(api, "test:oracle", {"place": "Delphi", **secret})
    [revealed] = accepted(await api.post(f"services/{service}/reveal"))
    assert revealed == {"parameters": {"place": "Delphi", **secret}}
    other = await make(api, "test:oracle", {"place": "Delphi"})
    async with api.database.transaction() as connection:  # a sealed value copied to another service opens nowhere
        await connection.execute(
            "INSERT INTO service_secrets SELECT %s, name, sealed FROM service_secrets WHERE service_id = %s",
            [other, service],
        )
    answer = await api.post(f"services/{other}/reveal")
    assert answer.status_code == 503
    assert "cannot be opened with this server's secret key" in answer.json()["errors"][0]


async def test_an_update_answers_the_service_and_leaves_what_it_does_not_name(api: Api) -> None:
    service = await make(api, "builtin:cloud_account", ACCOUNT, name="Cloud")
    before = await shown(api, service)
    renamed = accepted(await api.put(f"services/{service}", {"name": " Sky "}))
    assert renamed == before | {"name": "Sky"}
    changed = {"configuration.identity": "other", "configuration.endpoint-url": None}
    updated = accepted(await api.put(f"services/{service}", {"parameters": changed}))
    assert updated == await shown(api, service)
    assert updated["name"] == "Sky"
    assert updated["parameters"] == {
        "configuration.provider": "aws-ec2",
        "configuration.identity": "other",
        "configuration.credential": MASK,
    }
    assert accepted(await api.put(f"services/{service}", {})) == updated
    assert accepted(await api.put(f"services/{service}", {"name": None, "parameters": None})) == updated


async def test_what_was_read_can_be_written_back_without_losing_a_secret(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi", "riddle": "hard", "keys": [1]})
    parameters = (await shown(api, service))["parameters"]
    assert parameters == {"place": "Delphi", "riddle": MASK, "keys": MASK}
    updated = accepted(await api.put(f"services/{service}", {"parameters": parameters | {"keys": [2]}}))
    assert updated["parameters"] == parameters
    [revealed] = accepted(await api.post(f"services/{service}/reveal"))
    assert revealed["parameters"] == {"place": "Delphi", "riddle": "hard", "keys": [2]}
    accepted(await api.put(f"services/{service}", {"parameters": {"riddle": None}}))
    [revealed] = accepted(await api.post(f"services/{service}/reveal"))
    assert revealed["parameters"] == {"place": "Delphi", "keys": [2]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"typeId": "builtin:cloud_account"}, "typeId"),
        ({"id": UNKNOWN}, "id"),
        ({"status": {"name": "Ready", "pending": False}}, "status"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": 5}, "name"),
        ({"parameters": []}, "parameters"),
        ({"parameters": {"place": "Rome"}}, "place"),
        ({"parameters": {"place": None}}, "place"),
        ({"parameters": {"hours": ["x"]}}, "hours"),
        ({"parameters": {"nowhere": 1}}, "nowhere"),
        ([], "errors"),
    ],
)
async def test_a_wrong_update_is_400_by_field_and_changes_nothing(api: Api, body: Any, field: str) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    before = await shown(api, service)
    assert list(by_field(await api.put(f"services/{service}", body))) == [field]
    assert await shown(api, service) == before


async def test_a_wrong_update_names_every_field_at_once(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    body = {"name": " ", "parameters": {"hours": 1, "nowhere": 2}}
    assert set(by_field(await api.put(f"services/{service}", body))) == {"name", "hours", "nowhere"}


async def test_other_refusals_of_update_and_command_have_the_form_of_fields_too(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    reader = await api.member("Read: [/*]")
    for method, path, body in (("PUT", "", b"{}"), ("POST", "/ask", b"{}")):
        json = {"content_type": "application/json"}
        assert list(by_field(await reader.send(method, f"services/{service}{path}", body, **json), 403)) == ["errors"]
        assert list(by_field(await api.send(method, f"services/{UNKNOWN}{path}", body, **json), 404)) == ["errors"]
        assert list(by_field(await api.send(method, f"services/{service}{path}", b"{", **json), 400)) == ["errors"]
        assert list(by_field(await api.send(method, f"services/{service}{path}", body), 400)) == ["errors"]
        anybody = api.caller(None)
        assert list(by_field(await anybody.send(method, f"services/{service}{path}", body, **json), 401)) == ["errors"]


async def test_updates_at_the_same_moment_lose_nothing(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    changes: list[dict[str, Any]] = [{"hours": [1]}, {"riddle": "hard"}, {"keys": 1}, {"place": "Dodona"}]
    answers = await asyncio.gather(*(api.put(f"services/{service}", {"parameters": change}) for change in changes))
    assert {answer.status_code for answer in answers} == {200}
    [revealed] = accepted(await api.post(f"services/{service}/reveal"))
    assert revealed["parameters"] == {"hours": [1], "riddle": "hard", "keys": 1, "place": "Dodona"}


async def test_a_command_answers_one_result_or_with_intermediate_ones_the_final_one_last(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    path, arguments = f"services/{service}/ask", {"question": "?", "to": ["a"]}
    final = {"answer": arguments}
    assert accepted(await api.post(path, {"arguments": arguments})) == [final]
    assert accepted(await api.post(path, {"arguments": arguments, "includeIntermediate": False})) == [final]
    everything = accepted(await api.post(path, {"arguments": arguments, "includeIntermediate": True}))
    assert everything == [{"murmur": "hm"}, {"murmur": "well"}, final]
    silent = accepted(await api.post(f"services/{service}/reveal", {"includeIntermediate": True}))
    assert silent == [{}, {"parameters": {"place": "Delphi"}}]


@pytest.mark.parametrize(
    ("command", "body", "field"),
    [
        ("ask", {}, "question"),
        ("ask", {"arguments": None}, "question"),
        ("ask", {"arguments": {"question": None}}, "question"),
        ("ask", {"arguments": {"question": "?", "aloud": "maybe"}}, "aloud"),
        ("ask", {"arguments": {"question": "?", "why": 1}}, "why"),
        ("ask", {"arguments": []}, "arguments"),
        ("ask", {"arguments": {"question": "?"}, "includeIntermediate": "yes"}, "includeIntermediate"),
        ("nothing", {}, "commandname"),
        ("check", {}, "commandname"),
        ("%00", {}, None),
        ("a%2Fb", {}, "commandname"),
    ],
)
async def test_a_wrong_command_is_refused_by_field(api: Api, command: str, body: Any, field: str | None) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    answer = await api.post(f"services/{service}/{command}", body)
    if field is None:
        refused(answer, 404)
    else:
        assert list(by_field(answer)) == [field]


async def test_an_unknown_command_names_those_that_there_are(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    assert "Commands: ask, reveal." in by_field(await api.post(f"services/{service}/x", {}))["commandname"][0]
    [workflows] = [
        row["id"]
        for row in accepted(await api.get(f"organizations/{api.organization}/services"))
        if row["typeId"] == "builtin:workflow_service"
    ]
    assert "Commands: none." in by_field(await api.post(f"services/{workflows}/ask", {}))["commandname"][0]


async def test_a_service_whose_package_is_gone_can_be_read_renamed_and_deleted(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi", "riddle": "hard"})
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE services SET type_id = 'gone:oracle' WHERE id = %s", [service])
    document = await shown(api, service)
    assert (document["typeName"], document["interfaces"]) == ("gone:oracle", [])
    assert document["parameters"] == {"place": "Delphi", "riddle": MASK}
    assert accepted(await api.put(f"services/{service}", {"name": "old"}))["name"] == "old"
    problem = by_field(await api.put(f"services/{service}", {"parameters": {"place": "Dodona"}}))
    assert "is not installed" in problem["errors"][0]
    by_field(await api.post(f"services/{service}/ask", {}))
    accepted(await api.delete(f"services/{service}"))


async def test_a_deleted_service_is_offered_nowhere(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    accepted(await api.put(f"environments/{environment}/services", {"services": [service]}))
    assert accepted(await api.delete(f"services/{service}")) == {}
    assert accepted(await api.get(f"environments/{environment}/services")) == {"services": []}
    refused(await api.get(f"services/{service}"), 404, "NotFound")
    refused(await api.delete(f"services/{service}"), 404, "NotFound")


async def test_an_environment_offers_exactly_the_services_it_is_told(api: Api) -> None:
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    inherited = accepted(await api.get(f"environments/{environment}/services"))["services"]
    assert len(inherited) == 2
    a, b = [await make(api, "test:oracle", {"place": "Delphi"}, name=name) for name in ("B", "A")]
    assert accepted(await api.put(f"environments/{environment}/services", {"services": [a, b, a]})) == {}
    offered = accepted(await api.get(f"environments/{environment}/services"))
    assert offered == {
        "services": [
            {"id": b, "name": "A", "typeId": "test:oracle"},
            {"id": a, "name": "B", "typeId": "test:oracle"},
        ]
    }
    accepted(await api.put(f"environments/{environment}/services", {"services": []}))
    assert accepted(await api.get(f"environments/{environment}/services")) == {"services": []}


async def test_an_environment_offers_no_service_that_is_not_of_its_organization(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    foreign = accepted(await outsider.get(f"organizations/{organization}/services"))[0]["id"]
    own = await make(api, "test:oracle", {"place": "Delphi"})
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    path = f"environments/{environment}/services"
    before = accepted(await api.get(path))
    for wrong in (foreign, UNKNOWN, "x", "x" * 100_000):
        refused(await api.put(path, {"services": [own, wrong]}), 400, "UnknownId")
    refused(await api.put(path, {"services": [5]}), 400, "WrongField")
    refused(await api.put(path, {}), 400, "WrongField")
    assert accepted(await api.get(path)) == before


async def test_offering_a_service_needs_permission_for_both(api: Api) -> None:
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    a, b = [await make(api, "test:oracle", {"place": "Delphi"}) for _ in range(2)]
    accepted(await api.put(f"environments/{environment}/services", {"services": [b]}))
    editor = await api.member(f"EditEnvironment: [/environments/*, /services/{a}]")
    path = f"environments/{environment}/services"
    refused(await editor.put(path, {"services": [a]}), 403, "NotAllowed")  # b would go
    accepted(await editor.put(path, {"services": [a, b]}))
    accepted(await editor.put(path, {"services": [b]}))


async def test_nobody_does_what_they_may_not(api: Api) -> None:
    service = await make(api, "test:oracle", {"place": "Delphi"})
    outsider, _, _ = await api.outsider()
    reader = await api.member("Read: [/*]")
    listing = f"organizations/{api.organization}/services"
    new = {"name": "n", "typeId": "test:oracle", "parameters": {"place": "Delphi"}}
    assert service in {row["id"] for row in accepted(await reader.get(listing))}
    for caller in (reader, outsider):
        refused(await caller.post(listing, new), 403, "NotAllowed")
        refused(await caller.delete(f"services/{service}"), 403, "NotAllowed")
        by_field(await caller.put(f"services/{service}", {"name": "n"}), 403)
        by_field(await caller.post(f"services/{service}/reveal", {}), 403)
    for path in (listing, f"services/{service}", listing[:-8] + "zones", listing[:-8] + "serviceTypes"):
        refused(await outsider.get(path), 403, "NotAllowed")
    blind = await api.member("CreateApplication: [/*]")
    assert accepted(await blind.get(listing)) == []
    for permission, method, path in (
        ("EditService", "PUT", ""),
        ("RunServiceCommand", "POST", "/reveal"),
        ("EditService", "DELETE", ""),
    ):
        allowed = await api.member(f"{permission}: [/services/{service}]")
        answer = await allowed.send(method, f"services/{service}{path}", b"{}", content_type="application/json")
        assert answer.status_code == 200, answer.text


async def test_a_secret_is_not_kept_for_another_address(api: Api) -> None:
    secret = "configuration.secret-id"
    parameters = {
        "configuration.address": "https://bao.example.org",
        "configuration.sign-in": "approle",
        "configuration.role-id": "shop",
        secret: "sealed for the first address",
    }
    body = {"name": fresh_name("bao"), "typeId": "builtin:openbao", "parameters": parameters}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    path = f"services/{service}"
    editor = await api.member("Read: [/services/*]", "EditService: [/services/*]")
    moved = {"configuration.address": "https://collector.example.org"}
    for given in (
        moved,
        {**moved, secret: MASK},
        {**moved, "configuration.sign-in": "jwt", "configuration.role": "x"},
    ):
        answer = await editor.put(path, {"parameters": given})
        assert answer.status_code == 400, answer.text
        assert "enter this secret again" in answer.json()[secret][0]
    assert accepted(await editor.get(path))["parameters"]["configuration.address"] == "https://bao.example.org"
    accepted(await editor.put(path, {"parameters": {"configuration.role-id": "other"}}))
    accepted(await editor.put(path, {"parameters": {**moved, secret: "for the second address"}}))
    without = {"configuration.address": "https://third.example.org", "configuration.sign-in": "jwt", secret: None}
    accepted(await editor.put(path, {"parameters": {**without, "configuration.role": "x"}}))


async def test_what_is_changed_while_a_secret_is_missing_is_checked_all_the_same(api: Api) -> None:
    vault = await made_vault(api)
    await told(api, vault, "set-secret", name="credential", value="Lantern")
    cloud = {"configuration.provider": "aws-ec2", "configuration.identity": "harbor"}
    wanted = {"configuration.credential": {"fromVault": "credential", "vault": vault}}
    service = await make(api, "builtin:cloud_account", {**cloud, **wanted})
    await told(api, vault, "delete-secret", name="credential")
    path, url = f"services/{service}", "configuration.endpoint-url"
    for given, name in (({url: "no url"}, url), ({"configuration.provider": "No Name"}, "configuration.provider")):
        fields = by_field(await api.put(path, {"parameters": given}))
        assert [*fields] == [name]
    assert "Lantern" not in str(fields)
    accepted(await api.put(path, {"parameters": {url: "https://cloud.example.org", "configuration.identity": "quay"}}))
    assert (await shown(api, service))["parameters"]["configuration.identity"] == "quay"


async def test_tokens_of_jobs_go_elsewhere_only_if_the_environments_that_offer_the_service_may_be_edited(
    api: Api,
) -> None:
    parameters = {"configuration.address": "https://bao.example.org", "configuration.role": "shop"}
    body = {"name": fresh_name("bao"), "typeId": "builtin:openbao", "parameters": parameters}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    offers = {"name": fresh_name("lab"), "backend": "COMODIT", "isDefault": False}
    environment = accepted(await api.post(f"organizations/{api.organization}/environments", offers))["id"]
    accepted(await api.put(f"environments/{environment}/services", {"services": [service]}))
    moved = {"parameters": {"configuration.address": "https://collector.example.org"}}
    editor = await api.member("Read: [/services/*]", "EditService: [/services/*]")
    answer = await editor.put(f"services/{service}", moved)
    assert answer.status_code == 403
    assert "EditEnvironment" in answer.text
    accepted(await editor.put(f"services/{service}", {"parameters": {"configuration.role": "other"}}))
    both = await api.member("EditService: [/services/*]", f"EditEnvironment: [/environments/{environment}]")
    accepted(await both.put(f"services/{service}", moved))


async def test_a_cloud_account_has_a_role_or_a_key(api: Api) -> None:
    role = "arn:aws:iam::123456789012:role/launchbay"
    path = f"organizations/{api.organization}/services"

    async def changed(service: str, **parameters: str | None) -> httpx.Response:
        given = {f"configuration.{name}": value for name, value in parameters.items()}
        return await api.put(f"services/{service}", {"parameters": given})

    given = {"configuration.provider": "aws-ec2", "configuration.role": role}
    body = {"name": fresh_name("account"), "typeId": "builtin:cloud_account", "parameters": given}
    service = accepted(await api.post(path, body))["id"]
    assert "This must be the ARN of a role" in (await changed(service, role="launchbay")).text
    assert "Use either a role" in (await changed(service, identity="AKIA", credential="of-the-account")).text
    assert '"configuration.identity":["This parameter is required."]' in (await changed(service, role=None)).text
    accepted(await changed(service, role=None, identity="AKIA", credential="of-the-account"))
    accepted(await changed(service, role=role, identity=None, credential=None))
    assert accepted(await api.get(f"services/{service}"))["parameters"] == given
