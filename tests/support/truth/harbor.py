"""What an organization has besides instances: people, programs, services, rules, webhooks, repositories, revisions."""

from typing import Any

import httpx

from tests.support.pages import ORIGIN
from tests.support.service import EMAIL, PASSWORD, Api, accepted

HOUR_MS = 3_600_000
_POOL = {"configuration.resources": {"crane-1": {"ip": "192.0.2.11"}, "crane-2": {"ip": "192.0.2.12"}}}
_ACCOUNT = {
    "configuration.provider": "aws-ec2",
    "configuration.identity": "harbor",
    "configuration.credential": "not shown",
}
_PROPERTIES = [
    {"name": "region", "type": "string", "value": "eu-north"},
    {"name": "api-token", "type": "string", "value": "not shown"},
]
_LIFETIME = {
    "defaultMs": 8 * HOUR_MS,
    "extendMs": 24 * HOUR_MS,
    "extensions": 3,
    "graceMs": HOUR_MS // 2,
    "mail": False,
}
_POLICIES = "policies:\n  restcall.ignoreFail: false\n  execrun.batchSize: 5\n  wait.retryCount: 2\n"


class Furnisher:
    """Makes objects of one organization through the API."""

    def __init__(self, api: Api, environments: dict[str, str]) -> None:
        self.api = api
        self.root = f"organizations/{api.organization}"
        self.environments = environments

    async def furnished(self, quay: str) -> None:
        """Make one object of each kind and more. `quay` is an application that nothing is launched from."""
        await self._places()
        await self._people()
        await self._services()
        await self._programs()
        for name in ("spring", "autumn"):
            await self._created(f"applications/{quay}/revisions", name=name, version=1)
        accepted(await self.api.put(f"applications/{quay}/lifetime", _LIFETIME))
        limits = [{"key": "lock:ledger", "limit": 2}, {"limit": 20}]
        accepted(await self.api.put(f"applications/{quay}/concurrency", {"limits": limits}))
        accepted(await self.api.put(f"applications/{quay}/labels", {"team": "ledger"}))

    async def _created(self, path: str, /, **body: Any) -> str:
        return str(accepted(await self.api.post(path, body))["id"])

    async def _put(self, path: str, body: Any) -> None:
        accepted(await self.api.put(path, body))

    async def _places(self) -> None:
        yard = self.environments["yard"] = await self._created(f"{self.root}/environments", name="yard")
        await self._put(f"environments/{yard}/markers", {"markers": [{"name": "gpu"}, {"name": "fast disk"}]})
        await self._put(f"environments/{yard}/properties", {"properties": _PROPERTIES})
        accepted(await self.api.put_yaml(f"environments/{yard}", _POLICIES))
        await self._put(f"environments/{yard}/lifetime", {"greatestMs": 60 * 24 * HOUR_MS})
        await self._put(f"environments/{yard}/concurrency", {"limits": [{"limit": 30}]})
        window = {"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON", "TUE"], "zone": "Europe/Berlin"}
        await self._put(f"environments/{yard}/sleep", {"windows": [window]})
        await self._put(f"environments/{yard}/labels", {"tier": "yard"})

    async def _people(self) -> None:
        text = "# May read, and launch.\n- Read: [/*]\n- CreateInstance: [/applications/*, /environments/*]\n"
        await self._created(f"{self.root}/roles", name="Operators", permissions=text)
        for name, roles in (("Ada Lovelace", ["Operators"]), ("Jens Olsen", ["Guest", "Operators"])):
            email = f"{name.split()[0].lower()}@harbor.example"
            body = {"email": email, "name": name, "password": PASSWORD, "roles": roles}
            await self._created(f"{self.root}/users", **body)
        await self._created(f"{self.root}/users", email="mia@harbor.example", name="Mia Berg", roles=["Operators"])
        transport = httpx.ASGITransport(self.api.parts.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as visitor:
            for label in ("build server", "laptop"):
                form = {"email": EMAIL, "password": PASSWORD, "label": label}
                answer = await visitor.post("/refreshToken", data=form)
                assert answer.status_code == 200, answer.text

    async def _services(self) -> None:
        made = {}
        for name, kind, parameters in (
            ("Pool", "static_resource_pool", _POOL),
            ("Team vault", "cobalt_secure_store", {}),
            ("Harbor cloud", "cloud_account", _ACCOUNT),
            ("Shared cranes", "shared_instances_catalog", {}),
        ):
            body = {"name": name, "typeId": f"builtin:{kind}", "parameters": parameters}
            made[name] = await self._created(f"{self.root}/services", **body)
        await self._put(f"environments/{self.environments['yard']}/services", {"services": [*made.values()]})
        for name, value in (("mail-relay", "Lantern-4412-quay"), ("payments", "Harbor-0091-tide")):
            path = f"services/{made['Team vault']}/set-secret"
            accepted(await self.api.post(path, {"arguments": {"name": name, "value": value}}))

    async def _programs(self) -> None:
        account = {"name": "Release pipeline", "description": "Launches releases", "roles": ["Operators"]}
        program = await self._created(f"{self.root}/serviceAccounts", **account)
        await self._created(f"{self.root}/serviceAccounts", name="Night watch", description="", roles=["Guest"])
        source = {"name": "Ferry lists", "accountId": program, "url": "https://git.example.org/harbor/ferry.git"}
        more = {"paused": True, "path": "deploy", "intervalMs": 300_000}
        await self._created(f"{self.root}/git-sources", **source, **more)
        for path, events in (("launchbay", ["status", "job"]), ("chat", ["status"])):
            body = {"url": f"http://127.0.0.1:9/{path}", "events": events}
            webhook = await self._created(f"{self.root}/webhooks", **body)
            await self.api.post(f"webhooks/{webhook}/test")
            await self._put(f"webhooks/{webhook}", {"enabled": False})
