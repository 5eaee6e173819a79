"""Which service types there are: the built-in ones, and those of installed packages (`launchbay.services`)."""

import inspect
import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from launchbay.errors import CannotStart
from launchbay.service_types.cloud_account import CloudAccount
from launchbay.service_types.contract import ENTRY_POINT_GROUP, ServiceCommand, ServiceParameter, ServiceType
from launchbay.service_types.resource_pool import ResourcePool
from launchbay.service_types.shared_instances import SharedInstances
from launchbay.service_types.vault import SecureStore
from launchbay.service_types.workflow_service import WorkflowService

_log = logging.getLogger(__name__)

BUILT_IN: tuple[ServiceType, ...] = (
    WorkflowService(),
    SecureStore(),
    SharedInstances(),
    ResourcePool(),
    CloudAccount(),
)
_BUILT_IN_PACKAGE = "launchbay"


class ServiceTypes:
    """The types by their ids. Made once, at start, and never changed."""

    def __init__(self, sources: Iterable[tuple[str, ServiceType]], problems: tuple[str, ...] = ()) -> None:
        self._types: dict[str, ServiceType] = {}
        self.problems = problems  # what could not be loaded, one sentence each
        packages: dict[str, str] = {}
        for package, kind in sources:
            if kind.id in packages:
                raise CannotStart(
                    f"Two service types have the id '{kind.id}': one of the package {packages[kind.id]}, one of "
                    f"{package}.",
                    "Remove one of the packages, or give its service type another id.",
                    code="ServiceTypeTaken",
                )
            packages[kind.id] = package
            self._types[kind.id] = kind

    @classmethod
    def load(cls, *equipped: ServiceType) -> "ServiceTypes":
        """Find all types; `equipped` ones stand in the places of the built-in ones with their ids.

        A package that cannot be loaded is left out, logged and listed in `problems`.

        Raises CannotStart when two types have one id: no order of loading may decide what a service does.
        """
        stand_in = {kind.id: kind for kind in equipped}
        sources = [(_BUILT_IN_PACKAGE, stand_in.get(kind.id, kind)) for kind in BUILT_IN]
        problems: list[str] = []
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (_package(point), point.name)):
            try:
                sources.append((_package(point), _loaded(point)))
            except Exception as error:  # noqa: BLE001 - a package of somebody else may raise anything; the server starts without it
                problem = (
                    f"The service type '{point.name}' of the package {_package(point)} ({point.value}) is left out:"
                    f" {type(error).__name__}: {error}"
                )
                _log.error(problem)
                problems.append(problem)
        return cls(sources, tuple(problems))

    def find(self, type_id: str) -> ServiceType | None:
        """Return the type with this id."""
        return self._types.get(type_id)

    def all(self) -> list[ServiceType]:
        """Return every type, by id."""
        return [self._types[type_id] for type_id in sorted(self._types)]


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _loaded(point: EntryPoint) -> ServiceType:
    found = point.load()
    kind = found() if isinstance(found, type) else found
    _check(kind)
    accepted: ServiceType = kind
    return accepted


def _check(kind: Any) -> None:
    """Raise TypeError with a sentence where the object does not keep the contract."""
    for attribute in ("id", "name"):
        text = getattr(kind, attribute, None)
        if not isinstance(text, str) or not text:
            raise TypeError(f"its '{attribute}' is not a text")
    for attribute, entry_kind in (
        ("parameters", ServiceParameter),
        ("commands", ServiceCommand),
        ("interfaces", Mapping),
    ):
        entries = getattr(kind, attribute, None)
        if not isinstance(entries, Mapping) or not all(isinstance(entry, entry_kind) for entry in entries.values()):
            raise TypeError(f"its '{attribute}' is not a map from names to {entry_kind.__name__}")
    for attribute in ("check", "run"):
        if not inspect.iscoroutinefunction(getattr(kind, attribute, None)):
            raise TypeError(f"its '{attribute}' is not an async function")
