"""What a component publishes of the instance that it stands for: the instance's return values, as its signals."""

from collections.abc import Iterator, Mapping
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import CompiledManifest, Component, Pin
from launchbay.manifest.scaling import template_path
from launchbay.manifest.v1 import outer_values
from launchbay.model.instance import Link
from launchbay.model.types import PinKind
from launchbay.runtime.declared import as_declared
from launchbay.runtime.run import JobRun, LinkedInstance


async def look_at_linked(job: JobRun) -> None:
    """Take over what linked instances publish now: a change inside of them is seen at once (language §8)."""
    for component, link in linked_components(job.manifest, job.links):
        path = component.path
        if not link.is_instance or not job.state.is_launched(path):
            continue
        try:
            linked = await job.others.look(link)
        except WorkflowFailed as gone:
            job.journal.log(None, "warning", f"Component {path!r}: {gone} It keeps the signals that it has.")
        else:
            publish_linked(job, component, link, linked)


def link_of(path: str, links: Mapping[str, Link]) -> Link | None:
    """Return where a component leads. The members of a Scaler all lead where their template does."""
    return links.get(path) or links.get(template_path(path))


def linked_components(manifest: CompiledManifest, links: Mapping[str, Link]) -> Iterator[tuple[Component, Link]]:
    """Yield the components that lead somewhere, with their links."""
    if links:
        for path, component in manifest.components.items():
            link = link_of(path, links)
            if link is not None:
                yield component, link


def publish_linked(job: JobRun, component: Component, link: Link, linked: LinkedInstance) -> None:
    """Take the linked instance's return values over as the component's signals."""
    for pin, value in linked_signals(component, link, job.secrets.opened(linked.return_values)):
        job.state.publish(component.path, pin.interface, pin.name, value)


def linked_signals(component: Component, link: Link, return_values: Mapping[str, Any]) -> Iterator[tuple[Pin, Any]]:
    """Yield the component's signals with the values that an instance with these return values gives them."""
    values = outer_values(return_values)
    for key, pin in component.pins.items():
        name = link.key(key)
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and name is not None and name in values:
            yield pin, as_declared(pin.type.value_type, values[name])
