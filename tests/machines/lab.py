"""A provider whose machines are really there, in a world that no crash takes away: they stay until released."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand


@dataclass
class Lab:
    """Implements the contract. `standing` are the machines by id, each with the tag and instance that it carries.

    `refusals` makes a method fail for the hosts that it names, `*` for all; `made` counts machines that were ever made.
    """

    name: str = "lab"
    standing: dict[str, tuple[str, str, Machine]] = field(default_factory=dict)
    ran: list[tuple[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    specs: list[MachineSpec] = field(default_factory=list)
    refusals: dict[str, set[str]] = field(default_factory=dict)
    results: dict[str, CommandResult] = field(default_factory=dict)
    most_at_once: int = 0
    made: int = 0
    slow_s: float = 0.0
    _busy: int = 0

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        self._refuse("provision", role)
        self.tags.append(context.tag)
        self.specs.append(spec)
        found = [machine for tag, _, machine in self.standing.values() if tag == context.tag]
        for number in numbers[len(found) :]:
            await asyncio.sleep(self.slow_s)
            machine = Machine(
                id=f"vm{self.made}",
                role=role,
                provider=self.name,
                number=number,
                public_ip=f"10.0.0.{self.made}",
                private_ip=f"10.1.0.{self.made}",
                login=spec.login,
            )
            self.made += 1
            self.standing[machine.id] = (context.tag, context.instance_id, machine)
            found.append(machine)
        return found

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        return [
            Machine(id=address, role=role, provider=self.name, number=number, public_ip=address, adopted=True)
            for number, address in addresses.items()
        ]

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        await asyncio.sleep(0)
        self._refuse("release", machine.host)
        assert not machine.adopted
        self.standing.pop(machine.id, None)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        return [machine for _, instance_id, machine in self.standing.values() if instance_id == context.instance_id]

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        self._busy += 1
        self.most_at_once = max(self.most_at_once, self._busy)
        await asyncio.sleep(0.001)
        self._busy -= 1
        self._refuse("run", machine.host)
        self.ran.append((machine.host, command.line))
        return self.results.get(machine.host, CommandResult(f"{machine.host}\n", "", 0))

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        self.ran.append((machine.host, "stop"))

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        self.ran.append((machine.host, ",".join(chef.run_list)))
        return {**chef.attributes, "host": machine.host}

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        self.ran.append((machine.host, f"put {name}"))

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        return f"{name} of {machine.host}".encode()

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None

    def _refuse(self, what: str, host: str) -> None:
        if self.refusals.get(what, set()) & {host, "*"}:
            raise ActionFailed(f"the lab does not {what} {host}.")
