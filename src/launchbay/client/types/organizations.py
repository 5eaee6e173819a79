"""Types of the API: organizations. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class Named(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An id with its name: the list item of organizations, applications and revisions (reference §2)."""

    id: str
    name: str


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of what was created."""

    id: str


class HostKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pinned key. The id is the host's address with its port; times are milliseconds since the Unix epoch."""

    id: str
    algorithm: str
    fingerprint: str
    pinned_at: int
