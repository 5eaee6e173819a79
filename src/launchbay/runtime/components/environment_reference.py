"""Markers and properties: what the environment itself gives to a `reference.Service` (manifest-language §8)."""

from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import Component
from launchbay.manifest.services import markers, properties
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.run import JobRun


def publish_environment(job: JobRun, component: Component) -> None:
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
