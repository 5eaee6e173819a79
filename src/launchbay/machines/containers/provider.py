"""`container`: machines that are containers of this server's Docker or Podman (manifest-language §9).

The name of a container is derived from the context's tag and the machine's number, and its labels are the `Tags`. So an
interrupted `provision` finds what it created, and the engine refuses to create it twice. All servers of an installation
must use the same engine, because only that engine knows its containers.
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
from launchbay.concurrency import gather_bounded
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, NotThereYet
from launchbay.machines.answers import run_script, script
from launchbay.machines.containers.engine_api import ContainerShell, EngineApi, EngineRefused
from launchbay.machines.containers.order import ContainerLimits, ContainerOrder, read_container_order
from launchbay.machines.contract import (
    INSTALLATION,
    INSTANCE,
    ORGANIZATION,
    TAG,
    OnData,
    ProviderContext,
    Shell,
    TaggedMachine,
    Tags,
)
from launchbay.machines.remote_commands import LineSplitter, OutputBuffer, logged_lines
from launchbay.machines.shell import ShellMachines
from launchbay.model.machine import CommandResult, ImageRun, Machine, MachineSpec, PlannedImageRun


def explain_error(error: EngineRefused, image: str) -> ActionFailed:
    """Return the error for a refused container, with the fix if its image is missing."""
    message = str(error).lower()
    if error.status == httpx.codes.NOT_FOUND and ("image" in message or image.lower() in message):
        return ActionFailed(
            f"The container engine has no image {image!r}.",
            "An administrator can add it with 'podman pull' or 'docker pull'. Launchbay doesn't pull images.",
            retryable=False,
        )
    return error


# A container for one command: created, followed to its end, and removed (`container.run`).
#
# Its name is derived from the context's tag and attempt, so a recovery after a crash finds the container and follows it
# from its first line again. It has the labels of a machine: if a crash leaves it behind, it goes with the instance, or
# with the sweep.

ROLE = "container.run"
_CREATED = "created"
_OTHER_NAMES_OF_CREATED = frozenset((_CREATED, "configured", "initialized"))  # Podman's, before the first start


async def run_image(
    engine: EngineApi, installation: str, allowed: ContainerLimits, context: ProviderContext, run: ImageRun
) -> CommandResult:
    """Run a command in an image to its end. Raises ActionFailed if it can't start or takes too long."""
    order = _order(run, allowed)
    tags = Tags.of(installation, context, ROLE, context.attempt)
    name = _container_name(tags, "run-")
    timeout_s = limits.COMMAND_S if run.timeout_s is None else run.timeout_s
    keep = False
    try:
        async with asyncio.timeout(timeout_s):
            container = await _started(engine, order, tags, name, run)
            return await _follow(engine, context, container, run)
    except TimeoutError:
        raise ActionFailed(f"The container of {run.image} took longer than {timeout_s:g} s and was stopped.") from None
    except asyncio.CancelledError:
        keep = context.handed_over()
        raise
    finally:
        if not keep:
            await asyncio.shield(engine.remove(name))


async def _started(engine: EngineApi, order: ContainerOrder, tags: Tags, name: str, run: ImageRun) -> str:
    """Create and start the container, or adopt that of an interrupted attempt."""
    container, status = await _create_or_adopt(engine, name, _body(order, tags, name, run), tags, run.image)
    if status not in _OTHER_NAMES_OF_CREATED:
        return container
    try:
        await engine.start(container)
    except EngineRefused as error:
        raise ActionFailed(
            f"Can't start the command in a container of {run.image}: {error}", retryable=error.retryable
        ) from None
    return container


async def _create_or_adopt(
    engine: EngineApi, name: str, body: Mapping[str, Any], tags: Tags, image: str
) -> tuple[str, str]:
    """Create a container, or find that of an interrupted attempt; return its ID and status."""
    try:
        return await engine.create(name, body), _CREATED
    except EngineRefused as error:  # engines report a taken name in many ways
        try:
            known = await engine.inspect(name)
        except EngineRefused:
            raise explain_error(error, image) from None
        if Tags.parse(known.configuration.labels or {}) != tags:
            raise explain_error(error, image) from None
        return known.id, known.state.status


