"""A container for one command: made, followed to its end, and removed (`container.run`).

Its name is made of the errand's tag and attempt, so a recovery after a crash finds the container that it began, and
follows it from its first line again; nothing is started twice. Its labels are those of machines: what a cancelled job
leaves behind in a crash goes with the instance, or with the sweep.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.containers.engine_api import EngineApi, EngineRefused
from launchbay.machines.containers.explained import explained
from launchbay.machines.containers.order import Allowed, ContainerOrder, read_container_order
from launchbay.machines.contract import Errand
from launchbay.machines.live_output import Kept, Lines
from launchbay.machines.marks import Marks
from launchbay.model.machine import CommandResult, ImageRun, MachineSpec

ROLE = "container.run"
_CREATED = "created"
_OTHER_NAMES_OF_CREATED = frozenset((_CREATED, "configured", "initialized"))  # Podman's, before the first start


async def run_image(
    engine: EngineApi, installation: str, allowed: Allowed, errand: Errand, run: ImageRun
) -> CommandResult:
    """Run a command in an image to its end. Raises ActionFailed when it cannot begin or takes too long."""
    order = _order(run, allowed)
    marks = Marks.of(installation, errand, ROLE, errand.attempt)
    name = _name(marks)
    timeout_s = limits.COMMAND_S if run.timeout_s is None else run.timeout_s
    is_to_stay = False
    try:
        async with asyncio.timeout(timeout_s):
            container = await _created(engine, order, marks, name, run)
            return await _followed(engine, errand, container, run)
    except TimeoutError:
        raise ActionFailed(f"The container of {run.image} took longer than {timeout_s:g} s and was ended.") from None
    except asyncio.CancelledError:
        is_to_stay = errand.goes_on()
        raise
    finally:
        if not is_to_stay:
            await asyncio.shield(engine.remove(name))


async def _created(engine: EngineApi, order: ContainerOrder, marks: Marks, name: str, run: ImageRun) -> str:
    """Create and start the container, or take the one that an interrupted attempt began."""
    try:
        container = await engine.create(name, _body(order, marks, name, run))
    except EngineRefused as error:
        try:
            known = await engine.inspect(name)
        except EngineRefused:
            raise explained(error, run.image) from None
        if Marks.read(known.configuration.labels or {}) != marks:
            raise explained(error, run.image) from None
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


async def _followed(engine: EngineApi, errand: Errand, container: str, run: ImageRun) -> CommandResult:
    out, err = (Lines(name, run.sink, errand.covering()) for name in ("stdout", "stderr"))
    kept_out, kept_err = Kept(run.keep_bytes), Kept(run.keep_bytes)

    def stdout(data: bytes) -> None:
        out(data)
        kept_out(data)

    def stderr(data: bytes) -> None:
        err(data)
        kept_err(data)

    await engine.logs(container, stdout, stderr)
    out.end()
    err.end()
    exit_code = await engine.wait(container)
    if (await engine.inspect(container)).state.oom_killed:
        raise ActionFailed(
            f"The container of {run.image} needed more memory than it has and was killed.",
            "Give it a larger 'size'; the operator's bound is the setting container_memory_mb.",
        )
    return CommandResult(_text(kept_out), _text(kept_err), exit_code)


def _order(run: ImageRun, allowed: Allowed) -> ContainerOrder:
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


def _body(order: ContainerOrder, marks: Marks, name: str, run: ImageRun) -> Mapping[str, Any]:
    body = order.body(marks, name)
    for each in ("Entrypoint", "Cmd"):
        body.pop(each, None)
    if run.command:
        body |= {"Entrypoint": [], "Cmd": list(run.command)}
    if run.directory:
        body["WorkingDir"] = run.directory
    return body


def _name(marks: Marks) -> str:
    digest = hashlib.sha256(f"{marks.installation}/{marks.tag}".encode()).hexdigest()[:20]
    return f"launchbay-run-{digest}-{marks.number}"


def _text(kept: Kept) -> str:
    return kept.data.decode("utf-8", "replace")
