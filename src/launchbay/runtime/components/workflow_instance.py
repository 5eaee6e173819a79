"""Component types without machines: `workflow.Instance`, constants, HTTP endpoints (manifest-language §4, §5)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component, compose_url
from launchbay.model.types import PinKind
from launchbay.model.values import CoercionError, coerce
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.runtime.components.references import wait_for_launch
from launchbay.runtime.contract import CommandCall, JobRun
from launchbay.runtime.signals import coerce_all, consumed, signal_triggers
from launchbay.runtime.workflow import WorkflowRun, run_if_present

VALUES = "configuration.values"


class WorkflowInstance:
    """Runs the workflows `launch` and `destroy`, if declared, and those named like command pins."""

    async def launch(self, job: JobRun, component: Component) -> None:
        await run_if_present(job, component, LAUNCH, tuple(signal_triggers(component)))

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the workflow named like the command pin and return its results. Raises WorkflowFailed."""
        workflow = component.workflows.get(call.command)
        if workflow is None:
            raise WorkflowFailed(
                f"component {component.path!r} offers the command {call.command!r} without a workflow of that name. "
                "Add the workflow."
            )
        await wait_for_launch(job, component, call)
        run = WorkflowRun(job, component, workflow, call.path, call.depth, call.is_replay)
        pin = component.pins.get(f"{call.interface}.{call.command}")
        if pin is None or (signature := pin.type.signature) is None:
            return await run.run(coerce_all({}, call.arguments))

        def warn(problem: str) -> None:
            if not call.is_replay:
                job.journal.log(call.path, "warning", f"The result {problem}")

        await run.run(coerce_all(signature.arguments, call.arguments))
        return coerce_all(signature.results, run.returned, warn)

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Do nothing: workflows read the new values, and triggers of changed pins run afterwards."""

    async def destroy(self, job: JobRun, component: Component) -> None:
        await run_if_present(job, component, DESTROY)


class _Publisher(ABC):
    """A component type that only publishes signals: it accepts no commands and creates nothing."""

    @abstractmethod
    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the signals. Raises WorkflowFailed."""

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:  # noqa: ARG002 - contract
        raise WorkflowFailed(f"component {component.path!r} of type {component.type} accepts no commands.")

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        await self.launch(job, component)

    async def destroy(self, job: JobRun, component: Component) -> None:  # noqa: B027 - nothing to destroy, by default
        """Do nothing."""


class Constants(_Publisher):
    """Publishes each value as the signal that its key `interface.pin` names."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the values. Raises WorkflowFailed if a value doesn't match its pin's type."""
        values = component.configuration.get(VALUES) or {}
        for key, pin in component.pins.items():
            if pin.type.kind is not PinKind.PUBLISH_SIGNAL or key not in values:
                continue
            try:
                value = coerce(pin.type.value_type, values[key])
            except CoercionError as error:
                raise WorkflowFailed(f"the constant {key}: {error}") from error
            job.state.publish(component.path, pin.interface, pin.name, value)


class HttpEndpoint(_Publisher):
    """Publishes each signal from the consumed signal or pin of its name.

    Without a consumed URL it makes one of `host`, `port`, `path` and `protocol`. Components bound to it read its
    sources directly (`manifest/bindings.py`). So it only acts if nothing in its application is bound to it: it
    publishes its configured value or the parent instance's.
    """

    async def launch(self, job: JobRun, component: Component) -> None:
        configured = job.configuration.get(component.path, {})
        values = {key.rpartition(".")[2]: value for key, value in configured.items()}
        for key, pin in component.pins.items():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                for value in consumed(job.manifest, job.state, job.parent_signals, component, key).values():
                    values[pin.name] = value
                    break
        values["url"] = values.get("url") or compose_url(values)
        for pin in component.pins.values():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and values.get(pin.name) is not None:
                job.state.publish(component.path, pin.interface, pin.name, values[pin.name])
