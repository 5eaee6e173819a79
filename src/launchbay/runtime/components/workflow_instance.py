"""`workflow.Instance`: a component whose behaviour is its workflows (manifest-language §5)."""

import asyncio
from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.manifest.graph import Component
from launchbay.model.step_path import workflow_path
from launchbay.runtime.run import CommandCall, JobRun, WorkflowFailed
from launchbay.runtime.signals import required_components
from launchbay.runtime.triggers import see, signal_triggers
from launchbay.runtime.workflow import WorkflowRun

LAUNCH = "launch"
DESTROY = "destroy"


class WorkflowInstance:
    """Runs workflows `launch` and `destroy`, where the manifest has them, and those named like command pins."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Run the workflow `launch`. Raises WorkflowFailed."""
        await _run_if_present(job, component, LAUNCH, tuple(signal_triggers(component)))

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the workflow named like the command pin; what it returns are the results. Raises WorkflowFailed."""
        workflow = component.workflows.get(call.command)
        if workflow is None:
            raise WorkflowFailed(
                f"component {component.path!r} offers the command {call.command!r} but has no workflow of that name; "
                "add it."
            )
        await _wait_for_launch(job, component, call)
        return await WorkflowRun(job, component, workflow, call.path, call.depth, call.is_over).run(call.arguments)

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Change nothing: the values reach the workflows, and the triggers of changed pins run after it."""

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Run the workflow `destroy`. Raises WorkflowFailed."""
        await _run_if_present(job, component, DESTROY)


async def run_triggered(job: JobRun, component: Component, name: str) -> None:
    """Run a workflow that a trigger or the manifest's own schedule asks for. Raises WorkflowFailed."""
    if name not in component.workflows:
        raise WorkflowFailed(f"there is no workflow {name!r} any more.")
    marks = tuple(key for key, workflow in signal_triggers(component).items() if workflow == name)
    await _run_if_present(job, component, name, marks)


async def _run_if_present(job: JobRun, component: Component, name: str, marks: tuple[str, ...] = ()) -> None:
    workflow = component.workflows.get(name)
    if workflow is None:
        see(job.manifest, job.state, job.fed, component, marks)
        return
    path = workflow_path(component.path, name)
    await WorkflowRun(job, component, workflow, path, 0, marks=marks).run({})


async def _wait_for_launch(job: JobRun, component: Component, call: CommandCall) -> None:
    """Let a command that comes during the instance's launch wait until its receiver has been launched."""
    state, path = job.state, component.path
    if job.plan.kind != LAUNCH or state.is_launched(path) or call.sender is None or call.sender == path:
        return
    if call.sender in _waited_for(job, path):
        raise WorkflowFailed(
            f"component {call.sender!r} sends {call.command!r} to {path!r}, whose own launch waits for "
            f"{call.sender!r}; send the command after the launch, or drop the interface from `required`."
        )
    try:
        with state.awaiting_launch(call.sender, path):
            async with asyncio.timeout(limits.COMMAND_WAITS_FOR_LAUNCH_S):
                while not state.is_launched(path):
                    if state.is_given_up(path) or (call.is_over and not _was_begun(job, call)):
                        raise WorkflowFailed(f"component {path!r} was not launched, so it cannot run {call.command!r}.")
                    await state.changed()
    except TimeoutError:
        raise WorkflowFailed(
            f"component {path!r} was not launched within {limits.COMMAND_WAITS_FOR_LAUNCH_S:g} s, "
            f"so it cannot run {call.command!r}."
        ) from None


def _was_begun(job: JobRun, call: CommandCall) -> bool:
    """Tell whether a call that is over got through to its receiver, so that the receiver had been launched then."""
    return any(path.startswith(call.path) for path in job.journal.traces())


def _waited_for(job: JobRun, path: str) -> set[str]:
    """Return every component that must be launched before this one is.

    Those are the ones it requires, and the ones whose launch its commands wait for.
    """
    found: set[str] = set()
    open_paths = [path]
    while open_paths:
        each = open_paths.pop()
        for provider in (required_components(job.component(each)) | job.state.awaited_by(each)) - found:
            found.add(provider)
            open_paths.append(provider)
    return found
