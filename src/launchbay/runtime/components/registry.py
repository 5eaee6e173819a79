"""The component types of this installation, as the compiler knows them.

A package provides a type through the entry-point group `launchbay.component_types`: a class or an object that
implements `runtime.contract.ComponentType` and has a `definition`, the compiler's side of the type
(`manifest.graph.ComponentType`). Work that must not happen twice goes through `runtime.step.run_recorded`.
See examples/launchbay-example-component.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from launchbay.manifest.graph import BUILTIN as DEFINITIONS
from launchbay.manifest.graph import ComponentType as Definition
from launchbay.plugins import BUILT_IN, by_name, packaged

ENTRY_POINT_GROUP = "launchbay.component_types"
_ASYNC = ("launch", "command", "reconfigure", "destroy")


class PackagedType(Protocol):
    """A component type of a package, as the compiler sees it."""

    @property
    def definition(self) -> Definition: ...


class ComponentTypes:
    """The types by name: `definitions` of all for the compiler, and the objects of packages.

    Built once, at start. `runtime/components/builtin.py` adds the built-in ones for live instances.
    """

    def __init__(self, packaged_types: Iterable[tuple[str, PackagedType]] = (), problems: tuple[str, ...] = ()) -> None:
        self.problems = problems  # one message for each package that couldn't be loaded
        found = by_name(
            packaged_types,
            lambda kind: (kind.definition.name,),
            noun="component type",
            code="ComponentTypeTaken",
            taken=dict.fromkeys(DEFINITIONS, BUILT_IN),
        )
        definitions = {**DEFINITIONS, **{name: kind.definition for name, kind in found.items()}}
        self.definitions: Mapping[str, Definition] = definitions
        self.packaged: Mapping[str, Any] = found  # `_checked` has compared them with `runtime.contract.ComponentType`

    @classmethod
    def load(cls) -> "ComponentTypes":
        """Load all types.

        A package that can't be loaded is skipped, logged and listed in `problems`.

        Raises CannotStart if two types have the same name: the order of loading must not decide what a manifest means.
        """
        found = packaged(ENTRY_POINT_GROUP, "component type", _checked)
        return cls(found.sources, found.problems)


def _checked(kind: Any) -> PackagedType:
    """Return the type. Raises TypeError with the reason if it violates the contract."""
    definition = getattr(kind, "definition", None)
    if not isinstance(definition, Definition) or not definition.name:
        raise TypeError("its 'definition' must be a launchbay.manifest.graph.ComponentType with a name")
    if definition.is_composite:
        raise TypeError("its 'definition' must not be a composite; only Launchbay provides composites")
    for attribute in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(kind, attribute, None)):
            raise TypeError(f"its '{attribute}' must be an async function")
    accepted: PackagedType = kind
    return accepted
