"""`container`: machines that are containers of the Docker or Podman of this server (manifest-language §9).

The name of a container is made of the context's tag and the machine's number, and its labels are the marks: an
interrupted `provision` finds what it made, and the engine itself refuses to make one twice. All servers of one
installation need the same engine, for a container is known to its engine alone.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import httpx
import msgspec

from launchbay import limits
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.machines.chef import converge
from launchbay.machines.containers.engine_api import ContainerShell, EngineApi, EngineRefused
from launchbay.machines.containers.order import ContainerLimits, ContainerOrder, read_container_order
from launchbay.machines.contract import (
    INSTALLATION,
    INSTANCE,
    ORGANIZATION,
    TAG,
    ProviderContext,
    Shell,
    ShellLost,
    TaggedMachine,
    Tags,
)
from launchbay.machines.remote_commands import (
    LineSplitter,
    OutputBuffer,
    RemoteRun,
    gather_bounded,
    job_prefix,
    stop_runs,
)
from launchbay.model.machine import ChefRun, CommandResult, ImageRun, Machine, MachineSpec, RemoteCommand


def explain_error(error: EngineRefused, image: str) -> ActionFailed:
    """Return the refusal of a container, with what to do where its image is missing."""
    told = str(error).lower()
    if error.status == httpx.codes.NOT_FOUND and ("image" in told or image.lower() in told):
        return ActionFailed(
            f"The container engine has no image {image!r}.",
            "An administrator brings it there, as with 'podman pull' or 'docker pull'; nothing is pulled by itself.",
            retryable=False,
        )
    return error


# A container for one command: made, followed to its end, and removed (`container.run`).
#
# Its name is made of the context's tag and attempt, so a recovery after a crash finds the container that it began, and
# follows it from its first line again; nothing is started twice. Its labels are those of machines: what a cancelled job
# leaves behind in a crash goes with the instance, or with the sweep.

ROLE = "container.run"
_CREATED = "created"
_OTHER_NAMES_OF_CREATED = frozenset((_CREATED, "configured", "initialized"))  # Podman's, before the first start


async def run_image(
    engine: EngineApi, installation: str, allowed: ContainerLimits, context: ProviderContext, run: ImageRun
) -> CommandResult:
    """Run a command in an image to its end. Raises ActionFailed when it cannot begin or takes too long."""
    order = _order(run, allowed)
    tags = Tags.of(installation, context, ROLE, context.attempt)
    name = _run_container_name(tags)
    timeout_s = limits.COMMAND_S if run.timeout_s is None else run.timeout_s
    is_to_stay = False
    try:
        async with asyncio.timeout(timeout_s):
            container = await _created(engine, order, tags, name, run)
            return await _follow(engine, context, container, run)
    except TimeoutError:
        raise ActionFailed(f"The container of {run.image} took longer than {timeout_s:g} s and was ended.") from None
    except asyncio.CancelledError:
        is_to_stay = context.handed_over()
        raise
    finally:
        if not is_to_stay:
            await asyncio.shield(engine.remove(name))


async def _created(engine: EngineApi, order: ContainerOrder, tags: Tags, name: str, run: ImageRun) -> str:
    """Create and start the container, or take the one that an interrupted attempt began."""
    try:
        container = await engine.create(name, _body(order, tags, name, run))
    except EngineRefused as error:
        try:
            known = await engine.inspect(name)
        except EngineRefused:
            raise explain_error(error, run.image) from None
        if Tags.parse(known.configuration.labels or {}) != tags:
            raise explain_error(error, run.image) from None
        container = known.id
        if known.state.status not in _OTHER_NAMES_OF_CREATED:
            return container
    try:
        await engine.start(container)
    except EngineRefused as error:
        raise ActionFailed(
            f"The command of the container of {run.image} cannot be started: {error}", retryable=error.retryable
        ) from None
    return container


async def _follow(engine: EngineApi, context: ProviderContext, container: str, run: ImageRun) -> CommandResult:
    out, err = (LineSplitter(name, run.sink, context.redaction_stream()) for name in ("stdout", "stderr"))
    kept_out, kept_err = OutputBuffer(run.keep_bytes), OutputBuffer(run.keep_bytes)

    def stdout(data: bytes) -> None:
        out(data)
        kept_out(data)

    def stderr(data: bytes) -> None:
        err(data)
        kept_err(data)

    await engine.logs(container, stdout, stderr)
    out.close()
    err.close()
    exit_code = await engine.wait(container)
    if (await engine.inspect(container)).state.oom_killed:
        raise ActionFailed(
            f"The container of {run.image} needed more memory than it has and was killed.",
            "Give it a larger 'size'; the operator's bound is the setting container_memory_mb.",
        )
    return CommandResult(_text(kept_out), _text(kept_err), exit_code)


def _order(run: ImageRun, allowed: ContainerLimits) -> ContainerOrder:
    settings: dict[str, Any] = {"environment": dict(run.environment)}
    if run.network:
        settings["network"] = run.network
    spec = MachineSpec(image=run.image, hardware=run.size, settings={"providerSettings": settings})
    order = read_container_order(spec, allowed)
    if order.size_is_unknown:
        raise ActionFailed(
            f"The parameter 'size' is wrong: {run.size!r} is no size of a container; expected one like 0.5x256m.",
            retryable=False,
        )
    return order


def _body(order: ContainerOrder, tags: Tags, name: str, run: ImageRun) -> Mapping[str, Any]:
    body = order.body(tags, name)
    for each in ("Entrypoint", "Cmd"):
        body.pop(each, None)
    if run.command:
        body |= {"Entrypoint": [], "Cmd": list(run.command)}
    if run.directory:
        body["WorkingDir"] = run.directory
    return body


def _run_container_name(tags: Tags) -> str:
    digest = hashlib.sha256(f"{tags.installation}/{tags.tag}".encode()).hexdigest()[:20]
    return f"launchbay-run-{digest}-{tags.number}"


def _text(kept: OutputBuffer) -> str:
    return kept.data.decode("utf-8", "replace")


NAME = "container"
_REPORTED_BYTES = 4 * limits.KIB


class Installation(Protocol):
    """Tells which installation this is."""

    async def installation(self) -> str:
        """Return its id."""
        ...


class ContainerMachines:
    """The provider; one object serves all instances. `may_use` tells for whom the operator lets it work."""

    name = NAME

    def __init__(
        self,
        engine: EngineApi,
        ledger: Installation,
        allowed: ContainerLimits,
        egress: EgressClient,
        may_use: Callable[[ProviderContext], bool] = lambda _: True,
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._allowed = allowed
        self._egress = egress
        self._may_use = may_use

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Make containers, and return when they run; after a failure none of them is left."""
        self._check(context)
        order = read_container_order(spec, self._allowed)
        if order.size_is_unknown:
            context.log(
                "info",
                f"A container knows no size {spec.hardware!r}; it gets {order.cpus:g} processors and "
                f"{order.memory_mb} MiB. A size of a container is written like 0.5x256m.",
            )
        installation = await self._ledger.installation()
        own = {INSTALLATION: installation, INSTANCE: context.instance_id, TAG: context.tag}
        context.log("info", f"{len(numbers)} containers of {order.image} for the role {role!r}.")

        async def make(number: int) -> Machine:
            return await self._create(order, role, spec.login, Tags.of(installation, context, role, number))

        try:
            return await gather_bounded(map(make, numbers), limits.ENGINE_CALLS)
        except ActionFailed as error:
            left = await self._remove(context, own)
            raise ActionFailed(*error.messages, *left, retryable=error.retryable) from None

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take containers of the same organization, known by their addresses or names; others are nobody's business."""
        self._check(context)
        own = {INSTALLATION: await self._ledger.installation(), ORGANIZATION: context.organization_id}
        known: dict[str, Machine] = {}
        for each in await self._listed(own):
            machine = each.machine
            known |= {name: machine for name in (machine.host, machine.private_ip, machine.host_name) if name}
        missing = [address for address in addresses.values() if address not in known]
        if missing:
            raise ActionFailed(
                f"No container of this organization has the address {missing[0]!r}, so it cannot be adopted.",
                "Give the address of a machine that an instance of this organization made.",
                retryable=False,
            )
        return [
            _replaced(known[address], role=role, number=number, login=spec.login)
            for number, address in addresses.items()
        ]

    async def release(self, context: ProviderContext, machine: Machine) -> None:  # noqa: ARG002 - contract
        """Remove a container. One that is gone already is a success."""
        await self._engine.remove(machine.id)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return all containers of the context's instance."""
        own = {INSTALLATION: await self._ledger.installation(), INSTANCE: context.instance_id}
        return [found.machine for found in await self._listed(own)]

    async def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        """Return every container of this installation."""
        try:
            several = await self._listed({INSTALLATION: await self._ledger.installation()})
        except ActionFailed as error:
            context.log("warning", str(error))
            return
        for each in several:
            yield each

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:  # noqa: ARG002 - contract
        """Tell whether a container that was found still is there."""
        try:
            await self._engine.inspect(machine.id)
        except EngineRefused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end, or go on with the one that this attempt began."""
        return await RemoteRun(context, machine, lambda: self._open(machine)).command(command)

    async def run_image(self, context: ProviderContext, run: ImageRun) -> CommandResult:
        """Run a command in an image to its end, or go on with the container that this attempt began."""
        self._check(context)
        return await run_image(self._engine, await self._ledger.installation(), self._allowed, context, run)

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """End every command that the context's job left running, with its process group."""
        await stop_runs(context, machine, lambda: self._open(machine), job_prefix(context))

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        return await converge(context, machine, chef, lambda: self._open(machine), self._egress)

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:  # noqa: ARG002 - contract
        """Write a file, over one that is there."""
        if len(content) > limits.MACHINE_FILE_BYTES:
            raise ActionFailed(f"A file may have {limits.MACHINE_FILE_BYTES} bytes at most.", retryable=False)
        async with _address(machine):
            await self._shell(machine).put(name, content)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:  # noqa: ARG002 - contract
        """Read a file."""
        async with _address(machine):
            return await self._shell(machine).get(name, limits.MACHINE_FILE_BYTES)

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        """Let every action run."""
        return None

    def _check(self, context: ProviderContext) -> None:
        if not self._may_use(context):
            raise ActionFailed(
                "The operator of this server does not let this environment make containers.",
                "An administrator adds it to the setting container_environments, or the policy machines.provider names "
                "another provider.",
                retryable=False,
            )

    async def _create(self, order: ContainerOrder, role: str, login: str, tags: Tags) -> Machine:
        """Create and start a container, or take the one that an interrupted attempt created."""
        name = _machine_container_name(tags)
        try:
            container = await self._engine.create(name, order.body(tags, order.host_name(role, tags.number)))
        except EngineRefused as error:
            if not await self._exists(name, tags):
                raise explain_error(error, order.image) from None
            container = name
        try:
            await self._engine.start(container)
        except EngineRefused as error:
            raise explain_error(error, order.image) from None
        known = await self._engine.inspect(container)
        address = known.networks.address()
        machine = Machine(
            id=known.id,
            role=role,
            provider=self.name,
            number=tags.number,
            private_ip=address,
            host_name=(known.configuration.hostname or name) if address else name,
            login=login,
        )
        await self._answers(machine, order)
        return machine

    async def _exists(self, name: str, tags: Tags) -> bool:
        """Tell whether an interrupted attempt created the container. Engines say in many ways that a name is taken."""
        try:
            known = await self._engine.inspect(name)
        except EngineRefused:
            return False
        return Tags.parse(known.configuration.labels or {}) == tags

    async def _answers(self, machine: Machine, order: ContainerOrder) -> None:
        """Look whether the container goes on running and has a shell. Raises ActionFailed."""
        stdout, stderr = OutputBuffer(_REPORTED_BYTES), OutputBuffer(_REPORTED_BYTES)
        reason = ""
        try:
            async with _address(machine):
                if await self._shell(machine).script("exit 0", stdout, stderr) == 0:
                    return
            reason = (stderr.data or stdout.data).decode("utf-8", "replace").strip()
        except ActionFailed as error:
            reason = str(error)
        raise ActionFailed(
            f"The container of {order.image} ended at once, or has no POSIX shell 'sh' and no 'head': {reason[:300]}",
            "A command in 'providerSettings' must go on running, and commands of workflows need a shell.",
        )

    async def _remove(self, context: ProviderContext, own: Mapping[str, str]) -> list[str]:
        try:
            standing = await self._listed(own)
            for each in standing:
                context.log("info", f"Removes the container {each.machine.host_name} again.")
            await gather_bounded((self._engine.remove(each.machine.id) for each in standing), limits.ENGINE_CALLS)
        except ActionFailed as error:
            return [f"Containers may be left, for the sweep to find: {error}"]
        return []

    async def _listed(self, labels: Mapping[str, str]) -> list[TaggedMachine]:
        found: list[TaggedMachine] = []
        for known in await self._engine.labelled(labels):
            tags = Tags.parse(known.labels or {})
            if tags is None:
                continue
            machine = Machine(
                id=known.id,
                role=tags.role,
                provider=self.name,
                number=tags.number,
                private_ip="" if known.networks is None else known.networks.address(),
                host_name=_machine_container_name(tags),
            )
            found.append(TaggedMachine(machine, tags, datetime.fromtimestamp(known.created, UTC)))
        return found

    def _shell(self, machine: Machine) -> ContainerShell:
        return ContainerShell(self._engine, machine.id, machine.host, machine.login)

    @asynccontextmanager
    async def _open(self, machine: Machine) -> AsyncIterator[Shell]:
        yield self._shell(machine)


@asynccontextmanager
async def _address(machine: Machine) -> AsyncIterator[None]:
    """Bound the time of what is tried once, and tell a way that broke as its failure."""
    try:
        async with asyncio.timeout(limits.ENGINE_CALL_S):
            yield
    except ShellLost as error:
        raise ActionFailed(f"The way to {machine.host} broke: {error}.") from error
    except TimeoutError:
        raise ActionFailed(f"{machine.host} did not answer within {limits.ENGINE_CALL_S:g} s.") from None


def _machine_container_name(tags: Tags) -> str:
    """Return the name of a container: the same for the same context and number, and no other's."""
    return f"launchbay-{hashlib.sha256(f'{tags.installation}/{tags.tag}'.encode()).hexdigest()[:20]}-{tags.number}"


def _replaced(machine: Machine, **more: Any) -> Machine:
    return msgspec.structs.replace(machine, **more, adopted=True)
