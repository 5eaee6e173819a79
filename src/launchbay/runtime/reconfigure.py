"""Bringing a live instance from one configuration to another (reference §4, configuration; language §5 and §7).

What is not there any more stops, what is new starts, what stays takes over its new values, and then the workflows run
that the changed pins trigger. Components that stay keep their signals and variables.
"""

from dataclasses import dataclass, replace

from launchbay.errors import WorkflowFailed
from launchbay.manifest.configuration import Change, ComponentChange, Configured, difference, restarting, triggered
from launchbay.runtime.components.workflow_instance import run_triggered
from launchbay.runtime.destroy import destroy_left_behind, take_down
from launchbay.runtime.graph import Graph
from launchbay.runtime.launch import launch
from launchbay.runtime.run import JobRun


@dataclass(frozen=True, slots=True)
class _Stages:
    stops: list[ComponentChange]
    starts: list[str]
    stays: list[ComponentChange]


async def reconfigure(job: JobRun) -> None:
    """Carry the reconfiguration out. Raises WorkflowFailed.

    A triggered workflow whose status is not propagated fails the job, but not the instance (`propagates`).
    """
    after = Configured(job.manifest, job.configuration, job.links)
    # A submodule that failed is reconfigured with nothing new: only what never came up gets another chance.
    before = job.before or after
    changes = restarting(difference(before, after), job.state.was_launched)
    for change in changes:
        if change.change is Change.CHANGES:
            job.state.unhide(change.path, change.changed_pins)
    stages = _stages(changes)
    failures = await destroy_left_behind(job, spared=list(before.links.values()))
    failures += await _stop(job, before, stages.stops)
    if failures:
        raise WorkflowFailed(" ".join(failures))
    for change in stages.stays:
        component = job.component(change.path)
        try:
            await job.component_type(component).reconfigure(job, component)
        except WorkflowFailed as failure:
            raise WorkflowFailed(f"Component {change.path!r}: {failure}") from failure
    if stages.starts:
        await launch(job, stages.starts)
    await _run_triggers(job, changes)


async def take_down_former(job: JobRun) -> list[str]:
    """Take down what a reconfiguration that never got its turn was to take down, and return what went wrong."""
    if job.before is None:
        return []
    changes = difference(job.before, Configured(job.manifest, job.configuration, job.links))
    return await _stop(job, job.before, [each for each in changes if each.change is Change.STOPS])


def _stages(changes: list[ComponentChange]) -> _Stages:
    stages = _Stages([], [], [])
    for change in changes:
        if change.change is Change.STOPS:
            stages.stops.append(change)
        elif change.change is Change.STARTS:
            stages.starts.append(change.path)
        else:
            stages.stays.append(change)
    return stages


async def _stop(job: JobRun, before: Configured, stops: list[ComponentChange]) -> list[str]:
    """Destroy what is not there any more, as it was configured, and forget it; return what went wrong."""
    former = replace(job, graph=Graph(before.manifest, before.configuration), links=before.links)
    failures: list[str] = []
    for change in stops:
        component = before.manifest.components[change.path]
        try:
            await take_down(former, component)
        except WorkflowFailed as failure:
            failures.append(f"Component {change.path!r} could not be taken down: {failure}")
        else:
            job.state.forget(change.path)
    return failures


async def _run_triggers(job: JobRun, changes: list[ComponentChange]) -> None:
    failures: list[str] = []
    propagates = False
    for path, workflow in triggered(job.manifest, changes):
        component = job.component(path)
        try:
            await run_triggered(job, component, workflow)
        except WorkflowFailed as failure:
            failures.append(f"Component {path!r}: {failure}")
            propagates = propagates or workflow in component.propagate_status
    if failures:
        raise WorkflowFailed(" ".join(failures), propagates=propagates)
