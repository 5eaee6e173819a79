"""The machines of a component, as its steps see them and as its end releases them (manifest-language §9).

Which machines there are is part of the instance's state. It changes only by the outputs of recorded steps, so a job
that is repeated after a crash comes to the same machines without making one twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchbay import limits
from launchbay.actions.contract import idempotency_key
from launchbay.errors import ActionFailed
from launchbay.machines.contract import MachineProvider, ProviderContext, ProvidesSshAccess, RunsImages
from launchbay.machines.registry import UnknownProvider
from launchbay.manifest.graph import COMPUTE, Peer
from launchbay.model.job import StepStatus, workflow_path
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand, SshAccess
from launchbay.runtime.contract import JobRun
from launchbay.runtime.signals import named_peers, parent_signal_values

NETWORKS = "networks"
_PUBLIC, _PRIVATE, _IP = "public", "eth0", "ip"
_RELEASE = "release"
_CONTAINERS = "container"


def provider_of(job: JobRun) -> MachineProvider | None:
    """Return the provider that makes this instance's machines, None where none is chosen. Raises ActionFailed."""
    try:
        return job.deps.machines.chosen_for(job.environment.policies)
    except UnknownProvider as error:
        raise ActionFailed(str(error), retryable=False) from None


def image_runner(job: JobRun) -> RunsImages:
    """Return what runs commands in images, whatever makes the instance's machines. Raises ActionFailed."""
    try:
        provider = job.deps.machines.named(_CONTAINERS)
    except UnknownProvider:
        provider = None
    if not isinstance(provider, RunsImages):
        raise ActionFailed(
            "This installation has no container engine.",
            "The operator sets LAUNCHBAY_CONTAINER_SOCKET to the socket of Podman or Docker.",
            retryable=False,
        )
    return provider


def provider_context(
    job: JobRun, component: str, action: str, path: str, log: Callable[[str, str], None], attempt: int = 1
) -> ProviderContext:
    """Return what a provider is told about who asks: a step at `path` of the plan, or a component by itself."""
    return ProviderContext(
        organization_id=job.organization_id,
        environment_id=job.environment_id,
        instance_id=job.instance_id,
        component=component,
        action=action,
        step=path.rpartition("/")[2],
        path=path,
        tag=idempotency_key(job.job_id, path),
        log=log,
        policies=job.environment.policies,
        job_id=job.job_id,
        attempt=attempt,
        handed_over=job.handed_over.is_set,
        register_secret=job.secrets.register_secret,
        redaction_stream=job.secrets.stream,
    )


