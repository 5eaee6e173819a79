"""The component types that this program runs by itself."""

from launchbay.runtime.components.compute_instance import ComputeInstance
from launchbay.runtime.components.constants import Constants
from launchbay.runtime.components.http_endpoint import HttpEndpoint
from launchbay.runtime.components.scaler import Scaler
from launchbay.runtime.components.service_reference import ServiceReference
from launchbay.runtime.components.submodule import Submodule
from launchbay.runtime.components.workflow_instance import WorkflowInstance
from launchbay.runtime.run import ComponentType

BUILTIN: dict[str, ComponentType] = {
    "workflow.Instance": WorkflowInstance(),
    "cobalt.common.Constants": Constants(),
    "cobalt.common.HttpEndpoint": HttpEndpoint(),
    "composite.Scaler": Scaler(),
    "compute.Instance": ComputeInstance(),
    "reference.Service": ServiceReference(),
    "reference.Submodule": Submodule(),
}
