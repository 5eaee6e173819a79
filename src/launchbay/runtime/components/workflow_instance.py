"""`workflow.Instance`: a component whose behaviour is its workflows (manifest-language §5)."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.job import workflow_path
from launchbay.runtime.components.receiving import wait_for_launch
from launchbay.runtime.declared import all_as_declared
from launchbay.runtime.run import CommandCall, JobRun
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
        await wait_for_launch(job, component, call)
        run = WorkflowRun(job, component, workflow, call.path, call.depth, call.is_over)
        pin = component.pins.get(f"{call.interface}.{call.command}")
        if pin is None or (signature := pin.type.signature) is None:
            return await run.run(call.arguments)

        def tell(problem: str) -> None:
            if not call.is_over:
                job.journal.log(call.path, "warning", f"The result {problem}")

        returned = await run.run(all_as_declared(signature.arguments, call.arguments))
        return all_as_declared(signature.results, returned, tell)

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
