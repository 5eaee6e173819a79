"""`cobalt.common.Constants`: publishes the values in `configuration.values` (manifest-language §4)."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.types import PinKind
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.run import CommandCall, JobRun

VALUES = "configuration.values"


class Constants:
    """Publishes each value as the signal that its key `interface.pin` names."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the values. Raises WorkflowFailed for one that does not fit its pin's type."""
        values = component.configuration.get(VALUES) or {}
        for key, pin in component.pins.items():
            if pin.type.kind is not PinKind.PUBLISH_SIGNAL or key not in values:
                continue
            try:
                value = coerce(pin.type.value_type, values[key])
            except CoercionError as error:
                raise WorkflowFailed(f"the constant {key}: {error}") from error
            job.state.publish(component.path, pin.interface, pin.name, value)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        """Refuse: constants take no commands."""
        raise WorkflowFailed(f"component {component.path!r} is of type {component.type} and takes no commands.")

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Publish again. Raises WorkflowFailed."""
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Hold nothing, release nothing."""
