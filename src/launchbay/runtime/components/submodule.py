"""`reference.Submodule`: a child application in an instance of its own (manifest-language §7)."""

from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import LOCATOR, Component
from launchbay.model.instance import InstanceStatus, Link, LinkKind
from launchbay.model.job import workflow_path
from launchbay.planning import DESTROY, LAUNCH, RECONFIGURE
from launchbay.runtime.components.receiving import wait_for_providers
from launchbay.runtime.feeding import feed_for
from launchbay.runtime.linked import publish_linked
from launchbay.runtime.run import CommandCall, JobRun, LinkedInstance
from launchbay.runtime.slot import rest

LOOK_S = 0.1  # between two looks at a shared instance that is busy


class Submodule:
    """Launches, calls and destroys the linked instance; its return values are the component's signals."""

    async def launch(self, job: JobRun, component: Component) -> None:
        """Launch the child, or look at the shared instance. Raises WorkflowFailed with the way to what failed."""
        link = _link(job, component)
        await _must_offer(job, component, link)
        if link.kind is LinkKind.OWN:
            await _await_providers(job, component, link)
            needs = feed_for(job.manifest, job.state, job.fed, component)
            if needs:
                await job.others.feed(link, job.secrets.sealed(needs))
            if await _is_to_reconfigure(job, link, component, is_up=False):
                await job.others.run(job, link, RECONFIGURE, {}, workflow_path(component.path, RECONFIGURE))
            else:
                await job.others.run(job, link, LAUNCH, {}, workflow_path(component.path, LAUNCH))
        linked = await _settled(job, link)
        if linked.status != "Running" and link.kind is not LinkKind.OWN:
            raise WorkflowFailed(f"the shared instance {linked.name!r} is {linked.status}; it must be Running.")
        publish_linked(job, component, link, linked)

    async def command(self, job: JobRun, component: Component, call: CommandCall) -> Mapping[str, Any]:
        """Run the child's command and take over the signals that it changed. Raises WorkflowFailed."""
        link = _link(job, component)
        pin = f"{call.interface}.{call.command}"
        results = await job.others.run(job, link, pin, call.arguments, call.path, is_over=call.is_over)
        publish_linked(job, component, link, await job.others.look(link))
        return results

    async def reconfigure(self, job: JobRun, component: Component) -> None:
        """Let an own child take over what the reconfiguration has for it. Raises WorkflowFailed."""
        link = _link(job, component)
        await _must_offer(job, component, link)
        if link.kind is LinkKind.OWN and await _is_to_reconfigure(job, link, component, is_up=True):
            await job.others.run(job, link, RECONFIGURE, {}, workflow_path(component.path, RECONFIGURE))
        publish_linked(job, component, link, await job.others.look(link))

    async def destroy(self, job: JobRun, component: Component) -> None:
        """Destroy an own child; a shared instance lives on. Raises WorkflowFailed."""
        link = job.links.get(component.path)
        if link is not None and link.kind is LinkKind.OWN:
            await job.others.run(job, link, DESTROY, {}, workflow_path(component.path, DESTROY))


async def _await_providers(job: JobRun, component: Component, link: Link) -> None:
    """Let the launch wait for what the child's application requires, as for the `required` of a component (§3)."""
    if component.peers:
        await wait_for_providers(job, component, await job.others.requires(link))


async def _is_to_reconfigure(job: JobRun, link: Link, component: Component, *, is_up: bool) -> bool:
    path = workflow_path(component.path, RECONFIGURE)
    return await job.others.is_to_reconfigure(job, link, path, is_up=is_up)


async def _settled(job: JobRun, link: Link) -> LinkedInstance:
    """Return the linked instance; a shared one may be busy with a job of its own, and is waited for."""
    until_s = job.surroundings.clock.monotonic_s() + limits.CALL_WAITS_FOR_INSTANCE_S
    linked = await job.others.look(link)
    while (
        link.kind is LinkKind.SHARED
        and linked.status in {InstanceStatus.REQUESTED, InstanceStatus.EXECUTING}
        and job.surroundings.clock.monotonic_s() < until_s
    ):
        await rest(LOOK_S)
        linked = await job.others.look(link)
    return linked


def _link(job: JobRun, component: Component) -> Link:
    link = job.links.get(component.path)
    if link is None:
        raise WorkflowFailed("no instance stands behind this component; launch the application again.")
    return link


async def _must_offer(job: JobRun, component: Component, link: Link) -> None:
    """Refuse a child without an interface that the component declares (§7)."""
    offered = await job.others.offers(link)
    missing = [key for key in component.pins if key != LOCATOR and key not in offered]
    if missing:
        raise WorkflowFailed(f"the application has no interface pin {', '.join(missing)}, which the manifest declares.")
