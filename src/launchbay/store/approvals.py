"""Approvals and the answers to them."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from launchbay.store.statements import load

_sql = load("approvals")


class DecidedRow(NamedTuple):
    """An approval, and whether it has been decided."""

    id: str
    status: str


class DueRow(NamedTuple):
    """An approval that has expired."""

    id: str
    instance_id: str


class AnswerRow(NamedTuple):
    """One person's answer, perhaps with an access token."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at: datetime
    token_id: str | None


class AnswerContextRow(NamedTuple):
    """What decides whether a user can answer.

    `is_barred`: the user requested the job and can't approve it.
    """

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
    """An approval in full.

    `read_answers` decodes `answers`; `role` is None if the role was deleted.

    A pending one has `instance_ends_at`, as far as that is known. The destroy waits for the job.
    """

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
    instance_ends_at: datetime | None

    @property
    def outlives_instance(self) -> bool:
        return self.instance_ends_at is not None and self.instance_ends_at < self.expires_at


class ApprovalAnswer(msgspec.Struct, array_like=True, frozen=True):
    """An answer in `ApprovalRow.answers`; the time is in milliseconds since the Unix epoch."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at_ms: int


read_answers = msgspec.json.Decoder(list[ApprovalAnswer]).decode  # of an `ApprovalRow`, oldest first
insert = _sql.value("insert", str)
count_pending = _sql.value("count_pending", int)
get_role_by_name = _sql.value("get_role_by_name", str)
get_by_step = _sql.row("get_by_step", DecidedRow)
list_decided = _sql.rows("list_decided", DecidedRow)
list_due = _sql.rows("list_due", DueRow)
list_answers = _sql.rows("list_answers", AnswerRow)
get_answer_context = _sql.row("get_answer_context", AnswerContextRow)
lock = _sql.row("lock", LockedRow)
insert_answer = _sql.change("insert_answer")
delete_answer = _sql.change("delete_answer")
decide = _sql.change("decide")
get = _sql.row("get", ApprovalRow)
list_pending_by_organization = _sql.rows("list_pending_by_organization", ApprovalRow)
list_decided_by_organization = _sql.rows("list_decided_by_organization", ApprovalRow)
list_by_instance = _sql.rows("list_by_instance", ApprovalRow)
