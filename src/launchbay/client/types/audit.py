"""Types of the API: audit. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class AuditActor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who: the account, and how it proved itself."""

    id: str
    email: str
    method: str


class AuditEntryShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry as the documentation describes it."""

    id: str
    at: int
    actor: AuditActor
    address: str
    operation: str
    object: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
