"""Taking an instance down: every component, those first that others do not need any more, and all machines."""

from collections.abc import Collection

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.instance import Link
from launchbay.model.job import workflow_path
from launchbay.planning import DESTROY
from launchbay.runtime.kept import take_down_kept
from launchbay.runtime.machines import release_component, release_everything
from launchbay.runtime.run import JobRun


async def destroy(job: JobRun) -> None:
    """Destroy every component in the reverse of the launch order, the failed ones not stopping the others.

    Machines are released always, and so is what actions keep documents of, whether or not a workflow does that. Raises
    WorkflowFailed that names each component that could not be taken down and everything that is left.
    """
    failures: list[str] = []
    for path in reversed(job.manifest.order):
        try:
            component = job.component(path)
            await job.component_type(component).destroy(job, component)
        except WorkflowFailed as failure:
            failures.append(f"Component {path!r}: {failure}")
    failures += await destroy_left_behind(job)
    failures += await take_down_kept(job)
    failures += await release_everything(job)
    if failures:
        raise WorkflowFailed(" ".join(failures))


async def destroy_left_behind(job: JobRun, spared: Collection[Link] = ()) -> list[str]:
    """Destroy own instances that an earlier reconfiguration could not, and return what went wrong."""
    failures: list[str] = []
    for link in await job.others.left_behind(job):
        if link not in spared:
            try:
                await job.others.run(job, link, DESTROY, {}, workflow_path(link.instance_id, DESTROY))
            except WorkflowFailed as failure:
                failures.append(f"The former submodule {link.instance_id}: {failure}")
    return failures


async def take_down(job: JobRun, component: Component) -> None:
    """Destroy one component of an instance that lives on, and release its machines even if that fails.

    Raises WorkflowFailed with what is left.
    """
    failures: list[str] = []
    try:
        await job.component_type(component).destroy(job, component)
    except WorkflowFailed as failure:
        failures.append(str(failure))
    failures += await take_down_kept(job, component.path)
    failures += await release_component(job, component.path)
    if failures:
        raise WorkflowFailed(" ".join(failures))
