"""The password of sudo comes from a provider: each attempt reads it once, for all of its machines."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.databases import Databases
from tests.support.machines import Hosts, needs_sshd, needs_sudo
from tests.support.service import accepted
from tests.support.services import Fleet, running_fleet

pytestmark = [needs_sshd, needs_sudo]
RUN = """
launch: {steps: []}
run:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}}
    - look:
        action: execrun
        precedingPhases: [hosts]
        parameters: {roles: [web], command: [id -un], isSudo: true}
        output: {names: stdout}
  return: {names: {value: "{$.names}"}}
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=41) as started:
        yield started


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mount")


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts, mount: Path) -> AsyncIterator[Fleet]:
    url = databases.create()
    policies = {"machines.sudo-password": "files/sudo"}
    async with running_fleet(url, hosts, policies, secret_directories=f"{mount}@*") as fleet:
        api = fleet.api
        parameters = {"configuration.directory": str(mount)}
        body = {"name": "files", "typeId": "builtin:server_files", "parameters": parameters}
        service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
        path = f"environments/{api.environment}/services"
        offered = [each["id"] for each in accepted(await api.get(path))["services"]]
        accepted(await api.put(path, {"services": [*offered, service]}))
        yield fleet
    databases.drop(url)


async def test_sudo_gets_the_password_of_a_provider(fleet: Fleet, mount: Path) -> None:
    addresses = ", ".join(f'"{host.address}"' for host in fleet.hosts.hosts)
    instance = await fleet.api.running(RUN.replace("HOSTS", addresses))
    document = await fleet.api.run(instance, "run")
    assert "The secret provider 'files' has no file 'sudo' on this server." in document["errorMessage"]
    (mount / "sudo").write_text("canary-6614-of-sudo\n")
    job = await fleet.api.ran(instance, "run")
    assert job["status"] == "Succeeded", job
    names = (await fleet.api.document(instance))["returnValues"]["names"]
    assert names == {host.address: "root" for host in fleet.hosts.hosts}
    lines = [line["text"] for line in accepted(await fleet.api.get(f"instances/{instance}/log"))]
    # Once for both, and masked, because of the name of the policy.
    assert [line for line in lines if line.startswith("The step read")] == ["The step read ********."]
    assert not any("canary-6614" in line for line in lines)
