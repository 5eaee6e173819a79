"""Plans with prices, stale change sets, adopted things, and secrets that steps have read.

They are made through the API. What a cloud, a cluster or a server of secrets would say is written into the tables.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.service import Api, accepted

Until = Callable[[str, list[Any], int], Awaitable[None]]
_SMALL, _LARGE = ({"hourly": hourly, "currency": "USD"} for hourly in ("0.05", "0.125"))
_PLANNED = [
    {
        "path": "web#grow/machines",
        "component": "web",
        "action": "provisionVms",
        "effects": [
            {"kind": "create", "address": "web: machine 1", "certainty": "estimated", "price": _SMALL},
            {"kind": "create", "address": "web: machine 2", "certainty": "estimated", "price": _LARGE},
            {"kind": "create", "address": "web: machine 3", "note": "A new size.", "price": {}},
            {"kind": "delete", "address": "disk.old", "before": {"size": 7}},
        ],
        "warnings": ["The disk has data."],
    }
]
_HOST = {"role": "web", "address": "192.0.2.7:22", "login": "harbor"}
_RELEASE = {
    "release": "lamp",
    "namespace": "quay",
    "chart": "lamp-1.2.0",
    "appVersion": "9.1",
    "revision": 4,
    "otherValues": {"replicas": 3, "password": "(text)"},
    "otherValueCount": 2,
}


class Planner:
    """Makes them for instances of one organization."""

    def __init__(self, api: Api, connection: Any, until: Until) -> None:
        self.api = api
        self.connection = connection
        self.root = f"organizations/{api.organization}"
        self._until = until

    async def planned(self, instances: list[str]) -> None:
        """Plan changes of instances: one has prices, one failed. Nobody has applied them."""
        body = {"act": "destroy", "ids": instances, "comment": "Three other machines", "plan": True}
        made = accepted(await self.api.post(f"{self.root}/change-sets", body))["id"]
        alone = {"act": "destroy", "instanceId": instances[0]}
        accepted(await self.api.post(f"{self.root}/plans", alone))
        await self._until("SELECT count(*) FROM plans WHERE status = %s", ["Planned"], len(instances) + 1)
        result = json.dumps(_PLANNED)
        priced = "UPDATE plans SET result = %s WHERE change_set_id IS NULL OR change_set_id = %s AND place = 1"
        await self.connection.execute(priced, [result, made])
        failed = "UPDATE plans SET status = 'Failed', result = NULL, digest = NULL, problem = %s WHERE id IN"
        last = "(SELECT id FROM plans WHERE change_set_id = %s AND place <> 1 ORDER BY place DESC LIMIT 1)"
        await self.connection.execute(f"{failed} {last}", ["The cloud can't be reached.", made])

    async def stale(self) -> None:
        """Save the apply of a directory twice, and change by hand what one of them would make."""
        for name in ("Tallyman", "Watchman"):
            body = {"act": "apply", "files": {f"roles/{name}.yaml": "- Read: [/*]\n"}, "comment": f"A {name}"}
            accepted(await self.api.post(f"{self.root}/change-sets", body))
        role = {"name": "Tallyman", "permissions": "- Read: [/environments/*]\n"}
        accepted(await self.api.post(f"{self.root}/roles", role))

    async def adopted(self, instances: list[str]) -> None:
        """Let instances seem to have adopted a state, a release and a host; the last one was taken over."""
        for instance, (action, name, identity, resources, count, about) in zip(
            instances,
            (
                ("opentofu", "default", "a lineage", ["terraform_data.box"], 201, None),
                ("helm", "lamp", "a cluster", ["Deployment/lamp", "Service/lamp"], 2, _RELEASE),
                ("provisionVms", "web", "192.0.2.7", [], 0, _HOST),
            ),
            strict=True,
        ):
            await self.connection.execute(
                "INSERT INTO adoptions (instance_id, organization_id, component, action, name, identity, resources,"
                " resource_count, about, adopted_by)"
                " SELECT id, organization_id, 'web', %s, %s, %s, %s, %s, %s, 'ada@example.com' FROM instances"
                " WHERE id = %s",
                [action, name, identity, json.dumps(resources), count, about and json.dumps(about), instance],
            )
        observed = "UPDATE instances SET is_observed = true WHERE id = ANY (%s)"
        await self.connection.execute(observed, [instances[:-1]])

    async def secrets(self, instances: list[str]) -> None:
        """Let steps have read secrets of a provider, of which one has changed since."""
        kind, parameters = "builtin:server_files", {"configuration.directory": "/run/credentials/harbor"}
        body = {"name": "Harbor safe", "typeId": kind, "parameters": parameters}
        safe = accepted(await self.api.post(f"{self.root}/services", body))["id"]
        for path, version in (("mail", "2"), ("crane#pin", "5"), ("tide", "1")):
            await self.connection.execute(
                "INSERT INTO secret_versions (service_id, path, version, seen_at) VALUES (%s, %s, %s, now())",
                [safe, path.partition("#")[0], version],
            )
            await self.connection.execute(
                "INSERT INTO secret_reads (service_id, instance_id, component, step, secret, job_id, read_at, version)"
                " SELECT %s, instances.id, 'web', 'launch/' || %s, %s, jobs.id, jobs.created_at, %s"
                " FROM instances JOIN jobs ON jobs.instance_id = instances.id AND jobs.number = 1"
                " WHERE instances.id = ANY (%s)",
                [safe, path, path, "1", instances],
            )
