"""The end of what steps have made and keep a document of (`actions.contract.Documents`).

It is taken down with the instance, or with the component, by the action that wrote the document, whether or not a
workflow does that.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, TakesDown
from launchbay.errors import ActionFailed, WorkflowFailed
from launchbay.manifest.graph import Component, Workflow
from launchbay.model.job import step_path, workflow_path
from launchbay.runtime.context import RunningStep
from launchbay.runtime.recorded import recorded
from launchbay.runtime.run import JobRun, KeptKey
from launchbay.runtime.workflow import WorkflowRun

_TAKE_DOWN = "take-down"
_NOTHING = Workflow(name=_TAKE_DOWN, parameters={}, steps=(), returns={})


async def take_down_kept(job: JobRun, component: str | None = None) -> list[str]:
    """Take down what documents of a component tell of, or of the whole instance; return a sentence for each failure."""
    try:
        keys = await job.surroundings.kept.of_instance(job)
    except ActionFailed as error:
        return [str(error)]
    failures: list[str] = []
    for key in keys:
        if component is None or key.component == component:
            try:
                await _take_down(job, key)
            except WorkflowFailed as failure:
                what = f"what {key.action} made as {key.name!r} is left"
                failures.append(f"Component {key.component!r}: {what}: {failure}")
    return failures


async def _take_down(job: JobRun, key: KeptKey) -> None:
    path = step_path(workflow_path(key.component, _TAKE_DOWN), f"{key.action} {key.name}")

    async def work() -> Mapping[str, Any]:
        return await _taken_down(job, key, path)

    await recorded(job, path, f"{_TAKE_DOWN} {key.name}", work)


async def _taken_down(job: JobRun, key: KeptKey, path: str) -> Mapping[str, Any]:
    action = job.action(key.action)
    if not isinstance(action, TakesDown):
        raise ActionFailed(f"The action {key.action!r} is not installed here any more.", "Install its package.")
    component = job.manifest.components.get(key.component) or _former(key.component)
    workflow = WorkflowRun(job, component, _NOTHING, workflow_path(key.component, _TAKE_DOWN), depth=0)
    step = RunningStep(workflow, path, key.action, job.surroundings.clock.now())
    try:
        async with asyncio.timeout(limits.TAKE_DOWN_S):
            await action.take_down(ActionCall({}, step), key.name)
    except TimeoutError:
        raise ActionFailed(f"It took longer than {limits.TAKE_DOWN_S:g} s.") from None
    return {}


def _former(path: str) -> Component:
    """Return a component that the manifest does not have any more."""
    return Component(path=path, type="", pins={}, configuration={}, required=(), peers={})
