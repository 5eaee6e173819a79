"""`reference.Service`: what the environment offers, be it markers and properties, a service, or another instance.

Which service a component stands for was decided with the launch or reconfiguration (manifest-language §8).
"""

from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.manifest.services import required_providers, service_shape
from launchbay.model.instance import InstanceStatus, Link
from launchbay.model.types import PinKind
from launchbay.runtime.components.environment_reference import publish_environment
from launchbay.runtime.linked import link_of, publish_linked
from launchbay.runtime.run import CommandCall, JobRun, LinkedInstance
from launchbay.runtime.slot import rest

_ASK_AGAIN_S = 0.2
_LAUNCHING = frozenset({InstanceStatus.REQUESTED, InstanceStatus.EXECUTING})
_OVER = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


class ServiceReference:
    """Publishes the signals of what it stands for, and passes commands on to it. It never ends it."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Publish. Raises WorkflowFailed when something cannot do without signals that the service does not have."""
        publish_environment(job, component)
        link = link_of(component.path, job.links)
        if link is None:
            return
        if link.is_instance:
            await _publish_instance(job, component, link)
        else:
            _publish_service(job, component, link)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the command and take over the signals that it changed. Raises WorkflowFailed."""
        link = link_of(component.path, job.links)
        name = None if link is None else link.key(f"{call.interface}.{call.command}")
        if link is None or (name is None and link.is_instance):
            raise WorkflowFailed(_unmet(component, call.command))
        # A service that was deleted has no names any more; the call says so.
        results = await job.others.run(job, link, name or call.command, call.arguments, call.path, is_over=call.is_over)
        if link.is_instance:
            publish_linked(job, component, link, await job.others.look(link))
        return results

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Publish what there is now; what is not offered any more has no value then. Raises WorkflowFailed."""
        job.state.forget(component.path)
        await self.launch(job, component)
        job.state.mark_launched(component.path)

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Hold nothing, release nothing: a service lives on without those that use it."""


async def _publish_instance(job: JobRun, component: Component, link: Link) -> None:
    linked = await job.others.look(link)
    is_required = bool(_lacking(component, link, linked)) and component.path in required_providers(job.manifest)
    waited_s = 0.0
    # Its launch may have been asked for just before this one. What is not required comes when it is there.
    while is_required and InstanceStatus(linked.status) in _LAUNCHING and _lacking(component, link, linked):
        if waited_s > limits.SERVICE_LAUNCH_S:
            break
        await rest(_ASK_AGAIN_S)
        waited_s += _ASK_AGAIN_S
        linked = await job.others.look(link)
    if InstanceStatus(linked.status) in _OVER:
        raise WorkflowFailed(
            f"the instance {linked.name!r}, which was offered as a service, is {linked.status}; reconfigure or launch "
            "this instance where another one is offered."
        )
    publish_linked(job, component, link, linked)
    lacking = _lacking(component, link, linked)
    if lacking:
        told = f"the instance {linked.name!r} behind it is {linked.status} and has no value for {', '.join(lacking)}."
        if is_required:
            raise WorkflowFailed(told)
        job.journal.log(None, "warning", f"Component {component.path!r}: {told}")


def _publish_service(job: JobRun, component: Component, link: Link) -> None:
    signals = {} if link.binding.service is None else link.binding.service.signals
    for key, pin in component.pins.items():
        name = link.key(key)
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and name in signals:
            job.state.publish(component.path, pin.interface, pin.name, signals[name])


def _lacking(component: Component, link: Link, linked: LinkedInstance) -> list[str]:
    """Return the signals that the component declares and the service has no value for."""
    return [
        key
        for key, pin in component.pins.items()
        if pin.type.kind is PinKind.PUBLISH_SIGNAL
        and (name := link.key(key)) is not None
        and name not in linked.return_values
    ]


def _unmet(component: Component, command: str) -> str:
    if not service_shape(component):
        return f"component {component.path!r} stands for markers or properties and takes no commands."
    return (
        f"component {component.path!r} has no service behind it that could run {command!r}: the environment offered "
        "none when the instance was launched or last reconfigured. Offer one there, and reconfigure the instance."
    )
