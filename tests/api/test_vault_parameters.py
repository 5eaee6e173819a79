"""Secret parameters of services may stand for secrets of a vault."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.service_types import registry
from tests.support.databases import Databases
from tests.support.service import UNKNOWN, Api, accepted, fresh_name, running_api
from tests.support.services import Oracle, made_vault, told

MASK = "********"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A running service with a type whose command tells its secrets."""
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, Oracle()))
        async with running_api(url) as api:
            yield api
    databases.drop(url)


async def oracle(api: Api, **parameters: Any) -> str:
    body = {"name": fresh_name("oracle"), "typeId": "test:oracle", "parameters": {"place": "Delphi", **parameters}}
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


async def vault_with(api: Api, **secrets: str) -> str:
    vault = await made_vault(api)
    for name, value in secrets.items():
        await told(api, vault, "set-secret", name=name, value=value)
    return vault


async def revealed(api: Api, service: str) -> Any:
    return (await told(api, service, "reveal"))["parameters"]


async def test_a_parameter_has_the_secret_that_the_vault_has_at_each_use(api: Api) -> None:
    vault = await vault_with(api, riddle="first riddle")
    service = await oracle(api, riddle={"fromVault": "riddle"})
    assert (await revealed(api, service))["riddle"] == "first riddle"
    await told(api, vault, "set-secret", name="riddle", value="second riddle")
    assert (await revealed(api, service))["riddle"] == "second riddle"
    assert accepted(await api.get(f"services/{service}"))["parameters"]["riddle"] == MASK
    await told(api, vault, "delete-secret", name="riddle")
    answer = await api.post(f"services/{service}/reveal", {})
    assert (answer.status_code, "secret 'riddle', which its vault doesn't have" in answer.text) == (409, True)


async def test_other_parameters_change_and_the_reference_stays(api: Api) -> None:
    vault = await vault_with(api, other="first riddle")
    service = await oracle(api, riddle={"fromVault": "other", "vault": vault})
    accepted(await api.put(f"services/{service}", {"parameters": {"place": "Dodona", "riddle": MASK}}))
    await told(api, vault, "set-secret", name="other", value="second riddle")
    assert await revealed(api, service) == {"place": "Dodona", "riddle": "second riddle"}
    accepted(await api.put(f"services/{service}", {"parameters": {"riddle": "plain one"}}))
    await told(api, vault, "set-secret", name="other", value="third riddle")
    assert (await revealed(api, service))["riddle"] == "plain one"
    accepted(await api.put(f"services/{service}", {"parameters": {"riddle": {"fromVault": "other"}}}))
    accepted(await api.put(f"services/{service}", {"parameters": {"riddle": None}}))
    assert "riddle" not in await revealed(api, service)


@pytest.mark.parametrize("number", ["1.10", "7", "1e3"])
async def test_the_name_of_a_secret_is_the_text_of_a_number(api: Api, number: str) -> None:
    vault = await vault_with(api, **{number: f"the riddle {number}"})
    service = await oracle(api)
    body = f'{{"parameters": {{"riddle": {{"fromVault": {number}, "vault": "{vault}"}}}}}}'
    accepted(await api.client.put(f"services/{service}", content=body, headers={"content-type": "application/json"}))
    assert (await revealed(api, service))["riddle"] == f"the riddle {number}"


@pytest.mark.parametrize("riddle", [{}, {"riddle": MASK}])
async def test_other_parameters_change_while_a_vault_lacks_the_secret(api: Api, riddle: dict[str, str]) -> None:
    vault = await vault_with(api, later="first riddle")
    service = await oracle(api, riddle={"fromVault": "later", "vault": vault})
    await told(api, vault, "delete-secret", name="later")
    accepted(await api.put(f"services/{service}", {"parameters": {"place": "Dodona", **riddle}}))
    answer = await api.put(f"services/{service}", {"parameters": {"riddle": {"fromVault": "later", "vault": vault}}})
    assert list(answer.json()) == ["riddle"], answer.text
    await told(api, vault, "set-secret", name="later", value="second riddle")
    assert await revealed(api, service) == {"place": "Dodona", "riddle": "second riddle"}


