"""Types of the API: roles. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class RoleItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role as lists show it."""

    id: str
    name: str
    can_edit: bool
    can_delete: bool


class RoleDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role with its permissions, as its author wrote them."""

    id: str
    name: str
    can_edit: bool
    can_delete: bool
    permissions: str


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The decision, a sentence that says why, and the role, entry and pattern that allowed it."""

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None
