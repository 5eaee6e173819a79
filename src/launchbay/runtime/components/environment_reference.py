"""`reference.Service` for what the environment itself offers: markers and properties (manifest-language §8)."""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.graph import Component
from launchbay.manifest.service_needs import markers, properties
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.run import CommandCall, JobRun, WorkflowFailed


class EnvironmentReference:
    """Publishes the environment's properties and markers as the signals that the component declares."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish what the environment offered when it was last looked at. Raises WorkflowFailed for a wrong type."""
        for pin in markers(component):
            if pin.name in job.environment.markers:
                job.state.publish(component.path, pin.interface, pin.name, None)
        for pin in properties(component):
            if pin.name not in job.environment.properties:
                continue
            try:
                value = coerce(pin.type.value_type, job.environment.properties[pin.name])
            except CoercionError as error:
                raise WorkflowFailed(f"the environment's property {pin.name!r}: {error}") from error
            job.state.publish(component.path, pin.interface, pin.name, value)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        """Refuse: markers and properties take no commands."""
        raise WorkflowFailed(f"component {component.path!r} stands for markers or properties and takes no commands.")

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Publish again. Raises WorkflowFailed."""
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Hold nothing, release nothing."""
