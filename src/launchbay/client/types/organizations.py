"""Types of the API: organizations. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class Named(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An id with its name: the list item of organizations, applications and revisions (reference §2)."""

    id: str
    name: str


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of what was created."""

    id: str


class ArchivedRevision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A revision with its version."""

    parameters: dict[str, Any] = {}
    environment: str | None = None
    submodules: dict[str, Any] = {}
    version: int


class ArchivedApplication(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application with all versions of its manifest, the first one first."""

    manifests: list[str]
    source: str | None = None
    revisions: dict[str, Any] = {}


class ArchivedRole(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role's text."""

    permissions: str
    is_guest: bool = False


class ArchivedService(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service without its secrets."""

    type_id: str
    parameters: dict[str, Any] = {}


class ArchivedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of the organization, and the roles that they hold."""

    name: str
    roles: list[str] = []


class PropertyEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A property of an environment."""

    name: str
    type: str
    value: Any


class Environment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment. What is left out is not looked at; services are named."""

    default: bool = False
    policies: dict[str, Any] | None = None
    markers: list[str] | None = None
    properties: list[PropertyEntry] | None = None
    services: list[str] | None = None


class Archive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A whole organization in one document. No secret is in it: `holes` tells what has to be filled in afterwards.
    `mentions` are the ids that texts of manifests and roles name, each with the kind and name of its object: what is
    imported has other ids.
    """

    format: Any = "launchbay organization"
    version: int = 1
    name: str
    services: dict[str, Any]
    environments: dict[str, Any]
    applications: dict[str, Any]
    roles: dict[str, Any]
    users: dict[str, Any]
    mentions: dict[str, Any]
    holes: list[str]


class InvitedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new account, and the link that sets its password."""

    email: str
    invitation: str
    invitation_expires_at: int


class ImportedOrganization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was made, or would be: a plan has no id. `holes` are what the archive could not hold."""

    id: str | None
    created: dict[str, Any]
    holes: list[str]
    invitations: list[InvitedUser]


class HostKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pinned key. The id is the host's address with its port; times are milliseconds since the Unix epoch."""

    id: str
    algorithm: str
    fingerprint: str
    pinned_at: int
