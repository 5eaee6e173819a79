"""Approvals and the answers to them (`queries/approvals.sql`)."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.store.statements import load


class DecidedRow(NamedTuple):
    """An approval that nobody is asked for any more."""

    id: str
    status: str


class DueRow(NamedTuple):
    """An approval whose time is over."""

    id: str
    instance_id: str


class AnswerRow(NamedTuple):
    """What one person answered."""

    email: str
    approves: bool
    comment: str
    at: datetime


class AnswerContextRow(NamedTuple):
    """What decides whether somebody may answer; `is_barred`: they asked for the job, and may not approve it."""

    id: str
    organization_id: str
    instance_id: str
    job_id: str
    workflow: str
    permission: str | None
    role_id: str | None
    role_name: str | None
    holds_role: bool
    is_barred: bool


class LockedRow(NamedTuple):
    """An approval while it is locked."""

    status: str
    needed: int
    expires_at: datetime


class ApprovalRow(NamedTuple):
    """An approval as the API shows it. `answers` is read with `read_answers`; `role` is None where it was deleted."""

    id: str
    organization_id: str
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    job_id: str
    workflow: str
    step: str
    text: str
    permission: str | None
    role_id: str | None
    role: str | None
    needed: int
    requesters: list[str]
    not_by_requester: bool
    status: str
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    answers: str


class ApprovalAnswer(msgspec.Struct, array_like=True, frozen=True):
    """An answer in `ApprovalRow.answers`; the time is in milliseconds since the Unix epoch."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at_ms: int


def read_answers(text: str) -> list[ApprovalAnswer]:
    """Return the answers of an `ApprovalRow`, in the order of their times."""
    return _answers.decode(text)


_answers = msgspec.json.Decoder(list[ApprovalAnswer])
_sql = load("approvals")
insert = _sql.value("ask", str)
count_pending = _sql.value("count_pending", int)
get_role_by_name = _sql.value("role_named", str)
list_decided = _sql.rows("decided", DecidedRow)
list_due = _sql.rows("due", DueRow)
list_answers = _sql.rows("answers", AnswerRow)
get_answer_context = _sql.row("look", AnswerContextRow)
lock_instance = _sql.value("lock_instance", str)
lock = _sql.row("lock", LockedRow)
insert_answer = _sql.change("answer")
get_own_answer = _sql.value("own_answer", bool)
decide = _sql.change("decide")
get = _sql.row("one", ApprovalRow)
list_pending_by_organization = _sql.rows("pending_of_organization", ApprovalRow)
list_by_instance = _sql.rows("of_instance", ApprovalRow)
