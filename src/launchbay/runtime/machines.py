"""The machines of components: what steps do with them, and their release (manifest-language §9).

Machines are part of the instance's state. Only the outputs of recorded steps change them, so a job that is repeated
after a crash gets the same machines and never creates one twice.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any

from launchbay import limits
from launchbay.actions.contract import idempotency_key
from launchbay.concurrency import gather_bounded
from launchbay.errors import ActionFailed, describe
from launchbay.machines.contract import MachineProvider, ProviderContext, ProvidesSshAccess, RunsImages
from launchbay.manifest.graph import COMPUTE, Peer
from launchbay.manifest.v1 import in_component
from launchbay.manifest.workflow_rules import SECRETS
from launchbay.model.job import StepStatus, StepWait, workflow_path
from launchbay.model.machine import DRY_RUN, ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand, SshAccess
from launchbay.model.price import PRICES_POLICY, Price, price_of
from launchbay.model.secret_reference import SecretReference
from launchbay.runtime.contract import JobRun
from launchbay.runtime.signals import named_peers, parent_signal_values

NETWORKS = "networks"
_PUBLIC, _PRIVATE, _IP = "public", "eth0", "ip"
PROVISION, RELEASE = "provision", "release"
_CONTAINERS = "container"


def provider_of(job: JobRun) -> MachineProvider | None:
    """Return the provider of the instance's machines, or None if none is set.

    Raises ActionFailed.
    """
    return job.deps.machines.chosen_for(job.environment.policies)


def is_dry_run(job: JobRun) -> bool:
    """Return whether the instance's machines are made up."""
    try:
        provider = provider_of(job)
    except ActionFailed:
        return False
    return provider is not None and provider.name == DRY_RUN


def image_runner(job: JobRun) -> RunsImages:
    """Return the container engine, which is independent of the instance's provider. Raises ActionFailed."""
    try:
        provider = job.deps.machines.named(_CONTAINERS)
    except ActionFailed:
        provider = None
    if not isinstance(provider, RunsImages):
        raise ActionFailed(
            "This installation has no container engine.",
            "The server's administrator must set LAUNCHBAY_CONTAINER_SOCKET to the socket of Podman or Docker.",
            retryable=False,
        )
    return provider


def provider_context(
    job: JobRun,
    component: str,
    action: str,
    path: str,
    log: Callable[[str, str], None],
    attempt: int = 1,
    secrets: "AttemptSecrets | None" = None,
) -> ProviderContext:
    """Return a provider's context for the step at `path` of the plan, or for a component's teardown."""
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
        waiting=partial(job.journal.waiting, path),
        log_positions=_LogPositions(job, path, attempt),
        secret=(secrets or AttemptSecrets(job, path, attempt)).read,
        token=partial(_token, job, path),
    )


async def _token(job: JobRun, path: str, audience: str) -> str:
    """Return a token of the job, which is masked from then on. Raises ActionFailed."""
    token = await job.deps.identities.token(job, path, audience)
    job.secrets.register_passing(token, path)
    return token


class AttemptSecrets:
    """What machines of one attempt need of providers, each secret read once."""

    def __init__(self, job: JobRun, path: str, attempt: int) -> None:
        self._job = job
        self._path = path
        self.attempt = attempt
        self._lock = asyncio.Lock()
        self._found: dict[SecretReference, Any] = {}

    async def read(self, reference: SecretReference) -> Any:
        """Return the value, which is masked from then on. Raises ActionFailed."""
        async with self._lock:
            if reference not in self._found:
                name = str(reference)
                found = await self._job.deps.secret_source.read(self._job, self._path, self.attempt, {name: reference})
                self._job.secrets.register_passing(found, self._path)
                # Whoever takes the job over, and adopts commands that have it, masks it too.
                await self._job.journal.keep_passing(self._path, self.attempt, {SECRETS: found})
                self._found[reference] = found[name]
            return self._found[reference]


@dataclass(frozen=True, slots=True)
class _LogPositions:
    """Implements `machines.contract.LogPositions` for one attempt of a step."""

    job: JobRun
    path: str
    attempt: int

    def note(self, source: str, position: str) -> None:
        self.job.journal.note_log_position(self.path, self.attempt, source, position)

    async def find(self, source: str) -> str:
        return await self.job.journal.log_position(self.path, self.attempt, source)


