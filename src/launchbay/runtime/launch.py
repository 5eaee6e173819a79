"""Launching all components of an instance, each when what it requires is there (manifest-language §3, `required`)."""

import asyncio

from launchbay.runtime.run import JobRun, WorkflowFailed
from launchbay.runtime.signals import missing_for_launch, required_components


async def launch(job: JobRun) -> None:
    """Launch every component, independent ones at the same time.

    After a failure nothing more is started, and what is under way finishes. Raises WorkflowFailed naming every
    component that failed.
    """
    dependents = _dependents(job)
    waiting = dict.fromkeys(job.manifest.order)
    running: dict[asyncio.Task[None], str] = {}
    failures: dict[str, str] = {}
    candidates = list(waiting)
    try:
        while waiting or running:
            if not failures:
                for path in candidates:
                    if path in waiting and not missing_for_launch(job, job.component(path)):
                        del waiting[path]
                        running[asyncio.create_task(_launch_component(job, path))] = path
            if not running:
                break
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            ended = {running.pop(task): task for task in done}
            candidates = _settle(job, ended, failures, dependents)
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
    if not failures:
        failures = {path: "; ".join(missing_for_launch(job, job.component(path))) for path in waiting}
    if failures:
        raise WorkflowFailed(" ".join(f"Component {path!r}: {text}" for path, text in sorted(failures.items())))


def _settle(
    job: JobRun, ended: dict[str, asyncio.Task[None]], failures: dict[str, str], dependents: dict[str, list[str]]
) -> list[str]:
    """Take note of the launches that ended and return the components that may be launched now."""
    candidates: list[str] = []
    for path, task in sorted(ended.items()):
        try:
            task.result()
        except WorkflowFailed as failure:
            failures[path] = str(failure)
            job.state.give_up()
        else:
            job.state.mark_launched(path)
            candidates.extend(dependents.get(path, ()))
    return candidates


async def _launch_component(job: JobRun, path: str) -> None:
    component = job.component(path)
    await job.component_type(component).launch(job, component)


def _dependents(job: JobRun) -> dict[str, list[str]]:
    """Return, for each component, those whose required interfaces it fills."""
    dependents: dict[str, list[str]] = {}
    for path in job.manifest.order:
        for provider in required_components(job.component(path)):
            dependents.setdefault(provider, []).append(path)
    return dependents
