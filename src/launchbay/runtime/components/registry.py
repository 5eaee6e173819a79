"""Which component types there are: the built-in ones, and those of installed packages.

A package brings a type through the entry-point group `launchbay.component_types`: a class, or an object, that
implements `runtime.run.ComponentType` and has a `definition`, which is the compiler's side of the type
(`manifest.component_types.ComponentType`). Work that must not happen twice goes through `runtime.recorded.recorded`.
See examples/launchbay-example-component.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from launchbay.manifest.graph import BUILTIN as DEFINITIONS
from launchbay.manifest.graph import ComponentType as Definition
from launchbay.plugins import BUILT_IN, by_name, packaged
from launchbay.runtime.components.compute_instance import ComputeInstance
from launchbay.runtime.components.references import ServiceReference, Submodule
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

ENTRY_POINT_GROUP = "launchbay.component_types"
_ASYNC = ("launch", "command", "reconfigure", "destroy")


class PackagedType(ComponentType, Protocol):
    """What a package brings."""

    @property
    def definition(self) -> Definition:
        """The name of the type, and the pins that it has without being declared."""
        ...


class ComponentTypes:
    """The types by name: `definitions` for the compiler, `running` for live instances. Made once, at start."""

    def __init__(self, packaged_types: Iterable[tuple[str, PackagedType]] = (), problems: tuple[str, ...] = ()) -> None:
        self.problems = problems  # what could not be loaded, one sentence each
        found = by_name(
            packaged_types,
            lambda kind: (kind.definition.name,),
            noun="component type",
            code="ComponentTypeTaken",
            taken=dict.fromkeys(DEFINITIONS, BUILT_IN),
        )
        definitions = {**DEFINITIONS, **{name: kind.definition for name, kind in found.items()}}
        running: dict[str, ComponentType] = {**BUILTIN, **found}
        self.definitions: Mapping[str, Definition] = definitions
        self.running: Mapping[str, ComponentType] = running

    @classmethod
    def load(cls) -> "ComponentTypes":
        """Find all types. A package that cannot be loaded is left out, logged and listed in `problems`.

        Raises CannotStart when two types have one name: no order of loading may decide what a manifest means.
        """
        found = packaged(ENTRY_POINT_GROUP, "component type", _checked)
        return cls(found.sources, found.problems)


def _checked(kind: Any) -> PackagedType:
    """Return the object. Raises TypeError with a sentence where it does not keep the contract."""
    definition = getattr(kind, "definition", None)
    if not isinstance(definition, Definition) or not definition.name:
        raise TypeError("its 'definition' is no launchbay.manifest.graph.ComponentType with a name")
    if definition.is_composite:
        raise TypeError("its 'definition' is of a composite, which only this program has")
    for attribute in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(kind, attribute, None)):
            raise TypeError(f"its '{attribute}' is not an async function")
    accepted: PackagedType = kind
    return accepted
