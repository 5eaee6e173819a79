"""Environments in an order, with an instance of one application in each."""

from dataclasses import dataclass
from typing import Any

from tests.support.service import Api, Caller, accepted

MANIFEST = """
smoke:
  parameters: {{ works: {{ type: int, default: 1 }} }}
  steps: []
launch:
  parameters: {{ size: {{ type: int, default: 1 }}, release: {{ type: int, default: {release} }} }}
  steps: []
destroy:
  steps: []
"""


OLD, NEW = 2, 3  # versions: a new application has an empty first one


@dataclass(frozen=True)
class Way:
    """An application with an instance in each environment, all with the old version."""

    api: Api
    application: str
    environments: tuple[str, ...]
    instances: tuple[str, ...]

    async def order(self, *gates: dict[str, Any], caller: Caller | None = None) -> None:
        """Set the order of the application, with the gates of the environments after the first one."""
        stages = [{"environmentId": self.environments[0]}]
        for index, environment in enumerate(self.environments[1:]):
            stages.append({"environmentId": environment, **(gates[index] if index < len(gates) else {})})
        path = f"applications/{self.application}/promotion-order"
        accepted(await (caller or self.api).put(path, {"stages": stages}))

    async def release(self, version: int = NEW) -> None:
        """Upload the next version, and bring it to the first environment."""
        text = MANIFEST.format(release=version)
        accepted(await self.api.put_yaml(f"applications/{self.application}/manifest", text))
        await self.bring(self.instances[0], version)

    async def bring(self, instance: str, version: int) -> None:
        accepted(await self.api.put(f"instances/{instance}/configuration", {"manifestVersion": version}))
        await self.api.settled(instance)

    async def propose(self, step: int = 0, caller: Caller | None = None, **body: Any) -> Any:
        """Return the answer to a promotion from one environment to the next one."""
        ids = {"fromId": self.environments[step], "toId": self.environments[step + 1]}
        return await (caller or self.api).post(f"applications/{self.application}/promotions", {**ids, **body})

    async def board(self, caller: Caller | None = None) -> list[Any]:
        found = accepted(await (caller or self.api).get(f"applications/{self.application}/promotion"))
        return list(found["environments"])

    async def soaked(self, hours: int = 24) -> None:
        """Let so much time have passed since the present versions came."""
        async with self.api.database.transaction() as connection:
            await connection.execute(
                "UPDATE generations SET created_at = created_at - %s * interval '1 hour' WHERE instance_id = ANY (%s)",
                (hours, list(self.instances)),
            )


async def way(api: Api, environments: int = 2) -> Way:
    application = await api.application(MANIFEST.format(release=1))
    places = [await api.offer() for _ in range(environments)]
    instances = [
        await api.launch(application, environmentId=each, parameters={"size": number})
        for number, each in enumerate(places, 1)
    ]
    for each in instances:
        await api.settled(each)
    return Way(api, application, tuple(places), tuple(instances))