async def _follow(engine: EngineApi, context: ProviderContext, container: str, run: ImageRun) -> CommandResult:
    kept_out, kept_err = OutputBuffer(run.keep_bytes), OutputBuffer(run.keep_bytes)
    out, err = [await logged_lines(context, f"{container} {name}", name, run.sink) for name in ("stdout", "stderr")]
    await engine.logs(container, _both(out, kept_out), _both(err, kept_err))
    out.close()
    err.close()
    exit_code = await engine.wait(container)
    if (await engine.inspect(container)).state.oom_killed:
        raise ActionFailed(
            f"The container of {run.image} was killed because it ran out of memory.",
            "Set a larger 'size', up to the setting container_memory_mb.",
        )
    return CommandResult(kept_out.text, kept_err.text, exit_code)


def _both(lines: LineSplitter, kept: OutputBuffer) -> OnData:
    """Return what keeps a stream, and logs what the log doesn't have yet.

    The engine begins with the first byte.
    """
    logged_bytes = lines.received

    def take(data: bytes) -> None:
        nonlocal logged_bytes
        kept(data)
        skipped = min(logged_bytes, len(data))
        logged_bytes -= skipped
        if skipped < len(data):
            lines(data[skipped:])

    return take


def _order(run: ImageRun, allowed: ContainerLimits) -> ContainerOrder:
    settings: dict[str, Any] = {"environment": dict(run.environment)}
    if run.network:
        settings["network"] = run.network
    spec = MachineSpec(image=run.image, hardware=run.size, settings={"providerSettings": settings})
    order = read_container_order(spec, allowed)
    if order.size_is_unknown:
        raise ActionFailed(
            f"Invalid 'size' of a container: {run.size!r}. Expected a size such as 0.5x256m.", retryable=False
        )
    return order


def _body(order: ContainerOrder, tags: Tags, name: str, run: ImageRun) -> Mapping[str, Any]:
    body = order.body(tags, name)
    for each in ("Entrypoint", "Cmd"):
        body.pop(each, None)
    if run.image_id:
        body["Image"] = run.image_id
    if run.command:
        body |= {"Entrypoint": [], "Cmd": list(run.command)}
    if run.directory:
        body["WorkingDir"] = run.directory
    return body


def _container_name(tags: Tags, kind: str = "") -> str:
    """Return a container's name: the same for the same step and number, and different from all others."""
    digest = hashlib.sha256(f"{tags.installation}/{tags.tag}".encode()).hexdigest()[:20]
    return f"launchbay-{kind}{digest}-{tags.number}"


NAME = "container"


class Installation(Protocol):
    """The source of the installation's ID."""

    async def installation(self) -> str: ...


