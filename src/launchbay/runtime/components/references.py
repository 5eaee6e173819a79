"""Component types that represent something outside the instance: `reference.Service` and `reference.Submodule`.

The launch or reconfiguration has bound them: to markers and properties of the environment, a service, or another
instance (manifest-language §7 and §8). Launch order across instances is here too, because both wait for others.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import LOCATOR, Component, required_components
from launchbay.manifest.services import markers, properties, required_providers, service_shape
from launchbay.model.instance import InstanceStatus, Link, LinkKind
from launchbay.model.job import workflow_path
from launchbay.model.types import PinKind
from launchbay.model.values import CoercionError, coerce
from launchbay.planning.names import DESTROY, LAUNCH, RECONFIGURE
from launchbay.runtime.commands import refuse_deadlock
from launchbay.runtime.contract import CommandCall, JobRun, LinkedInstance
from launchbay.runtime.signals import link_of, publish_linked, submodule_signals
from launchbay.runtime.slot import interruptible_sleep, staying

_POLL_S = 0.2  # of instances that are launching or busy
_LAUNCHING = frozenset({InstanceStatus.REQUESTED, InstanceStatus.EXECUTING})
_FINAL = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


class ServiceReference:
    """Publishes the signals of a service or instance, and forwards commands to it.

    Never destroys it.
    """

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish the signals. Raises WorkflowFailed if the service lacks required ones."""
        publish_environment(job, component)
        link = link_of(component.path, job.links)
        if link is None:
            return
        if link.is_instance:
            await _publish_instance(job, component, link)
        else:
            _publish_service(job, component, link)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the command and publish the signals that it changed. Raises WorkflowFailed."""
        link = link_of(component.path, job.links)
        name = None if link is None else link.key(f"{call.interface}.{call.command}")
        if link is None or (name is None and link.is_instance):
            raise WorkflowFailed(_unmet(component, call.command))
        # A deleted service has no names; the call reports the deletion.
        results = await job.linked_instances.run(
            job, link, name or call.command, call.arguments, call.path, is_replay=call.is_replay
        )
        if link.is_instance:
            publish_linked(job, component, link, await job.linked_instances.get(link))
        return results

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Publish again; signals that are no longer offered lose their value. Raises WorkflowFailed."""
        job.state.forget(component.path)
        await self.launch(job, component)
        job.state.mark_launched(component.path)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Do nothing: the service outlives its users."""


def publish_environment(job: JobRun, component: Component) -> None:
    """Publish the environment's markers and properties. Raises WorkflowFailed for a wrong type."""
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


async def wait_for_launch(job: JobRun, component: Component, call: CommandCall) -> None:
    """Wait until the receiver of a command has been launched.

    Raises WorkflowFailed if it won't be.
    """
    state, path = job.state, component.path
    if job.plan.kind != LAUNCH or state.is_launched(path) or call.sender is None or call.sender == path:
        return
    if call.sender in _waited_for(job, path):
        raise WorkflowFailed(
            f"deadlock: component {call.sender!r} sends {call.command!r} to {path!r}, whose launch waits for "
            f"{call.sender!r}. Send the command after the launch, or remove the interface from `required`."
        )
    try:
        with state.awaiting_launch(call.sender, path), staying():
            async with asyncio.timeout(limits.COMMAND_WAITS_FOR_LAUNCH_S):
                while not state.is_launched(path):
                    if state.is_abandoned(path) or (call.is_replay and not _has_begun(job, call)):
                        raise WorkflowFailed(f"can't run {call.command!r}: component {path!r} was not launched.")
                    await state.changed()
    except TimeoutError:
        raise WorkflowFailed(
            f"can't run {call.command!r}: component {path!r} was not launched within "
            f"{limits.COMMAND_WAITS_FOR_LAUNCH_S:g} s."
        ) from None


async def wait_for_providers(job: JobRun, component: Component, needs: Collection[str]) -> None:
    """Wait until the providers of these signals, `interface.pin`, have been launched.

    Skips providers that wait for this component. Raises WorkflowFailed if one won't be launched.
    """
    state = job.state
    for interface, peers in component.peers.items():
        for peer in peers:
            for pin, target in peer.pins.items():
                path = target.component
                key = f"{interface}.{pin}"
                if key not in needs or state.is_launched(path) or component.path in _waited_for(job, path):
                    continue
                with state.awaiting_launch(component.path, path):
                    while not state.is_launched(path):
                        if state.is_abandoned(path):
                            raise WorkflowFailed(f"{key}: component {path!r} was not launched.")
                        await state.changed()


def _has_begun(job: JobRun, call: CommandCall) -> bool:
    """Return whether a past call reached its receiver, so it was launched."""
    return any(path.startswith(call.path) for path in job.journal.traces())


def _waited_for(job: JobRun, path: str) -> set[str]:
    """Return all components that must be launched before this one."""
    found: set[str] = set()
    open_paths = [path]
    while open_paths:
        each = open_paths.pop()
        for provider in (required_components(job.component(each)) | job.state.awaited_by(each)) - found:
            found.add(provider)
            open_paths.append(provider)
    return found


