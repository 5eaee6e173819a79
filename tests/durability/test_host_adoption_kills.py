"""kill -9 while hosts are adopted: an instance has them, or nobody does, and nothing runs on them."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.machines import LOGIN, Host, Hosts, needs_sshd
from tests.support.servers import Process, administrator_of, fault_directory
from tests.support.service import YAML

pytestmark = [pytest.mark.faults, pytest.mark.slow, needs_sshd]
SETTINGS = {"LAUNCHBAY_MACHINES": "static", "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.0/8"}


class Bench:
    """A server, and a host on which a launch would leave a mark."""

    def __init__(self, server: Process, hosts: Hosts) -> None:
        self.server = server
        self.hosts = hosts
        self.host = hosts[0]
        self.mark = self.host.work / "launched"

    async def application(self, client: httpx.AsyncClient) -> str:
        [organization] = (await client.get("organizations")).json()
        place = f"organizations/{organization['id']}"
        [environment] = (await client.get(f"{place}/environments")).json()
        at = f"environments/{environment['id']}"
        keys = await _sent(client, "POST", f"{place}/services", {"name": "k", "typeId": "builtin:cobalt_secure_store"})
        await _sent(client, "PUT", f"{at}/services", {"services": [keys["id"]]})
        key = {"arguments": {"name": "deploy", "privateKey": self.hosts.private_key}}
        await _sent(client, "POST", f"services/{keys['id']}/import-keypair", key)
        await _sent(client, "PUT", f"{at}/audiences", {"audiences": ["vault"]})
        policies = f"policies: {{machines.login: {LOGIN}}}\n"
        (await client.put(at, content=policies, headers=YAML)).raise_for_status()
        made = await _sent(client, "POST", f"{place}/applications", {"name": "shop"})
        path = f"applications/{made['id']}"
        (await client.put(f"{path}/manifest", content=self._manifest(), headers=YAML)).raise_for_status()
        return path

    def _manifest(self) -> str:
        parameters = {"roleName": "web", "staticIps": [self.host.static_ip]}
        run = {"roles": ["web"], "command": [f"touch {self.mark}"]}
        steps = [
            {"hosts": {"action": "provisionVms", "parameters": parameters}},
            {"run": {"action": "execrun", "precedingPhases": ["hosts"], "parameters": run}},
        ]
        workflows = {"launch": {"steps": steps}, "destroy": {"steps": []}}
        component = {"type": "workflow.Instance", "configuration": {"configuration.workflows": workflows}}
        return json.dumps({"application": {"components": {"web": component}}})

    @staticmethod
    async def adopt(client: httpx.AsyncClient, path: str) -> Any:
        return await _sent(client, "POST", f"{path}/adoptions", {"hosts": [{"component": "web"}]})


async def _sent(client: httpx.AsyncClient, method: str, path: str, body: Any) -> Any:
    answer = await client.request(method, path, json=body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


@asynccontextmanager
async def silent(host: Host) -> AsyncIterator[socket.socket]:
    """Let a host accept connections and say nothing."""
    host.stop()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address = host.address, host.port
        await eventually(partial(listening.bind, address), lambda _: True, despite=OSError)  # its processes are ending
        listening.listen()
        yield listening
    host.start()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        hosts = stack.enter_context(Hosts.start(1, network=33))
        directory = stack.enter_context(fault_directory())
        command = ["serve", "--port", "0", "--data-dir", str(directory / "data")]
        server = Process(command, directory, settings=SETTINGS)
        server.start()
        stack.callback(server.end)
        yield Bench(server, hosts)


async def test_a_server_that_is_killed_while_it_reaches_a_host_leaves_nothing(bench: Bench) -> None:
    async with silent(bench.host) as listening, administrator_of(bench.server) as client:
        path = await bench.application(client)
        asking = asyncio.create_task(bench.adopt(client, path))
        connection, _ = await asyncio.wait_for(asyncio.to_thread(listening.accept), 30)
        bench.server.kill()
        await asyncio.wait({asking})
        assert asking.exception() is not None
        connection.close()
    bench.server.start()

    async with administrator_of(bench.server) as client:
        assert (await client.get(f"{path}/instances")).json() == []
        made = await bench.adopt(client, path)
        [listed] = (await client.get(f"{path}/instances")).json()
    assert listed["id"] == made["instanceId"]
    assert not bench.mark.exists()


async def test_what_was_answered_is_there_after_a_kill_and_is_still_only_forgotten(bench: Bench) -> None:
    async with administrator_of(bench.server) as client:
        path = await bench.application(client)
        made = await bench.adopt(client, path)
        bench.server.kill()
    bench.server.start()

    instance = f"instances/{made['instanceId']}"
    async with administrator_of(bench.server) as client:
        found = (await client.get(f"{instance}/adoption")).json()
        assert (found["managed"], found["hosts"]) == ("observe", made["hosts"])
        (await client.post(f"{instance}/destroy", json={})).raise_for_status()
        await eventually(lambda: client.get(instance), lambda found: found.json()["status"] == "Destroyed", within_s=40)
    assert not bench.mark.exists()
