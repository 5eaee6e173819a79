"""`workflow.Instance`: a component whose behaviour is its workflows (manifest-language §5)."""

import asyncio
from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.manifest.graph import Component
from launchbay.runtime.run import CommandCall, JobRun, WorkflowFailed
from launchbay.runtime.signals import required_components
from launchbay.runtime.workflow import WorkflowRun

LAUNCH = "launch"
DESTROY = "destroy"


class WorkflowInstance:
    """Runs workflows `launch` and `destroy`, where the manifest has them, and those named like command pins."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Run the workflow `launch`. Raises WorkflowFailed."""
        await self._run_if_present(job, component, LAUNCH)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the workflow named like the command pin; what it returns are the results. Raises WorkflowFailed."""
        workflow = component.workflows.get(call.command)
        if workflow is None:
            raise WorkflowFailed(
                f"component {component.path!r} offers the command {call.command!r} but has no workflow of that name; "
                "add it."
            )
        await _wait_for_launch(job, component, call)
        path = f"{call.path}#{call.command}" if call.sender is not None else f"{component.path}#{call.command}"
        return await WorkflowRun(job, component, workflow, path, call.depth).run(call.arguments)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Run the workflow `destroy`. Raises WorkflowFailed."""
        await self._run_if_present(job, component, DESTROY)

    async def _run_if_present(self, job: JobRun, component: Component, name: str) -> None:
        workflow = component.workflows.get(name)
        if workflow is not None:
            await WorkflowRun(job, component, workflow, f"{component.path}#{name}", 0).run({})


async def _wait_for_launch(job: JobRun, component: Component, call: CommandCall) -> None:
    """Let a command that comes during the instance's launch wait until its receiver has been launched."""
    if job.state.is_launched(component.path) or job.plan.kind != "launch":
        return
    if call.sender is not None and call.sender in _needed_before(job, component):
        raise WorkflowFailed(
            f"component {call.sender!r} sends {call.command!r} to {component.path!r}, whose own launch waits for "
            f"{call.sender!r}; "
            "send the command after the launch, or drop the interface from `required`."
        )
    try:
        async with asyncio.timeout(limits.COMMAND_WAITS_FOR_LAUNCH_S):
            while not job.state.is_launched(component.path):
                if job.state.is_given_up:
                    raise WorkflowFailed(
                        f"component {component.path!r} was not launched, so it cannot run {call.command!r}."
                    )
                await job.state.changed()
    except TimeoutError:
        raise WorkflowFailed(
            f"component {component.path!r} was not launched within {limits.COMMAND_WAITS_FOR_LAUNCH_S:g} s, "
            f"so it cannot run {call.command!r}."
        ) from None


def _needed_before(job: JobRun, component: Component) -> set[str]:
    """Return every component that must be launched before this one, the indirect ones too."""
    found: set[str] = set()
    open_paths = [component.path]
    while open_paths:
        for provider in required_components(job.component(open_paths.pop())) - found:
            found.add(provider)
            open_paths.append(provider)
    return found
