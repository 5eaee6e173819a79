"""Types of the API: applications. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class ApplicationDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application in full. `version` is that of its newest manifest, `sourceUrl` where that is loaded from,
    without the query; `createdAt` is milliseconds since the Unix epoch.
    """

    id: str
    name: str
    organization_id: str
    version: int
    source_url: str | None
    created_at: int
