"""`composite.Scaler`: so many copies of what it holds, and a command that changes the number (manifest-language §4).

The members are components of the graph like any other (`manifest/scaling.py`); they are launched and destroyed with the
instance by themselves.
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
    """Grows and shrinks. Members go from the last one on, and a number that was set stays until one is configured."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Check the configured numbers. Raises WorkflowFailed."""
        configured = job.configuration.get(component.path, {})
        for key in (QUANTITY, MIN_QUANTITY):
            number = configured.get(key)
            if number is not None and not 0 <= number <= limits.SCALER_MEMBERS:
                raise WorkflowFailed(f"{key} is {number}; it may be 0 to {limits.SCALER_MEMBERS}.")

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Bring the Scaler to another number of members. Raises WorkflowFailed."""
        if call.command != SET_QUANTITY:
            raise WorkflowFailed(f"component {component.path!r} has no command {call.command!r}, but {SET_QUANTITY}.")
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
        """Check the configured numbers; members start and stop like other components. Raises WorkflowFailed."""
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Hold nothing: the members are destroyed by themselves."""


def _wanted(job: JobRun, component: Component, quantity: Any) -> int:
    least = minimum_quantity(job.configuration.get(component.path, {}))
    try:
        wanted = coerce(INT, quantity)
    except CoercionError as error:
        raise WorkflowFailed(f"the argument 'quantity': {error}") from None
    if not least <= wanted <= limits.SCALER_MEMBERS:
        raise WorkflowFailed(f"the quantity {wanted} is not possible; it may be {least} to {limits.SCALER_MEMBERS}.")
    return int(wanted)


def _members(job: JobRun, component: Component, first: int, end: int) -> list[str]:
    return members(job.graph.compiled, component.path, range(first, end))


async def _shrink(job: JobRun, component: Component, wanted: int) -> None:
    """Take down the members beyond a number, the last one first; one that does not go stays with all before it."""
    for number in reversed(range(wanted, job.state.quantity(component.path))):
        for path in reversed(_members(job, component, number, number + 1)):
            try:
                await destroy_component(job, job.component(path))
            except WorkflowFailed as failure:
                job.state.scale(component.path, number + 1)
                raise WorkflowFailed(f"component {path!r} could not be taken down: {failure}") from failure
            job.state.forget(path)
            job.state.retire(path)


async def _grow(job: JobRun, component: Component, wanted: int) -> None:
    """Launch the members that are missing, those too that failed when they were launched before."""
    job.state.scale(component.path, wanted)
    missing = [path for path in _members(job, component, 0, wanted) if not job.state.is_launched(path)]
    retired = [path for path in missing if job.state.is_retired(path)]
    if retired:
        raise WorkflowFailed(
            f"{', '.join(retired)} was taken down by the same job, which cannot launch it again; grow in a new one."
        )
    if missing:
        await launch(job, missing)
