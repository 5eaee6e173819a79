"""An application, and the named revisions of it (reference §2)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Application:
    """One application; its manifests are numbered from 1 to `latest_version`."""

    id: str
    organization_id: str
    name: str
    latest_version: int
    source_url: str | None  # what is shown of where the manifest is loaded from; None when it is uploaded
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Revision:
    """A named combination of manifest version, parameters, environment and submodule revisions.

    `parameters` and `submodules` are JSON texts, because their key order matters.
    """

    id: str
    application_id: str
    organization_id: str
    name: str
    version: int
    parameters: str
    environment_id: str | None
    submodules: str
    created_at: datetime
