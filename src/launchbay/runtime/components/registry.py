"""Which component types there are: the built-in ones, and those of installed packages.

A package brings a type through the entry-point group `launchbay.component_types`: a class, or an object, that
implements `runtime.run.ComponentType` and has a `definition`, which is the compiler's side of the type
(`manifest.component_types.ComponentType`). Work that must not happen twice goes through `runtime.recorded.recorded`.
See examples/launchbay-example-component.
"""

import inspect
import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from launchbay.errors import CannotStart
from launchbay.manifest.component_types import BUILTIN as DEFINITIONS
from launchbay.manifest.component_types import ComponentType as Definition
from launchbay.runtime.components.builtin import BUILTIN
from launchbay.runtime.run import ComponentType

ENTRY_POINT_GROUP = "launchbay.component_types"

_log = logging.getLogger(__name__)
_BUILT_IN_PACKAGE = "launchbay"
_ASYNC = ("launch", "command", "reconfigure", "destroy")


class PackagedType(ComponentType, Protocol):
    """What a package brings."""

    @property
    def definition(self) -> Definition:
        """The name of the type, and the pins that it has without being declared."""
        ...


class ComponentTypes:
    """The types by name: `definitions` for the compiler, `running` for live instances. Made once, at start."""

    def __init__(self, packaged: Iterable[tuple[str, PackagedType]] = (), problems: tuple[str, ...] = ()) -> None:
        self.problems = problems  # what could not be loaded, one sentence each
        packages = dict.fromkeys(DEFINITIONS, _BUILT_IN_PACKAGE)
        definitions, running = dict(DEFINITIONS), dict(BUILTIN)
        for package, kind in packaged:
            name = kind.definition.name
            if name in packages:
                raise CannotStart(
                    f"Two component types have the name '{name}': one of the package {packages[name]}, one of "
                    f"{package}.",
                    "Remove one of the packages, or give its component type another name.",
                    code="ComponentTypeTaken",
                )
            packages[name] = package
            definitions[name], running[name] = kind.definition, kind
        self.definitions: Mapping[str, Definition] = definitions
        self.running: Mapping[str, ComponentType] = running

    @classmethod
    def load(cls) -> "ComponentTypes":
        """Find all types. A package that cannot be loaded is left out, logged and listed in `problems`.

        Raises CannotStart when two types have one name: no order of loading may decide what a manifest means.
        """
        packaged: list[tuple[str, PackagedType]] = []
        problems: list[str] = []
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (_package(point), point.name)):
            try:
                packaged.append((_package(point), _loaded(point)))
            except Exception as error:  # noqa: BLE001 - a package of somebody else may raise anything; the server starts without it
                problem = (
                    f"The component type '{point.name}' of the package {_package(point)} ({point.value}) is left out:"
                    f" {type(error).__name__}: {error}"
                )
                _log.error(problem)
                problems.append(problem)
        return cls(packaged, tuple(problems))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _loaded(point: EntryPoint) -> PackagedType:
    found = point.load()
    kind = found() if isinstance(found, type) else found
    _check(kind)
    accepted: PackagedType = kind
    return accepted


def _check(kind: Any) -> None:
    """Raise TypeError with a sentence where the object does not keep the contract."""
    definition = getattr(kind, "definition", None)
    if not isinstance(definition, Definition) or not definition.name:
        raise TypeError("its 'definition' is no launchbay.manifest.component_types.ComponentType with a name")
    if definition.is_composite:
        raise TypeError("its 'definition' is of a composite, which only this program has")
    for attribute in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(kind, attribute, None)):
            raise TypeError(f"its '{attribute}' is not an async function")
