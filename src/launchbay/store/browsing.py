"""Instances as the console looks for them (`queries/browsing.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.audit import AuditRow
from launchbay.store.events import LogRow
from launchbay.store.statements import load


class BrowsedRow(NamedTuple):
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


_sql = load("browsing")
page = _sql.rows("page", BrowsedRow)
family = _sql.rows("family", RelativeRow)
log_tail = _sql.rows("log_tail", LogRow)
audit_page = _sql.rows("audit_page", AuditRow)