@pytest.mark.features("directories")
async def test_other_parameters_change_while_applied_secrets_are_missing(api: Api) -> None:
    vault, path = fresh_name("vault"), f"organizations/{api.organization}/directory"
    names = [fresh_name("cloud"), fresh_name("cloud")]
    references = [{"configuration.credential": {"fromVault": "aws", "vault": vault}}, {}]
    contents: list[dict[str, Any]] = [{"type": "builtin:cobalt_secure_store"}]
    contents += [
        {
            "type": "builtin:cloud_account",
            "parameters": {"configuration.provider": "aws-ec2", "configuration.identity": "OLD", **reference},
        }
        for reference in references
    ]
    for name, content in zip([vault, *names], contents, strict=True):
        accepted(await api.put(path, {"kind": "service", "name": name, "content": json.dumps(content)}))
    listed = accepted(await api.get(f"organizations/{api.organization}/services"))
    for each in (service["id"] for service in listed if service["name"] in names):
        accepted(await api.put(f"services/{each}", {"parameters": {"configuration.identity": "NEW"}}))
        shown = accepted(await api.get(f"services/{each}"))
        assert shown["parameters"]["configuration.identity"] == "NEW"
        answer = await api.put(f"services/{each}", {"parameters": {"configuration.credential": None}})
        assert list(answer.json()) == ["configuration.credential"], answer.text


@pytest.mark.parametrize(
    ("parameters", "field", "says"),
    [
        ({"riddle": {"fromVault": "nowhere"}}, "riddle", "No vault of the organization has a secret 'nowhere'"),
        ({"riddle": {"fromVault": "bao/secret/shop#key"}}, "riddle", "no provider of secrets is named"),
        ({"riddle": {"fromVault": "twice"}}, "riddle", "name one with `vault`"),
        ({"riddle": {"fromVault": "twice", "vault": UNKNOWN}}, "riddle", "No vault"),
        ({"place": {"fromVault": "twice"}}, "place", "This parameter isn't a secret"),
        ({"riddle": {"fromVault": "twice", "other": 1}}, "riddle", "expected"),
        ({"riddle": {"fromVault": True}}, "riddle", "fromVault must be a string."),
        ({"riddle": {"fromVault": None}}, "riddle", "fromVault must be a string."),
        ({"riddle": {"fromVault": ["twice"]}}, "riddle", "fromVault must be a string."),
        ({"riddle": {"fromVault": "twice", "vault": False}}, "riddle", "vault must be a string."),
    ],
)
async def test_what_stands_for_no_secret_is_refused(
    api: Api, parameters: dict[str, Any], field: str, says: str
) -> None:
    await vault_with(api, twice="a riddle")
    await vault_with(api, twice="a riddle")
    service = await oracle(api)
    answer = await api.put(f"services/{service}", {"parameters": parameters})
    assert answer.status_code == 400, answer.text
    assert list(answer.json()) == [field]
    assert says in answer.text or says == "expected"


async def test_nobody_reads_a_vault_through_a_service_of_theirs(api: Api) -> None:
    vault = await vault_with(api, guarded="the riddle")
    service = await oracle(api)
    editor = await api.member(f"EditService: [/services/{service}]", "Read: [/*]")
    answer = await editor.put(f"services/{service}", {"parameters": {"riddle": {"fromVault": "guarded"}}})
    assert (answer.status_code, "RunServiceCommand" in answer.text) == (403, True)
    outsider, organization, _ = await api.outsider()
    body = {
        "name": "theirs",
        "typeId": "test:oracle",
        "parameters": {"place": "Delphi", "riddle": {"fromVault": "guarded", "vault": vault}},
    }
    answer = await outsider.post(f"organizations/{organization}/services", body)
    assert (answer.status_code, "No vault of the organization" in answer.text) == (400, True)


async def test_nothing_of_the_secret_lies_in_the_service(api: Api) -> None:
    await vault_with(api, hidden="the hidden riddle")
    await oracle(api, riddle={"fromVault": "hidden"})
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT * FROM services")).fetchall()
        rows += await (await connection.execute("SELECT * FROM audit_entries")).fetchall()
    assert "hidden" not in repr(rows)
