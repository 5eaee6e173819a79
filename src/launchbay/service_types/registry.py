"""The service types: the built-in ones, and those of installed packages (`launchbay.services`)."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from launchbay.plugins import BUILT_IN as BUILT_IN_PACKAGE
from launchbay.plugins import by_name, packaged
from launchbay.service_types.aws import AwsParameters, AwsSecrets
from launchbay.service_types.builtin import CloudAccount, SecureStore, SharedInstances, WorkflowService
from launchbay.service_types.contract import ENTRY_POINT_GROUP, ServiceCommand, ServiceParameter, ServiceType
from launchbay.service_types.openbao import OpenBao
from launchbay.service_types.resource_pool import ResourcePool
from launchbay.service_types.server_secrets import ServerFiles, ServerVariables

BUILT_IN: tuple[ServiceType, ...] = (
    WorkflowService(),
    SecureStore(),
    SharedInstances(),
    ResourcePool(),
    CloudAccount(),
    OpenBao(),
    AwsSecrets(),
    AwsParameters(),
    ServerFiles(),
    ServerVariables(),
)


class ServiceTypes:
    """The types by ID. Created once, at start, and never changed."""

    def __init__(self, sources: Iterable[tuple[str, ServiceType]], problems: tuple[str, ...] = ()) -> None:
        self.problems = problems  # one message for each package that failed to load
        self._types = by_name(sources, lambda kind: (kind.id,), noun="service type", key="id", code="ServiceTypeTaken")

    @classmethod
    def load(cls, *equipped: ServiceType) -> "ServiceTypes":
        """Find all types; `equipped` ones replace the built-in ones with the same IDs.

        Skips, logs and lists in `problems` the packages that fail to load. Raises CannotStart if two types have the
        same ID: the behavior of a service must not depend on the order.
        """
        replacements = {kind.id: kind for kind in equipped}
        found = packaged(ENTRY_POINT_GROUP, "service type", _checked)
        built_in = [(BUILT_IN_PACKAGE, replacements.get(kind.id, kind)) for kind in BUILT_IN]
        return cls([*built_in, *found.sources], found.problems)

    def find(self, type_id: str) -> ServiceType | None:
        return self._types.get(type_id)

    def all(self) -> list[ServiceType]:
        """Return all types, sorted by ID."""
        return [self._types[type_id] for type_id in sorted(self._types)]


def _checked(kind: Any) -> ServiceType:
    """Return the object. Raises TypeError if it violates the contract."""
    for attribute in ("id", "name"):
        text = getattr(kind, attribute, None)
        if not isinstance(text, str) or not text:
            raise TypeError(f"its '{attribute}' is not a non-empty string")
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
    _check_provider(kind)
    accepted: ServiceType = kind
    return accepted


def _check_provider(kind: Any) -> None:
    """Raise TypeError if a provider of secrets lacks a method."""
    if not hasattr(kind, "sign_in"):
        return
    leases = hasattr(kind, "renew") or hasattr(kind, "revoke")
    for attribute in ("sign_in", "read", *(("renew", "revoke") if leases else ())):
        if not inspect.iscoroutinefunction(getattr(kind, attribute, None)):
            raise TypeError(f"it gives secrets, and its '{attribute}' is not an async function")
