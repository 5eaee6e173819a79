"""`workflow.Instance`: a component whose behaviour is its workflows (manifest-language §5)."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.model.types import PinKind
from launchbay.model.values import CoercionError, coerce
from launchbay.planning import DESTROY, LAUNCH
from launchbay.runtime.components.references import wait_for_launch
from launchbay.runtime.contract import CommandCall, JobRun
from launchbay.runtime.signals import coerce_all, consumed, signal_triggers
from launchbay.runtime.workflow import WorkflowRun, _run_if_present


class WorkflowInstance:
    """Runs workflows `launch` and `destroy`, where the manifest has them, and those named like command pins."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Run the workflow `launch`. Raises WorkflowFailed."""
        await _run_if_present(job, component, LAUNCH, tuple(signal_triggers(component)))

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the workflow named like the command pin; what it returns are the results. Raises WorkflowFailed."""
        workflow = component.workflows.get(call.command)
        if workflow is None:
            raise WorkflowFailed(
                f"component {component.path!r} offers the command {call.command!r} but has no workflow of that name; "
                "add it."
            )
        await wait_for_launch(job, component, call)
        run = WorkflowRun(job, component, workflow, call.path, call.depth, call.is_replay)
        pin = component.pins.get(f"{call.interface}.{call.command}")
        if pin is None or (signature := pin.type.signature) is None:
            return await run.run(call.arguments)

        def tell(problem: str) -> None:
            if not call.is_replay:
                job.journal.log(call.path, "warning", f"The result {problem}")

        returned = await run.run(coerce_all(signature.arguments, call.arguments))
        return coerce_all(signature.results, returned, tell)

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Change nothing: the values reach the workflows, and the triggers of changed pins run after it."""

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Run the workflow `destroy`. Raises WorkflowFailed."""
        await _run_if_present(job, component, DESTROY)


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


# `cobalt.common.HttpEndpoint`: relays a `url` (manifest-language §4).
#
# What it is bound to is read past it (`manifest/bindings.py`). So there is something to do only for one that is bound
# to nothing in its application: it publishes its configured value, or what a parent instance gives.


class HttpEndpoint:
    """Publishes each signal that has a value of the same name among what it consumes, or else is configured."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the values."""
        configured = job.configuration.get(component.path, {})
        values = {key.rpartition(".")[2]: value for key, value in configured.items()}
        for key, pin in component.pins.items():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                for value in consumed(job.manifest, job.state, job.parent_signals, component, key).values():
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