class ContainerMachines(ShellMachines):
    """The provider; one object serves all instances. `may_use` returns whether an environment is allowed to use it."""

    name = NAME
    file_timeout_s = limits.ENGINE_CALL_S

    def __init__(
        self,
        engine: EngineApi,
        ledger: Installation,
        allowed: ContainerLimits,
        egress: EgressClient,
        may_use: Callable[[ProviderContext], bool] = lambda _: True,
    ) -> None:
        super().__init__(egress)
        self._engine = engine
        self._ledger = ledger
        self._allowed = allowed
        self._may_use = may_use

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Create containers, and return when they run. Removes all of them after a failure."""
        self._check(context)
        order = read_container_order(spec, self._allowed)
        if order.size_is_unknown:
            context.log(
                "info",
                f"{spec.hardware!r} isn't a size of a container, such as 0.5x256m. Using {order.cpus:g} processors and "
                f"{order.memory_mb} MiB.",
            )
        installation = await self._ledger.installation()
        own = {INSTALLATION: installation, INSTANCE: context.instance_id, TAG: context.tag}
        context.log("info", f"Creating {len(numbers)} containers of {order.image} for the role {role!r}.")
        tags = [Tags.of(installation, context, role, number) for number in numbers]
        creations = [self._create(context, order, role, spec.login, each) for each in tags]
        try:
            return await gather_bounded(creations, limits.ENGINE_CALLS)
        except ActionFailed as error:
            left = await self._remove(context, own)
            raise ActionFailed(*error.messages, *left, retryable=error.retryable) from None

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Adopt containers of the same organization, by address or name."""
        self._check(context)
        own = {INSTALLATION: await self._ledger.installation(), ORGANIZATION: context.organization_id}
        known: dict[str, Machine] = {}
        for each in await self._listed(own):
            machine = each.machine
            known |= {name: machine for name in (machine.host, machine.private_ip, machine.host_name) if name}
        missing = [address for address in addresses.values() if address not in known]
        if missing:
            raise ActionFailed(
                f"Can't adopt {missing[0]!r}: no container of this organization has this address.",
                "Use the address of a machine that an instance of this organization created.",
                retryable=False,
            )
        return [
            msgspec.structs.replace(known[address], role=role, number=number, login=spec.login, adopted=True)
            for number, address in addresses.items()
        ]

    async def release(self, context: ProviderContext, machine: Machine) -> None:  # noqa: ARG002 - contract
        await self._engine.remove(machine.id)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        own = {INSTALLATION: await self._ledger.installation(), INSTANCE: context.instance_id}
        return [found.machine for found in await self._listed(own)]

    async def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        try:
            found = await self._listed({INSTALLATION: await self._ledger.installation()})
        except ActionFailed as error:
            context.log("warning", str(error))
            return
        for each in found:
            yield each

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:  # noqa: ARG002 - contract
        try:
            await self._engine.inspect(machine.id)
        except EngineRefused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    async def run_image(self, context: ProviderContext, run: ImageRun) -> CommandResult:
        self._check(context)
        return await run_image(self._engine, await self._ledger.installation(), self._allowed, context, run)

    async def plan_image(self, context: ProviderContext, run: ImageRun) -> PlannedImageRun:
        self._check(context)
        order = _order(run, self._allowed)
        try:
            image_id = await self._engine.image_id(run.image)
        except EngineRefused as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            raise NotThereYet(*explain_error(error, run.image).messages, retryable=False) from None
        return PlannedImageRun(image_id, order.cpus, order.memory_mb, order.network)

    def _check(self, context: ProviderContext) -> None:
        if not self._may_use(context):
            raise ActionFailed(
                "Containers are not allowed in this environment.",
                "An administrator can add it to the setting container_environments. Or select another provider with "
                "the policy machines.provider.",
                retryable=False,
            )

    async def _create(
        self, context: ProviderContext, order: ContainerOrder, role: str, login: str, tags: Tags
    ) -> Machine:
        name = _container_name(tags)
        body = order.body(tags, order.host_name(role, tags.number))
        container, _ = await _create_or_adopt(self._engine, name, body, tags, order.image)
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
        await self._validate_runnable(context, machine, order)
        return machine

    async def _validate_runnable(self, context: ProviderContext, machine: Machine, order: ContainerOrder) -> None:
        """Raise ActionFailed unless the container keeps running and has a shell."""
        try:
            async with self._open_once(context, machine) as shell:
                answer = await run_script(shell, script("place", key=""), machine.host)
                if answer.code == 0:
                    return
            reason = answer.errors
        except ActionFailed as error:
            reason = str(error)
        raise ActionFailed(
            f"The container of {order.image} ended immediately, or has no 'sh' or no 'head': {reason[:300]}",
            "A command in 'providerSettings' must keep running, and commands of workflows need a shell.",
        )

    async def _remove(self, context: ProviderContext, own: Mapping[str, str]) -> list[str]:
        try:
            created = await self._listed(own)
            for each in created:
                context.log("info", f"Removing the container {each.machine.host_name}, because the step failed.")
            await gather_bounded((self._engine.remove(each.machine.id) for each in created), limits.ENGINE_CALLS)
        except ActionFailed as error:
            return [f"Containers may be left for the sweep: {error}"]
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
                host_name=_container_name(tags),
            )
            found.append(TaggedMachine(machine, tags, datetime.fromtimestamp(known.created, UTC)))
        return found

    @asynccontextmanager
    async def open(self, context: ProviderContext, machine: Machine) -> AsyncIterator[Shell]:  # noqa: ARG002 - contract
        yield ContainerShell(self._engine, machine.id, machine.host, machine.login)
