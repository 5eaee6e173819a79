"""Instances: lists, history, small changes (`queries/instances.sql`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.model.instance import InstanceStatus
from launchbay.store.audit import AuditRow
from launchbay.store.events import LogRow
from launchbay.store.statements import load


class InstanceDetail(msgspec.Struct, frozen=True):
    """One instance; documents are JSON texts. `history` holds the newest jobs, newest first (`store/instances.py`).

    `waits` is what its work waits for (`model/instance.py`); None where nothing runs or is due.
    A struct, unlike other records: this is the hot read, and a frozen dataclass takes a call for each field.
    """

    id: str
    organization_id: str
    application_id: str
    environment_id: str
    version: int
    name: str
    owner_id: str
    status: str
    parameters: str
    return_values: str
    components: str
    user_data: str
    environment_view: str
    error_message: str | None
    destroy_at: datetime | None
    created_at: datetime
    history: str
    waits: str | None


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance; the documents are JSON texts, because their key order matters. The columns say what each is for."""

    id: str
    organization_id: str
    application_id: str
    environment_id: str
    revision_id: str | None
    version: int
    name: str
    owner_id: str
    status: InstanceStatus
    parent_id: str | None  # the instance that launched this one as its submodule
    job_id: str | None
    parameters: str
    return_values: str
    components: str
    user_data: str
    environment_view: str
    state: str
    error_message: str | None
    destroy_at: datetime | None
    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", InstanceStatus(self.status))  # rows bring the plain text


class InstanceSummary(msgspec.Struct, frozen=True, gc=False):
    """An instance as lists show it, in exactly the fields of the reference (§2), under their names.

    There may be a hundred thousand in a list, so a row becomes this and this becomes JSON, with nothing in between.
    """

    id: str
    name: str
    environment: str
    application: str
    revision: str | None
    status: str


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job of the history, its times in ms since the Unix epoch. `steps` are `(path, name, status, percent)`.

    `live_steps`, of the running job only, are `(path, status, percent)` and newer.
    """

    id: str
    name: str
    status: str
    owner_id: str
    steps: list[tuple[str, str, str, int]]
    error_message: str | None
    started_at_ms: int | None
    finished_at_ms: int | None
    live_steps: list[tuple[str, str, int]] | None


class LockRow(NamedTuple):
    """What decides about deletion: `plan` is the one of the job under way."""

    status: str
    job_id: str | None
    plan: str | None
    may_hold_something: bool


_history = msgspec.json.Decoder(list[JobRow])


def read_history(text: str) -> list[JobRow]:
    """Return the jobs of an instance's history, which the database gives as JSON."""
    return _history.decode(text)


class CatalogRow(NamedTuple):
    """The parameters of a shared-instances catalog, a JSON text."""

    parameters: str


class LinkedRow(NamedTuple):
    """The instance behind a component; all but the link itself is None when it is gone."""

    component: str
    target_id: str
    kind: str
    application_id: str | None
    version: int | None
    revision_id: str | None
    parameters: str | None
    name: str | None
    status: str | None
    binding: str | None


class StatusRow(NamedTuple):
    """How far an instance is; `state`, `before` and `parameters` are JSON texts."""

    state: str
    before: str | None
    status: str
    application_id: str
    version: int
    parameters: str


_sql = load("instances")
list_by_application = _sql.rows("of_application", InstanceSummary)
list_by_environment = _sql.rows("of_environment", InstanceSummary)
list_by_revision = _sql.rows("of_revision", InstanceSummary)
set_user_data = _sql.change("set_user_data")
lock = _sql.row("lock", LockRow)
delete = _sql.change("delete")
insert_children = _sql.change("insert_children")
get_state = _sql.value("state", str)
insert_links = _sql.change("insert_links")
list_shared_catalogs = _sql.rows("shared_catalogs", CatalogRow)
list_linked = _sql.rows("linked", LinkedRow)
get_status = _sql.row("standing", StatusRow)
change_configuration = _sql.change("change_configuration")


def document_purpose(document_id: str) -> str:
    """Return what such a document is sealed for."""
    return f"kept document {document_id}"


class InstancePageRow(NamedTuple):
    """An instance in a list, with the names of what it belongs to."""

    id: str
    name: str
    status: str
    application_id: str
    application: str
    environment_id: str
    environment: str
    version: int
    created_at: datetime
    destroy_at: datetime | None
    parent_id: str | None


class RelativeRow(NamedTuple):
    """An instance of a family; the first one has no parent in it."""

    id: str
    parent_id: str | None
    name: str
    status: str
    application_id: str
    application: str
    environment_id: str


_browsing_sql = load("browsing")
list_page = _browsing_sql.rows("page", InstancePageRow)
list_family = _browsing_sql.rows("family", RelativeRow)
list_log_tail = _browsing_sql.rows("log_tail", LogRow)
list_audit_page = _browsing_sql.rows("audit_page", AuditRow)


class ExpiryRow(NamedTuple):
    """An instance, locked. `is_offered`: some environment offers it as a service."""

    status: str
    destroy_at: datetime | None
    is_offered: bool


_expiry_sql = load("expiry")
lock_expiry = _expiry_sql.row("lock", ExpiryRow)
set_expiry = _expiry_sql.change("move")
clear_expiry = _expiry_sql.change("clear")


class DocumentRow(NamedTuple):
    """A document that is kept."""

    id: str
    version: int
    sealed: bytes


class DocumentKeyRow(NamedTuple):
    """Whose document it is."""

    component: str
    action: str
    name: str


_kept_documents_sql = load("kept_documents")
list_documents_by_instance = _kept_documents_sql.rows("of_instance", DocumentKeyRow)
get_document = _kept_documents_sql.row("read", DocumentRow)
write_document = _kept_documents_sql.value("write", int)
delete_document = _kept_documents_sql.change("forget")
has_documents = _kept_documents_sql.value("holds", bool)
