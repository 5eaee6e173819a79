"""The component types as live instances run them: built-in ones, and those of packages.

They need the database and the providers of machines. `registry.py` imports none of that, so that `launchbay validate`
starts in half of the time (decision 0262).
"""

from collections.abc import Mapping

from launchbay.runtime.components.compute_instance import ComputeInstance
from launchbay.runtime.components.references import ServiceReference, Submodule
from launchbay.runtime.components.registry import ComponentTypes
from launchbay.runtime.components.scaler import Scaler
from launchbay.runtime.components.workflow_instance import Constants, HttpEndpoint, WorkflowInstance
from launchbay.runtime.contract import ComponentType

BUILTIN: dict[str, ComponentType] = {
    "workflow.Instance": WorkflowInstance(),
    "cobalt.common.Constants": Constants(),
    "cobalt.common.HttpEndpoint": HttpEndpoint(),
    "composite.Scaler": Scaler(),
    "compute.Instance": ComputeInstance(),
    "reference.Service": ServiceReference(),
    "reference.Submodule": Submodule(),
}


def running(types: ComponentTypes) -> Mapping[str, ComponentType]:
    """Return what runs components, by the name of their type."""
    return {**BUILTIN, **types.packaged}
