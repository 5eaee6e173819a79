"""Applications (`queries/applications.sql`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.statements import AddressRow, load


class ChangeableRow(NamedTuple):
    """What can be changed of an application."""

    name: str
    latest_version: int
    source_url: str | None
    sealed_source: bytes | None


_sql = load("applications")
list_by_organization = _sql.rows("of_organization", NamedRow)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
lock_for_deletion = _sql.value("lock_for_deletion", str)
set_version = _sql.change("set_version")
get_source = _sql.value("source", bytes)
list_unsealed_sources = _sql.rows("unsealed", AddressRow)
set_source = _sql.change("set_source")
rename = _sql.change("rename")
count_active_instances = _sql.value("active_count", int)
delete_instances = _sql.change("delete_instances")
delete = _sql.change("delete")
resolve_locator = _sql.value("find", str)


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


class VersionRow(NamedTuple):
    """A manifest version as lists show it."""

    version: int
    created_at: datetime
    author_id: str


_manifests_sql = load("manifests")
get_manifest = _manifests_sql.value("content", str)
list_manifests_by_application = _manifests_sql.rows("of_application", VersionRow)
insert_manifest = _manifests_sql.change("insert")
manifest_exists = _manifests_sql.value("exists", bool)

_revisions_sql = load("revisions")
list_revisions_by_application = _revisions_sql.rows("of_application", NamedRow)
get_revision = _revisions_sql.row("one", Revision)
insert_revision = _revisions_sql.change("insert")
update_revision = _revisions_sql.change("update")
lock_revision = _revisions_sql.value("lock", str)
delete_revision = _revisions_sql.change("delete")
