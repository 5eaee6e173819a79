"""Vaults and parameters of services stand for secrets of providers, which are read when a step needs them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.service_types import registry
from tests.support.canaries import stored_texts
from tests.support.databases import Databases
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api
from tests.support.services import Beacon

CANARY = "canary-6701-of-a-reference"
MANIFEST = """
application:
  interfaces:
    result: {seen: bind(main#result.seen)}
    actions: {send: bind(main#actions.send), light: bind(main#actions.light)}
  bindings: [[main, vault], [main, beacon]]
  components:
    vault:
      type: reference.Service
      interfaces: {secret-store: {get-secret: receive-command(string name => string value)}}
    beacon:
      type: reference.Service
      interfaces: {beacon: {light: receive-command(=> string glow => string seen)}}
    main:
      type: workflow.Instance
      required: [vault, beacon]
      interfaces:
        vault: {get-secret: send-command(string name => string value)}
        beacon: {light: send-command(=> string glow => string seen)}
        result: {seen: publish-signal(string)}
        actions: {send: "receive-command(string url, string wanted)", light: receive-command()}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          send:
            parameters: [url: {default: ""}, wanted: {default: ""}]
            steps:
              - get: {action: vault.get-secret, parameters: {name: "{$.wanted}"}, output: {password: value}}
              - send:
                  action: restcall
                  precedingPhases: [get]
                  parameters: {command: "{$.url}", headers: {X-Password: "{$.password}"}}
                  output: {said: content}
            return: {seen: {value: "{$.said}"}}
          light:
            steps: [{light: {action: beacon.light, output: {seen: seen}}}]
            return: {seen: {value: "{$.seen}"}}
"""


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mount")
    (found / "password").write_text(CANARY)
    (found / "keys").write_text('{"a": {"b": "c"}}')
    return found


@pytest.fixture(scope="module")
async def api(databases: Databases, mount: Path) -> AsyncIterator[Api]:
    """A service whose environment offers files, a vault and a beacon whose code is a file."""
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, Beacon()))
        async with running_api(url, outgoing_allow="127.0.0.1", secret_directories=f"{mount}@*") as api:
            directory = {"configuration.directory": str(mount)}
            made = [
                await service(api, "files", "builtin:server_files", directory),
                await service(api, "keys", "builtin:cobalt_secure_store", {}),
                await service(
                    api, "beacon", "test:beacon", {"place": "north", "code": {"fromVault": "files/password"}}
                ),
            ]
            accepted(await api.put(f"environments/{api.environment}/services", {"services": made}))
            yield api
    databases.drop(url)


@pytest.fixture
async def receiver() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/"] = answer(200, CANARY.encode(), [("Content-Type", "text/plain")])
        yield server


async def service(api: Api, name: str, kind: str, parameters: dict[str, Any]) -> str:
    body = {"name": name, "typeId": kind, "parameters": parameters}
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


async def test_get_secret_reads_what_no_vault_has_from_a_provider(api: Api, receiver: LoopbackServer) -> None:
    instance = await api.running(MANIFEST)
    job = await api.ran(instance, "actions.send", url=receiver.url(), wanted="files/password")
    assert job["status"] == "Succeeded", job
    assert receiver.received[-1].headers["x-password"] == CANARY
    for path in (f"instances/{instance}", f"instances/{instance}/log", f"jobs/{job['id']}"):
        assert CANARY not in (await api.get(path)).text
    assert CANARY not in await stored_texts(api.database)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("files/none", "has no file 'none'"),
        ("files/keys#a", "isn't a string"),
        ("others/password", "no secret provider with the name 'others'"),
        ("nothing", "The vault has no secret 'nothing'"),
    ],
)
async def test_get_secret_says_why_it_has_none(api: Api, receiver: LoopbackServer, secret: str, said: str) -> None:
    document = await api.run(await api.running(MANIFEST), "actions.send", url=receiver.url(), wanted=secret)
    assert said in document["errorMessage"]
    assert receiver.received == []


async def test_a_parameter_is_read_from_a_provider_when_a_job_uses_the_service(api: Api, mount: Path) -> None:
    instance = await api.running(MANIFEST)
    for text in (CANARY, f"{CANARY}-changed"):
        (mount / "password").write_text(text)
        await api.ran(instance, "actions.light")
        assert (await api.document(instance))["returnValues"]["result.seen"] == f"north {len(text)}"
        assert CANARY not in await stored_texts(api.database)
    (mount / "password").write_text(CANARY)


async def test_only_jobs_can_use_such_a_parameter(api: Api) -> None:
    services = accepted(await api.get(f"organizations/{api.organization}/services"))
    [beacon] = [each["id"] for each in services if each["name"] == "beacon"]
    answer = await api.post(f"services/{beacon}/light", {})
    assert (answer.status_code, "Only jobs read secrets of providers" in answer.text) == (409, True)
    accepted(await api.put(f"services/{beacon}", {"parameters": {"place": "south"}}))
    assert accepted(await api.get(f"services/{beacon}"))["parameters"] == {"place": "south", "code": "********"}
    accepted(await api.put(f"services/{beacon}", {"parameters": {"place": "north"}}))


async def test_a_parameter_stands_for_secrets_of_providers_that_are_there_and_allowed(api: Api) -> None:
    services = accepted(await api.get(f"organizations/{api.organization}/services"))
    [beacon] = [each["id"] for each in services if each["name"] == "beacon"]
    answer = await api.put(f"services/{beacon}", {"parameters": {"code": {"fromVault": "others/password"}}})
    assert (answer.status_code, "no provider of secrets is named 'others'" in answer.text) == (400, True)
    editor = await api.member(f"EditService: [/services/{beacon}]", "Read: [/*]")
    answer = await editor.put(f"services/{beacon}", {"parameters": {"code": {"fromVault": "files/password"}}})
    assert (answer.status_code, "RunServiceCommand" in answer.text) == (403, True)


@pytest.mark.features("directories")
async def test_a_directory_holds_the_reference(api: Api) -> None:
    text = (await api.get(f"organizations/{api.organization}/archive")).text
    assert "files/password" in text
    assert CANARY not in text
