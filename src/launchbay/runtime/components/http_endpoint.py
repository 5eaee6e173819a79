"""`cobalt.common.HttpEndpoint`: relays a `url` (manifest-language §4).

What it is bound to is read past it (`manifest/bindings.py`). So there is something to do only for one that is bound to
nothing in its application: it publishes its configured value, or what a parent instance gives.
"""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.types import PinKind
from launchbay.runtime.peers import consumed
from launchbay.runtime.run import CommandCall, JobRun


class HttpEndpoint:
    """Publishes each signal that has a value of the same name among what it consumes, or else is configured."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the values."""
        configured = job.configuration.get(component.path, {})
        values = {key.rpartition(".")[2]: value for key, value in configured.items()}
        for key, pin in component.pins.items():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                for value in consumed(job.manifest, job.state, job.fed, component, key).values():
                    values[pin.name] = value
                    break
        for pin in component.pins.values():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and values.get(pin.name) is not None:
                job.state.publish(component.path, pin.interface, pin.name, values[pin.name])

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        """Refuse: endpoints take no commands."""
        raise WorkflowFailed(f"component {component.path!r} is of type {component.type} and takes no commands.")

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Publish again."""
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Hold nothing, release nothing."""
