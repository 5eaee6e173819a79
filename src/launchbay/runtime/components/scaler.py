"""`composite.Scaler`: copies of its content, and a command that changes their number (manifest-language §4).

The members are ordinary components of the graph (`manifest/scaling.py`), launched and destroyed with the instance.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import SCALER, SUBMODULE, Component
from launchbay.manifest.scaling import MIN_QUANTITY, QUANTITY, members, minimum_quantity, scalers, template_path
from launchbay.model.types import INT
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.components.references import wait_for_launch
from launchbay.runtime.contract import CommandCall, JobRun, ReplayJournal
from launchbay.runtime.lifecycle import destroy_component, launch

SET_QUANTITY = "set-quantity"


class Scaler:
    """Adds and removes members, the last ones first.

    A number set by command stays until a new one is configured.
    """

    async def launch(self, job: JobRun, component: Component) -> None:
        """Check the configured numbers. Raises WorkflowFailed."""
        configured = job.configuration.get(component.path, {})
        for key in (QUANTITY, MIN_QUANTITY):
            number = configured.get(key)
            if number is not None and not 0 <= number <= limits.SCALER_MEMBERS:
                raise WorkflowFailed(f"{key} must be 0 to {limits.SCALER_MEMBERS}, not {number}.")
        _check_total(job, component, job.state.quantity(component.path))

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Change the number of members. Raises WorkflowFailed."""
        if call.command != SET_QUANTITY:
            raise WorkflowFailed(
                f"component {component.path!r} has no command {call.command!r}. Its command: {SET_QUANTITY}."
            )
        wanted = _wanted(job, component, call.arguments.get("quantity"))
        if call.is_replay:
            job = replace(job, journal=ReplayJournal(job.journal))
        _check_total(job, component, wanted)
        present = members(job.manifest, component.path, range(job.state.quantity(component.path)))
        for path in present:
            await wait_for_launch(job, job.component(path), call)
        await _shrink(job, component, wanted)
        await _grow(job, component, wanted)
        if any(template_path(path) != path for path in job.links):
            await job.linked_instances.show_members(job)
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


def _check_total(job: JobRun, component: Component, wanted: int) -> None:
    """Raise WorkflowFailed if copies of a Scaler would have too many members together."""
    template = template_path(component.path)
    copies = [path for path in scalers(job.manifest) if template_path(path) == template and path != component.path]
    total = wanted + sum(job.state.quantity(path) for path in copies)
    if total > limits.SCALER_MEMBERS:
        raise WorkflowFailed(
            f"all members of {template!r} together must be at most {limits.SCALER_MEMBERS}, not {total}."
        )


async def _shrink(job: JobRun, component: Component, wanted: int) -> None:
    """Destroy the members beyond a number, last first, until a failure."""
    for number in reversed(range(wanted, job.state.quantity(component.path))):
        job.state.scale(component.path, number + 1)
        inside = [job.component(path) for path in members(job.manifest, component.path, [number])]
        for each in reversed(inside):
            try:
                await destroy_component(job, each)
            except WorkflowFailed as failure:
                text = f"can't destroy component {each.path!r}: {failure}"
                raise WorkflowFailed(text, is_refusal=failure.is_refusal) from failure
            if each.type != SCALER:
                job.state.forget(each.path)
            job.state.retired.add(each.path)
        job.state.scale(component.path, number)
        for each in inside:  # its Scalers last: they tell which members it has
            job.state.forget(each.path)


async def _grow(job: JobRun, component: Component, wanted: int) -> None:
    """Launch missing members, including those whose earlier launch failed."""
    job.state.scale(component.path, wanted)
    inside = members(job.manifest, component.path, range(wanted))
    missing = [path for path in inside if not job.state.is_launched(path)]
    retired = [path for path in missing if path in job.state.retired]
    if retired:
        raise WorkflowFailed(
            f"can't launch {', '.join(retired)} again in the job that destroyed it. Scale out in a new job."
        )
    if missing:
        children = [path for path in missing if job.component(path).type == SUBMODULE]
        if children:
            await job.linked_instances.add_members(job, children)
        await launch(job, missing)
