"""Hosts that exist already: named by a manifest (`staticIps`), or taken from the environment's resource pool.

A host of `staticIps` is adopted, so a release only forgets it. The instance holds a host of a pool until its release;
then it returns to the pool unchanged.
"""

from collections.abc import Mapping, Sequence

from launchbay import limits
from launchbay.concurrency import gather_bounded
from launchbay.errors import ActionFailed
from launchbay.machines.contract import PORT_POLICY, PooledHost, ProviderContext, ProviderDeps, policy_number
from launchbay.machines.ssh import SshMachines
from launchbay.model.machine import PORTS, SSH_PORT, Machine, MachineSpec, StaticHost, read_host, read_resource

NAME = "static"
LOGIN_POLICY = "machines.login"


class StaticMachines(SshMachines):
    """The provider; one object serves all instances."""

    name = NAME

    def __init__(self, deps: ProviderDeps) -> None:
        super().__init__(deps)
        self._pools = deps.pools

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts from the pool. All of them must accept the login, or all are returned."""
        taken = await self._pools.acquire(context, len(numbers))
        try:
            machines = [
                _machine(context, role, number, machine_id, read_resource(pooled.id, pooled.place), spec, adopted=False)
                for number, (machine_id, pooled) in zip(numbers, taken.items(), strict=True)
            ]
            await self._wait_until_all_reachable(context, machines)
        except (ActionFailed, ValueError) as error:
            for machine_id in taken:
                await self._pools.release(context, machine_id)
            raise _failed(error) from error
        hosts = ", ".join(machine.host for machine in machines)
        context.log("info", f"The role {role!r} got {hosts} from the environment's pool.")
        return machines

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        try:
            machines = [
                _machine(context, role, number, f"{NAME}:{address}", read_host(address), spec, adopted=True)
                for number, address in addresses.items()
            ]
        except ValueError as error:
            raise _failed(error) from None
        _validate_distinct(machines)
        await self._wait_until_all_reachable(context, machines)
        return machines

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        await self._pools.release(context, machine.id)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        taken = await self._pools.acquired(context)
        return [
            Machine(id=machine_id, role="", provider=NAME, number=0, public_ip=_address_in_error(pooled))
            for machine_id, pooled in taken.items()
        ]

    async def _wait_until_all_reachable(self, context: ProviderContext, machines: Sequence[Machine]) -> None:
        waits = (self.wait_until_reachable(context, machine, limits.MACHINE_ADOPT_S) for machine in machines)
        await gather_bounded(waits, limits.MACHINES_AT_ONCE)


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
        port=host.port or policy_number(context, PORT_POLICY, SSH_PORT, PORTS),
        key_name=host.key_name or spec.key_name,
        jump=spec.jump if host.jump is None else host.jump,
        sudo_secret=host.sudo_secret or spec.sudo_secret,
        adopted=adopted,
    )


def _failed(error: Exception) -> ActionFailed:
    return error if isinstance(error, ActionFailed) else ActionFailed(str(error), retryable=False)


def _validate_distinct(machines: Sequence[Machine]) -> None:
    seen: set[str] = set()
    for machine in machines:
        if machine.host in seen:
            raise ActionFailed(
                f"The list of hosts contains {machine.host} twice, but outputs are by address.",
                "Use another name for the host, or remove one entry.",
                retryable=False,
            )
        seen.add(machine.host)


def _address_in_error(pooled: PooledHost) -> str:
    try:
        return read_resource(pooled.id, pooled.place).address
    except ValueError:  # its description was changed since
        return pooled.id
