"""Hosts that are there already: named by a manifest (`staticIps`), or taken from the environment's resource pool.

A host of `staticIps` is adopted: to release it is to forget it. One of a pool is held by the instance until it is
released, and goes back to the pool then, as it is.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.contract import PooledHost, ProviderContext, ProviderDeps
from launchbay.machines.ssh import Ssh
from launchbay.model.machine import (
    PORTS,
    SSH_PORT,
    ChefRun,
    CommandResult,
    Machine,
    MachineSpec,
    RemoteCommand,
    SshAccess,
    StaticHost,
    read_host,
    read_resource,
)

NAME = "static"
LOGIN_POLICY = "machines.login"
PORT_POLICY = "machines.ssh-port"


class StaticMachines:
    """The provider; one object serves all instances."""

    name = NAME

    def __init__(self, deps: ProviderDeps) -> None:
        self._pools = deps.pools
        self._ssh = Ssh(deps)

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts from the pool. They must let us in; otherwise all of them go back."""
        taken = await self._pools.acquire(context, len(numbers))
        try:
            machines = [
                _machine(context, role, number, machine_id, read_resource(pooled.id, pooled.place), spec, adopted=False)
                for number, (machine_id, pooled) in zip(numbers, taken.items(), strict=True)
            ]
            await self._wait_until_all_reachable(context, machines)
        except (ActionFailed, AddressRefused, ValueError) as error:
            for machine_id in taken:
                await self._pools.release(context, machine_id)
            raise _failed(error) from error
        hosts = ", ".join(machine.host for machine in machines)
        context.log("info", f"The role {role!r} has {hosts} of the environment's pool.")
        return machines

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts that are there. They must let us in."""
        try:
            machines = [
                _machine(context, role, number, f"{NAME}:{address}", read_host(address), spec, adopted=True)
                for number, address in addresses.items()
            ]
        except ValueError as error:
            raise _failed(error) from None
        _each_once(machines)
        await self._wait_until_all_reachable(context, machines)
        return machines

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        """Give a host back to its pool."""
        await self._pools.release(context, machine.id)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return the hosts of pools that the instance holds."""
        taken = await self._pools.acquired(context)
        return [
            Machine(id=machine_id, role="", provider=NAME, number=0, public_ip=_address_in_error(pooled))
            for machine_id, pooled in taken.items()
        ]

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end."""
        return await self._ssh.run(context, machine, command)

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running."""
        await self._ssh.stop(context, machine)

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        return await self._ssh.converge(context, machine, chef)

    async def ssh_access(self, context: ProviderContext, machine: Machine) -> SshAccess:
        """Return what another program needs to get in."""
        return await self._ssh.ssh_access(context, machine)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        """Write a file."""
        await self._ssh.put_file(context, machine, name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Read a file."""
        return await self._ssh.get_file(context, machine, name)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        """Let every action run."""
        return None

    async def _wait_until_all_reachable(self, context: ProviderContext, machines: Sequence[Machine]) -> None:
        await _all(self._ssh.wait_until_reachable(context, machine, limits.MACHINE_ADOPT_S) for machine in machines)


def _machine(
    context: ProviderContext,
    role: str,
    number: int,
    machine_id: str,
    host: StaticHost,
    spec: MachineSpec,
    *,
    adopted: bool,
) -> Machine:
    return Machine(
        id=machine_id,
        role=role,
        provider=NAME,
        number=number,
        public_ip=host.address,
        private_ip=host.address,
        login=host.login or spec.login or str(context.policies.get(LOGIN_POLICY, "")),
        port=host.port or _port(context),
        key_name=host.key_name or spec.key_name,
        adopted=adopted,
    )


def _port(context: ProviderContext) -> int:
    port = context.policies.get(PORT_POLICY, SSH_PORT)
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


def _address_in_error(pooled: PooledHost) -> str:
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
        sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.messages)
        raise ActionFailed(*sentences, retryable=any(failure.retryable for failure in failures))
