"""Types of the API: services. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class ParameterShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A parameter or argument."""

    name: str
    type: str
    required: bool
    secret: bool
    description: str


class TypedName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A name with its type, such as `list<string>`."""

    name: str
    type: str


class CommandShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A command of a service type."""

    name: str
    interface: str
    description: str
    arguments: list[ParameterShape]
    intermediate: list[TypedName]
    results: list[TypedName]


class ServiceTypeShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What services can be made of."""

    id: str
    name: str
    interfaces: list[str]
    parameters: list[ParameterShape]
    commands: list[CommandShape]


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a service."""

    name: str
    pending: bool


class ServiceDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service instance in exactly the fields of the reference; secret parameters are masked."""

    id: str
    name: str
    type_id: str
    type_name: str
    zone_id: str
    zone_name: str
    organization_id: str
    interfaces: list[str]
    parameters: dict[str, Any]
    status: ServiceStatus
    internal_id: str
