"""Applications, the versions of their manifests, and their revisions."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.keys import AddressRow
from launchbay.store.statements import load

_sql = load("applications")


class LabelsRow(NamedTuple):
    """The labels of an object, as JSON."""

    id: str
    labels: str


class RevisionOfApplication(NamedTuple):
    """A named revision, with its application."""

    id: str
    application_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Application:
    """One application; its manifests are numbered from 1 to `latest_version`."""

    id: str
    organization_id: str
    name: str
    latest_version: int
    source_url: str | None  # of the manifest, without its query; None if it was uploaded
    created_at: datetime


class ChangeableRow(NamedTuple):
    """The fields of an application that can change."""

    name: str
    latest_version: int
    source_url: str | None
    sealed_source: bytes | None


list_labels = _sql.rows("list_labels", LabelsRow)
list_by_organization = _sql.rows("list_by_organization", NamedRow)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
lock_for_deletion = _sql.value("lock_for_deletion", str)
set_version = _sql.change("set_version")
get_source = _sql.value("get_source", bytes)
list_unsealed_sources = _sql.rows("list_unsealed_sources", AddressRow)
set_source = _sql.change("set_source")
rename = _sql.change("rename")
count_active_instances = _sql.value("count_active_instances", int)
delete_instances = _sql.change("delete_instances")
delete = _sql.change("delete")
resolve_locator = _sql.value("resolve_locator", str)


class VersionRow(NamedTuple):
    """A manifest version in a list; `message` says what it changed."""

    version: int
    created_at: datetime
    author_id: str
    message: str | None


class VersionText(NamedTuple):
    """The text of a version."""

    application_id: str
    version: int
    content: str


class DigestsRow(NamedTuple):
    """The digests of a manifest version, as JSON (`manifest/digests.py`), and how long its text is."""

    version: int
    digests: str | None
    bytes: int


get_manifest = _sql.value("get_manifest", str)
list_manifest_texts = _sql.rows("list_manifest_texts", VersionText)
list_manifests_by_application = _sql.rows("list_manifests_by_application", VersionRow)
insert_manifest = _sql.change("insert_manifest")
insert_manifests = _sql.change("insert_manifests")
list_digests = _sql.rows("list_digests", DigestsRow)
set_digests = _sql.change("set_digests")
manifest_exists = _sql.value("manifest_exists", bool)


@dataclass(frozen=True, slots=True)
class Revision:
    """A named combination of manifest version, parameters, environment and submodule revisions.

    That of a mere manifest version has an empty name, and nothing else. `parameters` and `submodules` are JSON texts,
    because their key order matters.
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


class RevisionPlace(NamedTuple):
    """A revision, and the application that it belongs to."""

    id: str
    application_id: str


list_revision_applications = _sql.rows("list_revision_applications", RevisionPlace)
list_revisions_by_application = _sql.rows("list_revisions_by_application", NamedRow)
list_all_revisions = _sql.rows("list_all_revisions", RevisionOfApplication)
list_full_revisions = _sql.rows("list_full_revisions", Revision)
get_revision = _sql.row("get_revision", Revision)
insert_revision = _sql.change("insert_revision")
update_revision = _sql.change("update_revision")
lock_revision = _sql.value("lock_revision", str)
delete_revision = _sql.change("delete_revision")