@dataclass(frozen=True, slots=True)
class ComponentMachines:
    """Implements `actions.contract.StepMachines` for one step or component."""

    job: JobRun
    component: str
    context: ProviderContext
    user: str  # that needs the machines, for messages

    @property
    def provider(self) -> MachineProvider:
        """The provider of new machines. Raises ActionFailed if the environment has none."""
        provider = provider_of(self.job)
        if provider is None:
            raise ActionFailed(
                f"{self.user} needs machines, but no machine provider is set.",
                "Set LAUNCHBAY_MACHINES, or the environment's policy machines.provider. Use dry-run to test without"
                " machines.",
                retryable=False,
            )
        return provider

    @property
    def provider_name(self) -> str:
        return self.job.deps.machines.name_for(self.job.environment.policies)

    def price_of(self, size: str) -> Price:
        return price_of(self.job.environment.policies.get(PRICES_POLICY), size)

    def of_role(self, role: str) -> Sequence[Machine]:
        return [machine for machine in self.own() if machine.role == role]

    def own(self) -> Sequence[Machine]:
        return list(self.job.state.component(self.component).machines)

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        """Return the machines of these roles, each address once; roles without machines are logged and skipped.

        Public manifests rely on that for conditions: they provision `linux` or `windows`, and have steps for both.
        """
        names = self._role_names() if roles is None else list(dict.fromkeys(roles))
        if not names:
            why = " for this step, because 'roles' is an empty list" if roles is not None else ""
            self.context.log("info", f"Component {self.component!r} has no machines{why}; there is nothing to do.")
        found: dict[str, Machine] = {}
        for role in names:
            machines = self.of_role(role) or self._bound(role)
            if not machines:
                known = ", ".join(self._role_names()) or "none"
                self.context.log(
                    "info", f"The role {role!r} has no machines; nothing to do there. Roles with machines: {known}."
                )
            for machine in machines:
                found.setdefault(machine.host, machine)
        return list(found.values())

    def reachable(self) -> Sequence[Machine]:
        """Return all machines that the component can use: its own and bound ones."""
        component = self.job.manifest.components.get(self.component)
        interfaces = () if component is None else tuple(component.peers)
        return [*self.own(), *(machine for interface in interfaces for machine in self._bound(interface))]

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        numbers = self.job.state.allocate_machine_numbers(count)
        machines = "a machine" if count == 1 else f"{count} machines"
        step = f"Step {self.context.step!r} of {self.component!r}"
        wait = StepWait(
            kind="machine",
            text=f"{step} waits for {machines} of the role {role!r} to start and answer.",
            ends_when="The machines answer, or their provider gives up.",
        )
        with self.context.waiting(wait):
            return await self.provider.provision(self.context, role, numbers, spec)

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        numbers = self.job.state.allocate_machine_numbers(len(addresses))
        return await self.provider.adopt(self.context, role, dict(zip(numbers, addresses, strict=True)), spec)

    async def release(self, machines: Sequence[Machine]) -> None:
        _, failures = await release(self.job, self.context, machines)
        if failures:
            raise ActionFailed(*failures)

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        return await self.job.deps.machines.named(machine.provider).run(self.context, machine, command)

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        return await self.job.deps.machines.named(machine.provider).converge(self.context, machine, chef)

    async def ssh_access(self, machine: Machine) -> SshAccess:
        provider = self.job.deps.machines.named(machine.provider)
        if not isinstance(provider, ProvidesSshAccess):
            raise ActionFailed(
                f"Can't reach {machine.host} by SSH: it's a machine of {machine.provider!r}.",
                "Use execrun, or a provider with SSH access.",
                retryable=False,
            )
        return await provider.ssh_access(self.context, machine)

    async def put_file(self, machine: Machine, name: str, content: bytes) -> None:
        await self.job.deps.machines.named(machine.provider).put_file(self.context, machine, name, content)

    async def get_file(self, machine: Machine, name: str) -> bytes:
        return await self.job.deps.machines.named(machine.provider).get_file(self.context, machine, name)

    def _role_names(self) -> list[str]:
        return list(dict.fromkeys(machine.role for machine in self.own()))

    def _bound(self, interface: str) -> list[Machine]:
        """Return the machines bound to the interface of this name (language §4, `compute.Instance`)."""
        component = self.job.manifest.components.get(self.component)
        if component is None:  # a member that a Scaler has just removed
            return []
        machines: list[Machine] = []
        for _, peer in named_peers(component, interface):
            machines.extend(self._machines_of(peer) or self._addresses_from_peer(peer, interface, len(machines)))
        # The parent application may have bound a machine.
        parent_signals = parent_signal_values(
            self.job.manifest, self.job.parent_signals, component, f"{interface}.{NETWORKS}"
        )
        for networks in parent_signals.values():
            machines.extend(self._addresses_from(networks, interface, len(machines)))
        return machines

    def _machines_of(self, peer: Peer) -> list[Machine]:
        """Return the machines of a peer that is a `compute.Instance` of this instance."""
        paths = dict.fromkeys(target.component for target in peer.pins.values())
        return [
            machine
            for path in paths
            if self.job.component(path).type == COMPUTE
            for machine in self.job.state.component(path).machines
        ]

    def _addresses_from_peer(self, peer: Peer, role: str, place: int) -> list[Machine]:
        """Return the machine that a peer's signal `networks` describes."""
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
    """Return the signal `networks` of a `compute.Instance` (language §4)."""
    return {_PUBLIC: {_IP: machine.host}, _PRIVATE: {_IP: machine.inner_host}}


