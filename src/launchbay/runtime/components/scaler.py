"""`composite.Scaler`: copies of its content, and a command that changes their number (manifest-language §4).

The members are ordinary components of the graph (`manifest/scaling.py`), launched and destroyed with the instance.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.manifest.scaling import MIN_QUANTITY, QUANTITY, members, minimum_quantity
from launchbay.model.types import INT
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.components.references import wait_for_launch
from launchbay.runtime.contract import CommandCall, JobRun, ReplayJournal
from launchbay.runtime.lifecycle import destroy_component, launch

SET_QUANTITY = "set-quantity"


class Scaler:
    """Adds and removes members, the last ones first. A number set by command stays until a new one is configured."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Check the configured numbers. Raises WorkflowFailed."""
        configured = job.configuration.get(component.path, {})
        for key in (QUANTITY, MIN_QUANTITY):
            number = configured.get(key)
            if number is not None and not 0 <= number <= limits.SCALER_MEMBERS:
                raise WorkflowFailed(f"{key} must be 0 to {limits.SCALER_MEMBERS}, not {number}.")

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Change the number of members. Raises WorkflowFailed."""
        if call.command != SET_QUANTITY:
            raise WorkflowFailed(
                f"component {component.path!r} has no command {call.command!r}. Its command: {SET_QUANTITY}."
            )
        wanted = _wanted(job, component, call.arguments.get("quantity"))
        if call.is_replay:
            job = replace(job, journal=ReplayJournal(job.journal))
        present = _members(job, component, 0, job.state.quantity(component.path))
        for path in present:
            await wait_for_launch(job, job.component(path), call)
        await _shrink(job, component, wanted)
        await _grow(job, component, wanted)
        return {}

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Check the configured numbers. Members start and stop like other components. Raises WorkflowFailed."""
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Do nothing: the members are destroyed like other components."""


def _wanted(job: JobRun, component: Component, quantity: Any) -> int:
    least = minimum_quantity(job.configuration.get(component.path, {}))
    try:
        wanted = coerce(INT, quantity)
    except CoercionError as error:
        raise WorkflowFailed(f"argument 'quantity': {error}") from None
    if not least <= wanted <= limits.SCALER_MEMBERS:
        raise WorkflowFailed(f"quantity must be {least} to {limits.SCALER_MEMBERS}, not {wanted}.")
    return int(wanted)


def _members(job: JobRun, component: Component, first: int, end: int) -> list[str]:
    return members(job.graph.compiled, component.path, range(first, end))


async def _shrink(job: JobRun, component: Component, wanted: int) -> None:
    """Destroy the members beyond a number, the last one first; stop at the first failure."""
    for number in reversed(range(wanted, job.state.quantity(component.path))):
        for path in reversed(_members(job, component, number, number + 1)):
            try:
                await destroy_component(job, job.component(path))
            except WorkflowFailed as failure:
                job.state.scale(component.path, number + 1)
                raise WorkflowFailed(f"can't destroy component {path!r}: {failure}") from failure
            job.state.forget(path)
            job.state.retired.add(path)


async def _grow(job: JobRun, component: Component, wanted: int) -> None:
    """Launch missing members, including those whose earlier launch failed."""
    job.state.scale(component.path, wanted)
    missing = [path for path in _members(job, component, 0, wanted) if not job.state.is_launched(path)]
    retired = [path for path in missing if path in job.state.retired]
    if retired:
        raise WorkflowFailed(
            f"can't launch {', '.join(retired)} again in the job that destroyed it. Scale out in a new job."
        )
    if missing:
        await launch(job, missing)