@dataclass(frozen=True, slots=True)
class ComponentMachines:
    """Implements `actions.contract.StepMachines` for one step of a component; components use it for themselves too."""

    job: JobRun
    component: str
    context: ProviderContext
    provider: MachineProvider

    def of_role(self, role: str) -> Sequence[Machine]:
        """Return the component's own machines of a role."""
        return [machine for machine in self.own() if machine.role == role]

    def own(self) -> Sequence[Machine]:
        """Return all machines that belong to the component."""
        return list(self.job.state.component(self.component).machines)

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        """Return the machines of these roles, each address once. Raises ActionFailed for a role without any."""
        names = self._role_names() if roles is None else list(dict.fromkeys(roles))
        if not names:
            raise ActionFailed(
                f"Component {self.component!r} has no machines; provisionVms makes some.", retryable=False
            )
        found: dict[str, Machine] = {}
        for role in names:
            machines = self.of_role(role) or self._bound(role)
            if not machines:
                raise ActionFailed(self._empty(role), retryable=False)
            for machine in machines:
                found.setdefault(machine.host, machine)
        return list(found.values())

    def reachable(self) -> Sequence[Machine]:
        """Return every machine that the component can run something on: its own, and those that are bound to it."""
        component = self.job.manifest.components.get(self.component)
        interfaces = () if component is None else tuple(component.peers)
        return [*self.own(), *(machine for interface in interfaces for machine in self._bound(interface))]

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        """Make so many machines."""
        numbers = self.job.state.allocate_machine_numbers(count)
        return await self.provider.provision(self.context, role, numbers, spec)

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        """Take machines that are there."""
        numbers = self.job.state.allocate_machine_numbers(len(addresses))
        return await self.provider.adopt(self.context, role, dict(zip(numbers, addresses, strict=True)), spec)

    async def release(self, machines: Sequence[Machine]) -> None:
        """Take machines down, as many as can be. Raises ActionFailed that names the others."""
        _, failures = await release(self.job, self.context, machines)
        if failures:
            raise ActionFailed(*failures)

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, whatever its exit code."""
        return await self._maker(machine).run(self.context, machine, command)

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        return await self._maker(machine).converge(self.context, machine, chef)

    async def ssh_access(self, machine: Machine) -> SshAccess:
        """Return what another program needs to get into the machine by SSH."""
        provider = self._maker(machine)
        if not isinstance(provider, ProvidesSshAccess):
            raise ActionFailed(
                f"{machine.host} is a machine of {machine.provider!r}, and not reached by SSH.",
                "Use execrun on it, or machines of a provider that uses SSH.",
                retryable=False,
            )
        return await provider.ssh_access(self.context, machine)

    async def put_file(self, machine: Machine, name: str, content: bytes) -> None:
        """Write a file."""
        await self._maker(machine).put_file(self.context, machine, name, content)

    async def get_file(self, machine: Machine, name: str) -> bytes:
        """Read a file."""
        return await self._maker(machine).get_file(self.context, machine, name)

    def _maker(self, machine: Machine) -> MachineProvider:
        """Return the provider that the machine is of: another one may be chosen since."""
        return _maker(self.job, machine)

    def _role_names(self) -> list[str]:
        return list(dict.fromkeys(machine.role for machine in self.own()))

    def _empty(self, role: str) -> str:
        known = ", ".join(self._role_names()) or "none"
        return (
            f"The role {role!r} has no machines in component {self.component!r}; roles with machines: {known}. "
            "Provision it before, or correct the name."
        )

    def _bound(self, interface: str) -> list[Machine]:
        """Return the machines at the other end of an interface of this name (language §4, `compute.Instance`)."""
        component = self.job.manifest.components.get(self.component)
        if component is None:  # a member that a Scaler has just given up
            return []
        machines: list[Machine] = []
        for _, peer in named_peers(component, interface):
            machines.extend(self._own_of(peer) or self._addresses_from_peer(peer, interface, len(machines)))
        # An application around this one may have bound a machine of its own.
        parent_signals = parent_signal_values(
            self.job.manifest, self.job.parent_signals, component, f"{interface}.{NETWORKS}"
        )
        for networks in parent_signals.values():
            machines.extend(self._addresses_from(networks, interface, len(machines)))
        return machines

    def _own_of(self, peer: Peer) -> list[Machine]:
        """Return the machine of a component of this instance that stands for one."""
        paths = dict.fromkeys(target.component for target in peer.pins.values())
        return [
            machine
            for path in paths
            if self.job.component(path).type == COMPUTE
            for machine in self.job.state.component(path).machines
        ]

    def _addresses_from_peer(self, peer: Peer, role: str, place: int) -> list[Machine]:
        """Return the machine of another instance, of which its signal `networks` tells."""
        if NETWORKS not in peer.pins:
            return []
        _, networks = self.job.state.signal(peer.pins[NETWORKS])
        return self._addresses_from(networks, role, place)

    def _addresses_from(self, networks: Any, role: str, place: int) -> list[Machine]:
        public, private = _address(networks, _PUBLIC), _address(networks, _PRIVATE)
        if not (public or private):
            return []
        machine = Machine(
            id=f"bound:{public or private}",
            role=role,
            provider=self.provider.name,
            number=place,
            public_ip=public,
            private_ip=private,
            adopted=True,
        )
        return [machine]


def networks(machine: Machine) -> dict[str, dict[str, str]]:
    """Return what a `compute.Instance` publishes about its machine (language §4)."""
    return {_PUBLIC: {_IP: machine.host}, _PRIVATE: {_IP: machine.inner_host}}


async def release(
    job: JobRun, on_context: ProviderContext, machines: Iterable[Machine]
) -> tuple[list[Machine], list[str]]:
    """Release machines and return those that are gone, and a sentence for each that is not.

    An adopted machine was there before and stays; it is only let go.
    """
    machines = list(machines)
    turn = asyncio.Semaphore(limits.RELEASES_AT_ONCE)

    async def let_go(machine: Machine) -> str | None:
        if machine.adopted:
            return None
        try:
            async with turn:
                await _maker(job, machine).release(on_context, machine)
        except Exception as error:  # noqa: BLE001 - a provider is foreign code; the other machines must go all the same
            return f"The machine {machine.host} ({machine.id}, role {machine.role!r}) is left: {_describe(error)}"
        return None

    outcomes = await asyncio.gather(*(let_go(machine) for machine in machines))
    gone = [machine for machine, failure in zip(machines, outcomes, strict=True) if failure is None]
    return gone, [failure for failure in outcomes if failure is not None]


async def release_component(job: JobRun, path: str) -> list[str]:
    """Release all machines of a component that is taken down, and return a sentence for each that is left."""
    gone, left = await release(job, _teardown_context(job, path), job.state.component(path).machines)
    job.state.remove_machines(path, gone)
    return left


async def release_all(job: JobRun) -> list[str]:
    """Release all machines of an instance that ends, those too that no record tells of; bounded in time.

    Returns a sentence for each that is left.
    """
    try:
        async with asyncio.timeout(limits.RELEASE_S):
            failures = [
                f"Component {path!r}: {failure}"
                for path in dict.fromkeys(path for path, _ in job.state.machines())
                for failure in await release_component(job, path)
            ]
            return failures + await _release_orphans(job)
    except TimeoutError:
        left = ", ".join(f"{machine.host} ({machine.id})" for _, machine in job.state.machines()) or "unknown"
        return [f"Machines could not be released within {limits.RELEASE_S:g} s; left are: {left}."]


async def _release_orphans(job: JobRun) -> list[str]:
    """Release what was made and never recorded: its step was interrupted and did not come to its end again."""
    try:
        provider = provider_of(job)
        if provider is None:
            return []
        on_errand = _teardown_context(job, "")
        known = {machine.id for _, machine in job.state.machines()}
        strays = [machine for machine in await provider.orphans(on_errand) if machine.id not in known]
        return (await release(job, on_errand, strays))[1]
    except Exception as error:  # noqa: BLE001 - a provider is foreign code; the instance's end goes on
        return [f"Machines without a record could not be looked for: {_describe(error)}"]


async def stop_commands(job: JobRun) -> None:
    """End what a cancelled job left running on machines of its components, and on those bound to them."""
    if not any(_is_executing(job, path) for path in job.journal.traces()):
        return
    turn = asyncio.Semaphore(limits.RELEASES_AT_ONCE)

    async def stop(machine: Machine, on_errand: ProviderContext) -> None:
        try:
            async with turn:
                await _maker(job, machine).stop(on_errand, machine)
        except Exception as error:  # noqa: BLE001 - a provider is foreign code; the job's end goes on
            on_errand.log("warning", _describe(error))

    found: dict[str, tuple[Machine, ProviderContext]] = {}
    for path in job.manifest.order:
        on_errand = _teardown_context(job, path)
        provider = provider_of(job)
        if provider is None:
            return
        for machine in ComponentMachines(job, path, on_errand, provider).reachable():
            found.setdefault(machine.host, (machine, on_errand))
    try:
        async with asyncio.timeout(limits.MACHINES_STOP_S):
            await asyncio.gather(*(stop(machine, on_errand) for machine, on_errand in found.values()))
    except TimeoutError:
        job.journal.log(
            None,
            "warning",
            f"Within {limits.MACHINES_STOP_S:g} s not all machines answered; commands may still run there.",
        )


def _is_executing(job: JobRun, path: str) -> bool:
    record = job.journal.find(path)
    return record is not None and record.status is StepStatus.EXECUTING


def _teardown_context(job: JobRun, component: str) -> ProviderContext:
    path = workflow_path(component, _RELEASE)
    return provider_context(job, component, _RELEASE, path, lambda level, text: job.journal.log(None, level, text))


def _maker(job: JobRun, machine: Machine) -> MachineProvider:
    try:
        return job.deps.machines.named(machine.provider)
    except UnknownProvider as error:
        raise ActionFailed(str(error), retryable=False) from None


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, ActionFailed) else f"{type(error).__name__}: {error}"


def _address(networks: Any, name: str) -> str:
    network = networks.get(name) if isinstance(networks, Mapping) else None
    address = network.get(_IP) if isinstance(network, Mapping) else None
    return address if isinstance(address, str) else ""
