"""Types of the API: approvals. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one person has answered; `at` is in milliseconds since the Unix epoch."""

    user_id: str
    email: str
    approves: bool
    comment: str
    at: int


class Approval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An approval. `who` is a sentence; `permission` or `role` say it for programs, `role` null when it was deleted.
    Times are milliseconds since the Unix epoch; after `expiresAt` the step fails.
    """

    id: str
    status: Any
    text: str
    who: str
    permission: str | None
    role: str | None
    needed: int
    answers: list[GivenAnswer]
    requesters: list[str]
    not_by_requester: bool
    instance_id: str
    instance_name: str
    application_id: str
    environment_id: str
    job_id: str
    workflow: str
    step: str
    created_at: int
    expires_at: int
    decided_at: int | None
