"""Types of the API: environments. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class EnvironmentItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment as lists show it."""

    id: str
    name: str
    is_default: bool


class Marker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A marker; an environment has it or not."""

    name: str


class Markers(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The markers of an environment."""

    markers: list[Marker]


class Property(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value of the environment; `type` is the text that was given, such as `list<string>`."""

    name: str
    value: Any
    type: str


class Properties(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The properties of an environment."""

    properties: list[Property]


class ServiceItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service instance as lists show it."""

    id: str
    name: str
    type_id: str


class OfferedServices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The services that an environment offers."""

    services: list[ServiceItem]


class OfferedInstance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance that an environment offers as a service, with the id of its application."""

    id: str
    name: str
    application: str
    status: str
