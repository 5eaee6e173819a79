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
of_organization = _sql.rows("of_organization", AuditRow)
of_object = _sql.rows("of_object", AuditRow)


class StoredRow(NamedTuple):
    """What a key was used for, and the sealed answer."""

    fingerprint: str
    answer: bytes


_idempotency_keys_sql = load("idempotency_keys")
begin = _idempotency_keys_sql.value("begin", bool)
finish = _idempotency_keys_sql.change("finish")
stored = _idempotency_keys_sql.row("stored", StoredRow)
forget = _idempotency_keys_sql.change("forget")
