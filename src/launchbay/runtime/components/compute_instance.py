"""`compute.Instance`: one machine, created at launch and released with the instance (manifest-language §4)."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.actions.output import LiveLog
from launchbay.errors import ActionFailed, WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.durations import parse_duration_s
from launchbay.model.job import step_path, workflow_path
from launchbay.model.machine import Machine, MachineSpec, RemoteCommand
from launchbay.model.types import PinKind
from launchbay.planning.names import LAUNCH
from launchbay.runtime.components.references import wait_for_launch
from launchbay.runtime.contract import CommandCall, JobRun
from launchbay.runtime.machines import NETWORKS, PROVISION, ComponentMachines, networks, provider_context
from launchbay.runtime.step import run_recorded

ROLE = "compute"
_CONFIGURATION = "configuration"
EXEC, PUT_FILE, GET_FILE = "exec", "put-file", "get-file"


class ComputeInstance:
    """Creates a machine, publishes its `networks`, and runs commands on it.

    Components bound to it see the machine in the role named like their interface (`runtime/machines.py`). It is
    released with all machines of the instance, so `destroy` does nothing.
    """

    async def launch(self, job: JobRun, component: Component) -> None:
        """Create the machine unless an earlier launch did. Raises WorkflowFailed."""
        if not job.state.component(component.path).machines:
            path = step_path(workflow_path(component.path, LAUNCH), PROVISION)
            outputs = await run_recorded(job, path, PROVISION, lambda: _provision(job, component, path))
            job.state.add_machines(component.path, msgspec.convert(outputs["machines"], list[Machine]))
        _publish(job, component)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run a command, or put or get a file. Raises WorkflowFailed."""
        work = _COMMANDS.get(call.command)
        if work is None:
            known = ", ".join(_COMMANDS)
            raise WorkflowFailed(
                f"component {component.path!r} has no command {call.command!r}. Its commands: {known}."
            )
        await wait_for_launch(job, component, call)
        path = step_path(call.path, call.command)

        async def run() -> Mapping[str, Any]:
            machines = job.state.component(component.path).machines
            if not machines:
                raise ActionFailed(f"Component {component.path!r} has no machine. Launch it first.", retryable=False)
            return await work(_machines(job, component, call.command, path), machines[0], call.arguments)

        return await run_recorded(job, path, call.command, run, is_replay=call.is_replay)

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Keep the machine: a new size, image or login applies to the next one."""
        _publish(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Do nothing: the machine is released with all others."""


async def _provision(job: JobRun, component: Component, path: str) -> Mapping[str, Any]:
    configured = job.configuration.get(component.path, {})
    machines = _machines(job, component, component.type, path)
    for key, pin in component.pins.items():
        is_written = key in component.configuration or key in configured
        if pin.type.kind is PinKind.CONFIGURATION and is_written and configured.get(key) is None:
            machines.context.log("warning", f"{key} has no value, so the default of the provider is used.")
    spec = MachineSpec(
        hardware=str(configured.get(f"{_CONFIGURATION}.hardwareId") or ""),
        image=str(configured.get(f"{_CONFIGURATION}.imageId") or ""),
        login=str(configured.get(f"{_CONFIGURATION}.login") or ""),
        location=str(configured.get(f"{_CONFIGURATION}.locationId") or ""),
        name_prefix=component.path,
        settings={key.partition(".")[2]: value for key, value in configured.items() if value is not None},
    )
    made = await machines.provision(ROLE, 1, spec)
    return {"machines": [msgspec.to_builtins(machine) for machine in made]}


async def _exec(machines: ComponentMachines, machine: Machine, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    timeout = arguments.get("timeout")
    try:
        timeout_s = None if timeout is None else parse_duration_s(timeout)
    except ValueError as error:
        raise ActionFailed(f"Argument 'timeout': {error}", retryable=False) from None
    line = _text(arguments, "command")
    with LiveLog(lambda level, text, _: machines.context.log(level, text), machines.job.deps.clock) as live:
        command = RemoteCommand(line=line, timeout_s=timeout_s, sink=live.for_host(machine.host))
        result = await machines.run(machine, command)
    return {"stdOut": result.stdout, "stdErr": result.stderr, "exitCode": result.exit_code}


async def _put_file(machines: ComponentMachines, machine: Machine, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        content = base64.b64decode(_text(arguments, "payload"), validate=True)
    except ValueError:
        raise ActionFailed("Argument 'payload' must be base64.", retryable=False) from None
    await machines.put_file(machine, _text(arguments, "filename"), content)
    return {}


async def _get_file(machines: ComponentMachines, machine: Machine, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    content = await machines.get_file(machine, _text(arguments, "filename"))
    return {"payload": base64.b64encode(content).decode()}


_COMMANDS = {EXEC: _exec, PUT_FILE: _put_file, GET_FILE: _get_file}


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ActionFailed(f"Argument {name!r} must be a string.", retryable=False)
    return value


def _machines(job: JobRun, component: Component, action: str, path: str) -> ComponentMachines:
    def log(level: str, text: str) -> None:
        job.journal.log(path, level, text)

    context = provider_context(job, component.path, action, path, log)
    return ComponentMachines(job, component.path, context, f"Component {component.path!r}")


def _publish(job: JobRun, component: Component) -> None:
    machines = job.state.component(component.path).machines
    if not machines:
        return
    for pin in component.pins.values():
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.name == NETWORKS:
            job.state.publish(component.path, pin.interface, pin.name, networks(machines[0]))
