"""Does what a job's plan says."""

import asyncio
from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.scaling import template_path
from launchbay.model.job import workflow_path
from launchbay.runtime.calls import together
from launchbay.runtime.components.workflow_instance import run_triggered
from launchbay.runtime.destroy import destroy
from launchbay.runtime.launch import launch
from launchbay.runtime.linked import look_at_linked
from launchbay.runtime.reconfigure import reconfigure, take_down_former
from launchbay.runtime.run import CommandCall, JobRun


async def perform(job: JobRun) -> Mapping[str, Any]:
    """Carry the plan out on the instance's state, and return the results of a command by name.

    Raises WorkflowFailed with the instance's error message.
    """
    if job.plan.kind in {"command", "trigger"}:
        await look_at_linked(job)
    match job.plan.kind:
        case "launch":
            await launch(job)
        case "destroy":
            await _destroy(job)
        case "command":
            return await _run_command(job)
        case "reconfigure":
            await reconfigure(job)
        case "trigger":
            await _run_triggered(job)
        case "refused":
            raise WorkflowFailed(job.plan.refusal or "The work was refused.")
    return {}


async def _destroy(job: JobRun) -> None:
    failures = await take_down_former(job)
    try:
        await destroy(job)
    except WorkflowFailed as failure:
        failures.append(str(failure))
    if failures:
        raise WorkflowFailed(" ".join(failures))


async def _run_command(job: JobRun) -> Mapping[str, Any]:
    path, name = job.plan.component, job.plan.component_workflow
    assert path is not None
    assert name is not None
    if path in job.manifest.components:
        return await _command(job, path, name)
    # It is bound to what a Scaler holds, and means every member.
    paths = [each for each in job.manifest.order if template_path(each) == path]
    if not paths:
        raise WorkflowFailed(f"Component {path!r} has no members, so nothing can run {name!r}.")
    answers = await asyncio.gather(*(_command(job, each, name) for each in paths), return_exceptions=True)
    # Every member has answered by now; the first failure in their order speaks for all.
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return together([answer for answer in answers if not isinstance(answer, BaseException)])


async def _command(job: JobRun, path: str, name: str) -> Mapping[str, Any]:
    component = job.component(path)
    call = CommandCall(
        sender=None,
        interface=job.plan.interface,
        command=name,
        arguments=job.plan.arguments,
        path=workflow_path(path, name),
        depth=0,
    )
    try:
        return await job.component_type(component).command(job, component, call)
    except WorkflowFailed as failure:
        raise WorkflowFailed(f"Component {path!r}: {failure}") from failure


async def _run_triggered(job: JobRun) -> None:
    path, name = job.plan.component, job.plan.component_workflow
    assert path is not None
    assert name is not None
    if path not in job.manifest.components:
        raise WorkflowFailed(f"There is no component {path!r} any more.")
    try:
        await run_triggered(job, job.component(path), name)
    except WorkflowFailed as failure:
        raise WorkflowFailed(f"Component {path!r}: {failure}") from failure
