"""Types of the API: users. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class UserItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user as lists show it."""

    id: str
    name: str
    email: str
    roles: list[str]
    can_evict: bool
    can_manage_roles: bool


class AddedUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of the user; for a new account without a password also the link that sets it, and when that ends."""

    id: str
    invitation: str | None = None
    invitation_expires_at: int | None = None


class UserDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user in full. `invited` tells that the account still waits for its first password."""

    id: str
    name: str
    email: str
    roles: list[str]
    can_evict: bool
    can_manage_roles: bool
    enabled: bool
    invited: bool
    created_at: int
