"""Hosts that are there already: named by a manifest (`staticIps`), or taken from the environment's resource pool.

A host of `staticIps` is adopted: to release it is to forget it. One of a pool is held by the instance until it is
released, and goes back to the pool then, as it is.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.contract import Errand, Parts, Pooled
from launchbay.machines.ssh import Ssh
from launchbay.model.machine import (
    PORTS,
    SSH_PORT,
    ChefRun,
    CommandResult,
    Machine,
    MachineSpec,
    RemoteCommand,
    StaticHost,
    WayIn,
    read_host,
    read_resource,
)

NAME = "static"
LOGIN_POLICY = "machines.login"
PORT_POLICY = "machines.ssh-port"


class StaticMachines:
    """The provider; one object serves all instances."""

    name = NAME

    def __init__(self, parts: Parts) -> None:
        self._pools = parts.pools
        self._ssh = Ssh(parts)

    async def provision(
        self, errand: Errand, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts from the pool. They must let us in; otherwise all of them go back."""
        taken = await self._pools.take(errand, len(numbers))
        try:
            machines = [
                _machine(errand, role, number, machine_id, read_resource(pooled.id, pooled.place), spec, adopted=False)
                for number, (machine_id, pooled) in zip(numbers, taken.items(), strict=True)
            ]
            await self._all_answer(errand, machines)
        except (ActionFailed, AddressRefused, ValueError) as error:
            for machine_id in taken:
                await self._pools.give_back(errand, machine_id)
            raise _failed(error) from error
        hosts = ", ".join(machine.host for machine in machines)
        errand.log("info", f"The role {role!r} has {hosts} of the environment's pool.")
        return machines

    async def adopt(
        self, errand: Errand, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts that are there. They must let us in."""
        try:
            machines = [
                _machine(errand, role, number, f"{NAME}:{address}", read_host(address), spec, adopted=True)
                for number, address in addresses.items()
            ]
        except ValueError as error:
            raise _failed(error) from None
        _each_once(machines)
        await self._all_answer(errand, machines)
        return machines

    async def release(self, errand: Errand, machine: Machine) -> None:
        """Give a host back to its pool."""
        await self._pools.give_back(errand, machine.id)

    async def strays(self, errand: Errand) -> Sequence[Machine]:
        """Return the hosts of pools that the instance holds."""
        taken = await self._pools.taken(errand)
        return [
            Machine(id=machine_id, role="", provider=NAME, number=0, public_ip=_told_address(pooled))
            for machine_id, pooled in taken.items()
        ]

    async def run(self, errand: Errand, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end."""
        return await self._ssh.run(errand, machine, command)

    async def stop(self, errand: Errand, machine: Machine) -> None:
        """End every command that the errand's job left running."""
        await self._ssh.stop(errand, machine)

    async def converge(self, errand: Errand, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        return await self._ssh.converge(errand, machine, chef)

    async def way_in(self, errand: Errand, machine: Machine) -> WayIn:
        """Return what another program needs to get in."""
        return await self._ssh.way_in(errand, machine)

    async def put_file(self, errand: Errand, machine: Machine, name: str, content: bytes) -> None:
        """Write a file."""
        await self._ssh.put_file(errand, machine, name, content)

    async def get_file(self, errand: Errand, machine: Machine, name: str) -> bytes:
        """Read a file."""
        return await self._ssh.get_file(errand, machine, name)

    def stand_in(self, errand: Errand, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        """Let every action run."""
        return None

    async def _all_answer(self, errand: Errand, machines: Sequence[Machine]) -> None:
        await _all(self._ssh.answers(errand, machine, limits.MACHINE_ADOPT_S) for machine in machines)


def _machine(
    errand: Errand, role: str, number: int, machine_id: str, host: StaticHost, spec: MachineSpec, *, adopted: bool
) -> Machine:
    return Machine(
        id=machine_id,
        role=role,
        provider=NAME,
        number=number,
        public_ip=host.address,
        private_ip=host.address,
        login=host.login or spec.login or str(errand.policies.get(LOGIN_POLICY, "")),
        port=host.port or _port(errand),
        key_name=host.key_name or spec.key_name,
        adopted=adopted,
    )


def _port(errand: Errand) -> int:
    port = errand.policies.get(PORT_POLICY, SSH_PORT)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= PORTS:
        text = f"The policy {PORT_POLICY} of the environment must be a whole number from 1 to {PORTS}."
        raise ActionFailed(text, retryable=False)
    return port


def _failed(error: Exception) -> ActionFailed:
    return error if isinstance(error, ActionFailed) else ActionFailed(str(error), retryable=False)


def _each_once(machines: Sequence[Machine]) -> None:
    seen: set[str] = set()
    for machine in machines:
        if machine.host in seen:
            raise ActionFailed(
                f"{machine.host} stands twice in the list of hosts; outputs are by address, so an address can be there"
                " once only. Give the host another name, or leave one entry out.",
                retryable=False,
            )
        seen.add(machine.host)


def _told_address(pooled: Pooled) -> str:
    try:
        return read_resource(pooled.id, pooled.place).address
    except ValueError:  # it was changed into something else since
        return pooled.id


async def _all(asked: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything, so many at the same time. Raises ActionFailed with every failure."""
    turn = asyncio.Semaphore(limits.MACHINES_AT_ONCE)

    async def one(work: Coroutine[Any, Any, None]) -> None:
        async with turn:
            await work

    outcomes = await asyncio.gather(*map(one, asked), return_exceptions=True)
    failures: list[ActionFailed] = []
    for outcome in outcomes:
        if isinstance(outcome, ActionFailed | AddressRefused):
            failures.append(_failed(outcome))
        elif outcome is not None:
            raise outcome
    if failures:
        sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.sentences)
        raise ActionFailed(*sentences, retryable=any(failure.retryable for failure in failures))
