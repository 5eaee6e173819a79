"""Approvals: what a step asks people, what they answer, and how that is told in a sentence. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ApprovalStatus(StrEnum):
    """Where an approval stands. Everything but `pending` is final."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the job ended without an answer, by cancellation for example


@dataclass(frozen=True, slots=True)
class Question:
    """What a step wants approved. `who` is the name of a permission or of a role of the organization; None asks for
    nothing beyond the permission that every answer takes. Times are in UTC.
    """

    text: str
    who: str | None
    needed: int
    expires_at: datetime
    not_by_requester: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What one person answered; `by` is their e-mail address."""

    by: str
    approves: bool
    comment: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an approval ended, with the answers in the order of their times."""

    status: ApprovalStatus
    answers: Sequence[Answer]


def verdict_after(answers: Sequence[bool], needed: int) -> ApprovalStatus:
    """Return where an approval stands with these answers: one refusal decides, and so do `needed` consents."""
    if not all(answers):
        return ApprovalStatus.REJECTED
    return ApprovalStatus.APPROVED if len(answers) >= needed else ApprovalStatus.PENDING


def waiting_sentence(text: str, *, who: str, needed: int, given: int) -> str:
    """Return what an instance waits for, for people; `who` as `who_sentence` says it."""
    count = "approval" if needed == 1 else f"{needed} approvals ({given} given)"
    return f"Waits for {count} by {who}: {text}"


def who_sentence(*, permission: str | None, role: str | None) -> str:
    """Return who may answer, for people."""
    if role is not None:
        return f"somebody with the role {role!r}"
    if permission is not None:
        return f"somebody with the permission {permission}"
    return "somebody who may approve"
