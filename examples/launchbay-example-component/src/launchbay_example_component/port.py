"""`example.Port`: picks a port number once; a command picks another one."""

import secrets
from collections.abc import Mapping
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.manifest.graph import Component, ComponentType
from launchbay.model.job import step_path, workflow_path
from launchbay.runtime.contract import CommandCall, JobRun
from launchbay.runtime.step import run_recorded

_FIRST, _LAST = 20_000, 29_999


class Port:
    """Publishes `port.number`, one of `range.from` to `range.to`."""

    definition = ComponentType(
        "example.Port",
        {
            "range": {"from": "configuration(int)", "to": "configuration(int)"},
            "port": {"number": "publish-signal(int)", "change": "receive-command( => int number)"},
        },
    )

    async def launch(self, job: JobRun, component: Component) -> None:
        """Pick a port. Raises WorkflowFailed."""
        path = step_path(workflow_path(component.path, "launch"), "pick")
        _publish(job, component, await run_recorded(job, path, "pick", lambda: _picked(job, component)))

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Pick another port. Raises WorkflowFailed."""
        path = step_path(call.path, "pick")
        outputs = await run_recorded(job, path, "pick", lambda: _picked(job, component), is_replay=call.is_replay)
        _publish(job, component, outputs)
        return outputs

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Keep the port. A new range applies to the next pick."""

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Do nothing, because a port number needs no release."""


async def _picked(job: JobRun, component: Component) -> Mapping[str, Any]:
    configured = job.configuration.get(component.path, {})
    first, last = configured.get("range.from", _FIRST), configured.get("range.to", _LAST)
    if first > last:
        raise ActionFailed(f"The range from {first} to {last} is empty; correct 'range.from' or 'range.to'.")
    return {"number": first + secrets.randbelow(last - first + 1)}


def _publish(job: JobRun, component: Component, outputs: Mapping[str, Any]) -> None:
    job.state.publish(component.path, "port", "number", outputs["number"])
