"""Types of the API: manifests. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

import msgspec


class ManifestVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of a manifest version."""

    version: int


class FindingShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One finding of the manifest checker."""

    message: str
    line: int
    column: int
    code: str


class Findings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the checker has to say."""

    errors: list[FindingShape]
    warnings: list[FindingShape]


class VersionItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A manifest version; `createdAt` is milliseconds since the Unix epoch, `authorId` the user who brought it."""

    version: int
    created_at: int
    author_id: str


class RefreshedVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest version, and whether the refresh made it."""

    version: int
    changed: bool
