"""The audit log (`queries/audit.sql`); `auth/audit.py` writes it."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class AuditRow(NamedTuple):
    """One change; `before` and `after` are JSON texts."""

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


_sql = load("audit")
insert = _sql.change("insert")
insert_for_actor = _sql.change("insert_for_actor")
list_by_organization = _sql.rows("of_organization", AuditRow)
list_by_object = _sql.rows("of_object", AuditRow)


class IdempotencyKeyRow(NamedTuple):
    """What a key was used for, and the sealed answer."""

    fingerprint: str
    answer: bytes


_idempotency_keys_sql = load("idempotency_keys")
insert_idempotency_key = _idempotency_keys_sql.value("begin", bool)
set_idempotent_answer = _idempotency_keys_sql.change("finish")
get_idempotency_key = _idempotency_keys_sql.row("stored", IdempotencyKeyRow)
delete_idempotency_keys = _idempotency_keys_sql.change("forget")
