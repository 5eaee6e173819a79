"""A cloud of a test: machines that stand until somebody takes them down, each with its marks."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from launchbay.errors import ActionFailed
from launchbay.ids import new_id
from launchbay.machines.contract import ProviderContext, TaggedMachine, Tags
from launchbay.model.machine import Machine
from tests.machines.errands import context

LONG_AGO = datetime.now(UTC) - timedelta(days=1)


@dataclass
class Yard:
    """Implements `Sweepable`. A machine in `stuck` cannot be taken down; one in `gone` has just gone."""

    name: str = "yard"
    standing: dict[str, TaggedMachine] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    looks: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)  # nothing is taken down until it is set

    def __post_init__(self) -> None:
        self.open.set()

    def add(self, instance_id: str, *, organization_id: str = "", made_at: datetime | None = LONG_AGO) -> Machine:
        asked = context(instance_id=instance_id, organization_id=organization_id or new_id())
        machine = Machine(id=new_id(), role="web", provider=self.name, number=1, public_ip="192.0.2.1")
        self.standing[machine.id] = TaggedMachine(machine, Tags.of("here", asked, "web", 1), made_at)
        return machine

    async def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        self.looks += 1
        for each in list(self.standing.values()):
            yield each

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:
        return machine.id in self.standing and machine.id not in self.gone

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        await self.open.wait()
        if machine.id in self.stuck:
            raise ActionFailed("the yard keeps it.")
        del self.standing[machine.id]
