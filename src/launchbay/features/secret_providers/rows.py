"""Providers of an environment, and sessions of steps at them until they are revoked."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.keys import sealed_column
from launchbay.store.statements import load

_sql = load("features.secret_providers")


class ProviderRow(NamedTuple):
    """A service; `parameters` is JSON without the secret ones."""

    id: str
    type_id: str
    parameters: str


class DueRow(NamedTuple):
    """A provider with due sessions."""

    organization_id: str
    provider: str
    sessions: int


class SessionRow(NamedTuple):
    """A claimed session. `leases` is JSON."""

    id: str
    organization_id: str
    environment_id: str
    job_id: str
    provider: str
    type_id: str
    sealed: bytes
    leases: str
    lease_s: int
    expires_at: datetime
    failures: int
    is_needed: bool


class StuckRow(NamedTuple):
    """A session that couldn't be revoked. A test has no `job_id`."""

    organization: str
    provider: str
    job_id: str
    message: str
    expires_at: datetime


class StuckProvider(NamedTuple):
    """A provider with unrevoked sessions, and the one that stays open longest."""

    organization: str
    provider: str
    job_id: str
    message: str
    expires_at: datetime
    sessions: int


class ReadRow(NamedTuple):
    """The last read of a `secret`, its path and key; `is_changed` since."""

    application_id: str
    application: str
    environment_id: str
    environment: str
    instance_id: str
    instance: str
    component: str
    step: str
    secret: str
    job_id: str
    read_at: datetime
    is_changed: bool


class DueChecks(NamedTuple):
    """A service with secrets to look at.

    `until` is when the last of them was looked at.
    """

    service_id: str
    until: datetime


class UncheckedRow(NamedTuple):
    """A secret to look at, and as which step. `parameters` and `policies` are JSON."""

    id: str
    name: str
    type_id: str
    parameters: str
    organization_id: str
    organization: str
    environment_id: str
    environment: str
    policies: str
    application_id: str
    application: str
    version: int
    revision_id: str | None
    instance_id: str
    instance: str
    owner_id: str
    component: str
    step: str
    workflow: str
    path: str


class ChangedRow(NamedTuple):
    """A secret that has changed since a step read it.

    `left_out` is how many other secrets aren't listed.
    """

    provider: str
    secret: str
    component: str
    step: str
    read_at: datetime
    job_id: str
    left_out: int


class ReadersRow(NamedTuple):
    """How many instances read from a service."""

    id: str
    instances: int


class DependentRow(NamedTuple):
    """An instance that reads from a service, and its environment."""

    instance: str
    environment: str


class NeighborRow(NamedTuple):
    """A sealed parameter of a service."""

    id: str
    service: str
    name: str
    sealed: bytes


def session_purpose(session_id: str) -> str:
    """Return what a session is sealed for."""
    return f"secret session {session_id}"


list_providers = _sql.rows("list_providers", ProviderRow)
insert = _sql.change("insert")
add_lease = _sql.change("add_lease")
list_due = _sql.rows("list_due", DueRow)
claim = _sql.row("claim", SessionRow)
renewed = _sql.change("renewed")
failed = _sql.change("failed")
list_stuck = _sql.rows("list_stuck", StuckProvider)
list_stuck_of = _sql.rows("list_stuck_of", StuckRow)
note_reads = _sql.change("note_reads")
list_unchecked = _sql.rows("list_unchecked", DueChecks)
take_unchecked = _sql.column("take_unchecked", str)
delete_unread = _sql.change("delete_unread")
list_last_readers = _sql.rows("list_last_readers", UncheckedRow)
get_version = _sql.value("get_version", str)
note_version = _sql.change("note_version")
list_changed = _sql.rows("list_changed", ChangedRow)
list_reads = _sql.rows("list_reads", ReadRow)
count_readers = _sql.rows("count_readers", ReadersRow)
list_dependents = _sql.rows("list_dependents", DependentRow)
list_neighbors = _sql.rows("list_neighbors", NeighborRow)
remove = _sql.change("remove")
sealed_sessions = sealed_column(_sql, "secret_sessions", "list_sealed", "put_sealed")
