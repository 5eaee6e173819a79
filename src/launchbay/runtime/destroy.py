"""Taking an instance down: every component, those first that others do not need any more."""

from launchbay.runtime.run import JobRun, WorkflowFailed


async def destroy(job: JobRun) -> None:
    """Destroy every component in the reverse of the launch order, the failed ones not stopping the others.

    Raises WorkflowFailed that names each component that could not be taken down.
    """
    failures: list[str] = []
    for path in reversed(job.manifest.order):
        component = job.component(path)
        try:
            await job.component_type(component).destroy(job, component)
        except WorkflowFailed as failure:
            failures.append(f"Component {path!r}: {failure}")
    if failures:
        raise WorkflowFailed(" ".join(failures))
