"""A service whose environment works on real hosts, for tests of the API."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.api.running import Api, accepted, fresh_name, running_api
from tests.api.vaults import TYPE as VAULT
from tests.api.vaults import told
from tests.machines.hosts import LOGIN, Hosts

POOL = "builtin:static_resource_pool"


@dataclass
class Fleet:
    """The service, and the hosts that its default environment reaches: by `staticIps`, and through a pool."""

    api: Api
    hosts: Hosts
    pool: str

    async def held(self) -> set[str]:
        """Return the addresses of the pool that somebody holds."""
        listed = await told(self.api, self.pool, "list")
        return {entry["id"] for entry in listed["resources"] if entry["holder"]}

    async def log(self, instance: str) -> list[str]:
        """Return the texts of the instance's log."""
        return [line["text"] for line in accepted(await self.api.get(f"instances/{instance}/log"))]


@asynccontextmanager
async def running_fleet(
    database_url: str, hosts: Hosts, policies: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Fleet]:
    """Start a service with a vault that has the hosts' key, and a pool of the hosts."""
    chosen = {"machines": "static", "outgoing_allow": "127.0.0.0/8", **settings}
    async with running_api(database_url, **chosen) as api:
        services = f"organizations/{api.organization}/services"
        vault = accepted(await api.post(services, {"name": fresh_name("vault"), "typeId": VAULT}))["id"]
        await told(api, vault, "import-keypair", name="deploy", privateKey=hosts.private_key)
        places = {host.address: {"address": host.address, "user": LOGIN} for host in hosts.hosts}
        resources = {"configuration.resources": places}
        made = await api.post(services, {"name": fresh_name("pool"), "typeId": POOL, "parameters": resources})
        pool = accepted(made)["id"]
        offered = accepted(await api.get(f"environments/{api.environment}/services"))["services"]
        ids = [*(row["id"] for row in offered if row["typeId"] != VAULT), vault, pool]
        accepted(await api.put(f"environments/{api.environment}/services", {"services": ids}))
        stated = {"machines.login": LOGIN, "machines.ssh-port": hosts[0].port, **(policies or {})}
        text = "policies:\n" + "".join(f"  {name}: {value}\n" for name, value in stated.items())
        accepted(await api.put_yaml(f"environments/{api.environment}", text))
        yield Fleet(api, hosts, pool)


async def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for something outside of the service."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)
