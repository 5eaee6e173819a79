"""Answers kept under an Idempotency-Key (`queries/idempotency_keys.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import load


class StoredRow(NamedTuple):
    """What a key was used for, and the sealed answer."""

    fingerprint: str
    answer: bytes


_sql = load("idempotency_keys")
begin = _sql.value("begin", bool)
finish = _sql.change("finish")
stored = _sql.row("stored", StoredRow)
forget = _sql.change("forget")
