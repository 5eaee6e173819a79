"""Work of a component type that is recorded like a step of a workflow: done once, whatever happens meanwhile."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from launchbay.errors import ActionFailed, Fenced, WorkflowFailed
from launchbay.model.job import StepStatus
from launchbay.runtime.outputs import checked_outputs
from launchbay.runtime.run import JobRun
from launchbay.runtime.slot import effect


async def recorded(
    job: JobRun, path: str, name: str, work: Callable[[], Awaitable[Mapping[str, Any]]], *, is_over: bool = False
) -> Mapping[str, Any]:
    """Do the work and return its outputs, or those that it had before a crash. `path` is its place in the job's plan.

    Work that a crash interrupted is done again. `is_over` only tells how it ended. Raises WorkflowFailed.
    """
    journal, clock = job.journal, job.surroundings.clock
    earlier = journal.find(path)
    if earlier is not None and earlier.status is StepStatus.SUCCEEDED and earlier.outputs is not None:
        return earlier.outputs
    if earlier is not None and earlier.status is StepStatus.FAILED:
        raise WorkflowFailed(earlier.error or f"{name} failed.")
    if is_over:
        raise WorkflowFailed(f"{name} was broken off.")
    async with effect():
        await journal.start(path, name, 1, clock.now() if earlier is None else earlier.started_at)
        try:
            outputs = checked_outputs(await work())
        except (WorkflowFailed, Fenced):
            raise
        except Exception as error:
            # Providers and packaged types are foreign code: whatever they raise fails this work, not the worker.
            message = (
                str(error) if isinstance(error, ActionFailed) else f"{name} broke: {type(error).__name__}: {error}"
            )
            journal.log(path, "error", message)
            journal.fail(path, name, message, 1)
            raise WorkflowFailed(message) from error
        journal.succeed(path, outputs)
        return outputs
