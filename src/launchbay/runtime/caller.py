"""A running workflow as its steps see it; `workflow.py` is the one that implements it."""

from collections.abc import Mapping
from typing import Any, Protocol

from launchbay.manifest.graph import Component, Workflow
from launchbay.runtime.run import JobRun
from launchbay.runtime.scope import WorkflowScope
from launchbay.runtime.signals import ConsumedSignals


class Caller(Protocol):
    """The workflow whose step runs.

    `is_over` marks the repetition of a run that ended before a crash, by failure or time-out: it only brings back what
    that run did to the instance's state. Nothing starts, waits or is written in it.
    """

    job: JobRun
    component: Component
    path: str
    depth: int
    is_over: bool
    scope: WorkflowScope
    signals: ConsumedSignals

    def nested(self, workflow: Workflow, path: str) -> "Caller":
        """Return a run of another workflow of the same component, called from this one."""
        ...

    def past(self) -> "Caller":
        """Return this run for the repetition of a step's attempt that is over."""
        ...

    async def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow and return its return values. Raises WorkflowFailed."""
        ...