async def release(
    job: JobRun, context: ProviderContext, machines: Iterable[Machine]
) -> tuple[list[Machine], list[str]]:
    """Release machines; return the released ones, and a message for each failure.

    Adopted machines keep running.
    """
    machines = list(machines)

    async def release_one(machine: Machine) -> str | None:
        if machine.adopted:
            return None
        try:
            await job.deps.machines.named(machine.provider).release(context, machine)
        except Exception as error:  # noqa: BLE001 - a provider is foreign code; the other machines must go anyway
            return f"Can't release machine {machine.host} ({machine.id}, role {machine.role!r}): {describe(error)}"
        return None

    outcomes = await gather_bounded(map(release_one, machines), limits.RELEASES_AT_ONCE)
    released = [machine for machine, failure in zip(machines, outcomes, strict=True) if failure is None]
    return released, [failure for failure in outcomes if failure is not None]


async def release_component(job: JobRun, path: str) -> list[str]:
    """Release all machines of a component; return a message for each that is left."""
    released, left = await release(job, _teardown_context(job, path), job.state.component(path).machines)
    job.state.remove_machines(path, released)
    return left


async def release_all(job: JobRun) -> list[str]:
    """Release all machines of an instance, including unrecorded ones, within RELEASE_S.

    Returns a message for each that is left.
    """
    try:
        async with asyncio.timeout(limits.RELEASE_S):
            failures = [
                in_component(path, failure)
                for path in dict.fromkeys(path for path, _ in job.state.machines())
                for failure in await release_component(job, path)
            ]
            return failures + await _release_orphans(job)
    except TimeoutError:
        left = ", ".join(f"{machine.host} ({machine.id})" for _, machine in job.state.machines()) or "unknown"
        return [f"Can't release all machines within {limits.RELEASE_S:g} s. Left: {left}."]


async def _release_orphans(job: JobRun) -> list[str]:
    """Release machines without a record, whose step was interrupted and never finished."""
    context = _teardown_context(job, "")
    try:
        provider = provider_of(job)
    except ActionFailed as error:
        if job.state.had_machines:
            return [f"Can't search for unrecorded machines: {error}"]
        context.log("info", f"No machine was created, so none is searched for. {error}")
        return []
    if provider is None:
        return []
    try:
        known = {machine.id for _, machine in job.state.machines()}
        orphans = [machine for machine in await provider.orphans(context) if machine.id not in known]
        return (await release(job, context, orphans))[1]
    except Exception as error:  # noqa: BLE001 - a provider is foreign code; the destroy must continue
        return [f"Can't search for unrecorded machines: {describe(error)}"]


async def stop_commands(job: JobRun) -> None:
    """Stop the commands of a cancelled job on its components' machines and on bound ones."""
    if not any(_is_executing(job, path) for path in job.journal.traces()) or provider_of(job) is None:
        return

    async def stop(machine: Machine, context: ProviderContext) -> None:
        try:
            await job.deps.machines.named(machine.provider).stop(context, machine)
        except Exception as error:  # noqa: BLE001 - a provider is foreign code; the job's end must continue
            context.log("warning", describe(error))

    found: dict[str, tuple[Machine, ProviderContext]] = {}
    for path in job.manifest.order:
        context = _teardown_context(job, path)
        for machine in ComponentMachines(job, path, context, RELEASE).reachable():
            found.setdefault(machine.host, (machine, context))
    try:
        async with asyncio.timeout(limits.MACHINES_STOP_S):
            await gather_bounded(starmap(stop, found.values()), limits.RELEASES_AT_ONCE)
    except TimeoutError:
        job.journal.log(
            None,
            "warning",
            f"Not all machines answered within {limits.MACHINES_STOP_S:g} s. Commands may still be running there.",
        )


def _is_executing(job: JobRun, path: str) -> bool:
    record = job.journal.find(path)
    return record is not None and record.status is StepStatus.EXECUTING


def _teardown_context(job: JobRun, component: str) -> ProviderContext:
    path = workflow_path(component, RELEASE)
    return provider_context(job, component, RELEASE, path, lambda level, text: job.journal.log(None, level, text))


def _address(networks: Any, name: str) -> str:
    network = networks.get(name) if isinstance(networks, Mapping) else None
    address = network.get(_IP) if isinstance(network, Mapping) else None
    return address if isinstance(address, str) else ""
