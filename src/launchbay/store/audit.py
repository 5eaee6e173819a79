"""The audit log, which `auth/audit.py` writes, and the results of requests with an Idempotency-Key."""

from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.statements import load

_sql = load("audit")


class AuditRow(NamedTuple):
    """One change. `before` and `after` are JSON."""

    id: int
    at: datetime
    actor_id: str
    actor_email: str
    method: str
    address: str
    operation: str
    object: str
    before: str | None
    after: str | None
    token_id: str | None
    token_name: str | None


class FoundObject(NamedTuple):
    """An object or member of an organization; `kind` is a word for people."""

    kind: str
    id: str
    name: str


class RecentByRow(NamedTuple):
    """A change that somebody made. The environment is None if it isn't known."""

    at: datetime
    actor_id: str
    actor_email: str
    operation: str
    object: str
    environment_id: str | None


class LastChange(NamedTuple):
    """When an object was last changed, and the name of who did it."""

    id: str
    at: datetime
    actor: str


insert = _sql.change("insert")
post_override = _sql.change("post_override")
insert_for_actor = _sql.change("insert_for_actor")
insert_for_home = _sql.change("insert_for_home")
get_place = _sql.value("get_place", int)
list_entries = _sql.rows("list_entries", AuditRow, is_prepared=False)
list_last_changes = _sql.rows("list_last_changes", LastChange)
list_recent_by = _sql.rows("list_recent_by", RecentByRow, is_prepared=False)
list_names = _sql.rows("list_names", NamedRow)
list_named = _sql.rows("list_named", FoundObject)


class IdempotencyKeyRow(NamedTuple):
    """What a key was used for, and the encrypted response."""

    fingerprint: str
    answer: bytes
    headers: str | None


insert_idempotency_key = _sql.value("insert_idempotency_key", bool)
set_idempotent_answer = _sql.change("set_idempotent_answer")
get_idempotency_key = _sql.row("get_idempotency_key", IdempotencyKeyRow)
delete_idempotency_keys = _sql.change("delete_idempotency_keys")