async def _publish_instance(job: JobRun, component: Component, link: Link) -> None:
    linked = await job.linked_instances.get(link)
    is_required = bool(_lacking(component, link, linked)) and component.path in required_providers(job.manifest)
    waited_s = 0.0
    # It may still be launching. Signals that aren't required arrive later.
    while is_required and InstanceStatus(linked.status) in _LAUNCHING and _lacking(component, link, linked):
        if waited_s > limits.SERVICE_LAUNCH_S:
            break
        await interruptible_sleep(_POLL_S)
        waited_s += _POLL_S
        linked = await job.linked_instances.get(link)
    if InstanceStatus(linked.status) in _FINAL:
        raise WorkflowFailed(
            f"the instance {linked.name!r}, offered as a service, is {linked.status}. Reconfigure this instance with "
            "another service."
        )
    publish_linked(job, component, link, linked)
    lacking = _lacking(component, link, linked)
    if lacking:
        problem = f"its instance {linked.name!r} is {linked.status} and has no value for {', '.join(lacking)}."
        if is_required:
            raise WorkflowFailed(problem)
        job.journal.log(None, "warning", f"Component {component.path!r}: {problem}")


def _publish_service(job: JobRun, component: Component, link: Link) -> None:
    signals = {} if link.binding.service is None else link.binding.service.signals
    for key, pin in component.pins.items():
        name = link.key(key)
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and name in signals:
            job.state.publish(component.path, pin.interface, pin.name, signals[name])


def _lacking(component: Component, link: Link, linked: LinkedInstance) -> list[str]:
    """Return the declared signals for which the service has no value."""
    return [
        key
        for key, pin in component.pins.items()
        if pin.type.kind is PinKind.PUBLISH_SIGNAL
        and (name := link.key(key)) is not None
        and name not in linked.return_values
    ]


def _unmet(component: Component, command: str) -> str:
    if not service_shape(component):
        return f"component {component.path!r} represents markers or properties and accepts no commands."
    return (
        f"can't run {command!r}: the environment offered no service for component {component.path!r} at the last "
        "launch or reconfiguration. Add one to the environment and reconfigure the instance."
    )


class Submodule:
    """Launches, calls and destroys the linked instance; its return values are the component's signals."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Launch the submodule, or wait for a shared instance. Raises WorkflowFailed."""
        link = _link(job, component)
        await _check_offer(job, component, link)
        if link.kind is LinkKind.OWN:
            if component.peers:  # as for `required` of a component (§3)
                await wait_for_providers(job, component, await job.linked_instances.required_signals(link))
            needs = submodule_signals(job.manifest, job.state, job.parent_signals, component)
            if needs:
                await job.linked_instances.push_signals(link, job.secrets.sealed(needs))
            if await _is_to_reconfigure(job, link, component, is_up=False):
                await job.linked_instances.run(job, link, RECONFIGURE, {}, workflow_path(component.path, RECONFIGURE))
            else:
                await job.linked_instances.run(job, link, LAUNCH, {}, workflow_path(component.path, LAUNCH))
        linked = await _is_final(job, link)
        if linked.status != "Running" and link.kind is not LinkKind.OWN:
            raise WorkflowFailed(f"the shared instance {linked.name!r} must be Running, not {linked.status}.")
        publish_linked(job, component, link, linked)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the command and publish the signals that it changed. Raises WorkflowFailed."""
        link = _link(job, component)
        pin = f"{call.interface}.{call.command}"
        refuse_deadlock(link.instance_id, pin)
        if not call.is_replay:  # otherwise its own journal says what became of the call
            await wait_for_launch(job, component, call)
        results = await job.linked_instances.run(job, link, pin, call.arguments, call.path, is_replay=call.is_replay)
        publish_linked(job, component, link, await job.linked_instances.get(link))
        return results

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Reconfigure an own submodule if needed. Raises WorkflowFailed."""
        link = _link(job, component)
        await _check_offer(job, component, link)
        if link.kind is LinkKind.OWN and await _is_to_reconfigure(job, link, component, is_up=True):
            await job.linked_instances.run(job, link, RECONFIGURE, {}, workflow_path(component.path, RECONFIGURE))
        publish_linked(job, component, link, await job.linked_instances.get(link))

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Destroy an own submodule, but no shared instance. Raises WorkflowFailed."""
        link = job.links.get(component.path)
        if link is not None and link.kind is LinkKind.OWN:
            await job.linked_instances.run(job, link, DESTROY, {}, workflow_path(component.path, DESTROY))


async def _is_to_reconfigure(job: JobRun, link: Link, component: Component, *, is_up: bool) -> bool:
    path = workflow_path(component.path, RECONFIGURE)
    return await job.linked_instances.needs_reconfiguration(job, link, path, is_up=is_up)


async def _is_final(job: JobRun, link: Link) -> LinkedInstance:
    """Return the linked instance, after waiting for a shared one that is busy."""
    until_s = job.deps.clock.monotonic_s() + limits.CALL_WAITS_FOR_INSTANCE_S
    linked = await job.linked_instances.get(link)
    while (
        link.kind is LinkKind.SHARED
        and linked.status in {InstanceStatus.REQUESTED, InstanceStatus.EXECUTING}
        and job.deps.clock.monotonic_s() < until_s
    ):
        await interruptible_sleep(_POLL_S)
        linked = await job.linked_instances.get(link)
    return linked


def _link(job: JobRun, component: Component) -> Link:
    link = job.links.get(component.path)
    if link is None:
        raise WorkflowFailed("this component has no linked instance. Launch the application again.")
    return link


async def _check_offer(job: JobRun, component: Component, link: Link) -> None:
    """Raise WorkflowFailed if the application lacks an interface that the component declares (§7)."""
    offered = await job.linked_instances.offered_pins(link)
    missing = [key for key in component.pins if key != LOCATOR and key not in offered]
    if missing:
        raise WorkflowFailed(f"the submodule's application lacks declared interface pins: {', '.join(missing)}.")
