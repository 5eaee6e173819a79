"""A running workflow as its steps see it; `workflow.py` is the one that implements it."""

from collections.abc import Mapping
from typing import Any, Protocol

from launchbay.manifest.graph import Component, Workflow
from launchbay.runtime.run import JobRun
from launchbay.runtime.scope import WorkflowScope
from launchbay.runtime.signals import ConsumedSignals


class Caller(Protocol):
    """The workflow whose step runs."""

    job: JobRun
    component: Component
    path: str
    depth: int
    scope: WorkflowScope
    signals: ConsumedSignals

    def nested(self, component: Component, workflow: Workflow, path: str) -> "Caller":
        """Return a run of another workflow, called from this one."""
        ...

    async def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow and return its return values. Raises WorkflowFailed."""
        ...
