"""Types of the API: revisions. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class RevisionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A revision in full; `createdAt` is milliseconds since the Unix epoch."""

    id: str
    name: str
    application_id: str
    version: int
    parameters: dict[str, Any]
    environment_id: str | None
    submodules: dict[str, Any]
    created_at: int
