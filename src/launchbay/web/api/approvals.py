"""Approvals that workflows wait for (an addition; docs/decisions/0059-approvals.md)."""

from datetime import datetime
from typing import Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.model.job import approver_message
from launchbay.store.approvals import ApprovalRow, read_answers
from launchbay.usecases import approvals
from launchbay.usecases.approvals import AnswerRequest
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Paging, Response, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Approvals")

_PERMISSION = "ApproveInstanceWorkflow, and what the step asks for"


class AnswerBody(msgspec.Struct):
    """What to say with the answer."""

    comment: str = ""


class GivenAnswer(msgspec.Struct):
    """What one person has answered; `at` is in milliseconds since the Unix epoch."""

    userId: str
    email: str
    approves: bool
    comment: str
    at: int


class Approval(msgspec.Struct, kw_only=True):
    """An approval. `who` is a sentence; `permission` or `role` say it for programs, `role` null when it was deleted.

    Times are milliseconds since the Unix epoch; after `expiresAt` the step fails.
    """

    id: str
    status: Literal["pending", "approved", "rejected", "expired", "withdrawn"]
    text: str
    who: str
    permission: str | None
    role: str | None
    needed: int
    answers: list[GivenAnswer]
    requesters: list[str]
    notByRequester: bool
    instanceId: str
    instanceName: str
    applicationId: str
    environmentId: str
    jobId: str
    workflow: str
    step: str
    createdAt: int
    expiresAt: int
    decidedAt: int | None


@routes.get(
    "/organizations/{orgId}/approvals",
    permission="Read for the instance of each",
    returns=Returns("Those that are pending, the oldest first; at most 10,000 at once.", type=list[Approval]),
    statuses=(403,),
    extension=True,
)
async def list_approvals(request: Request[None, Paging]) -> Response:
    """Lists the approvals that workflows of the organization wait for."""
    query = request.query
    limit = LIST_LIMIT_MAX if query.limit is None else query.limit
    rows = await approvals.list_pending_approvals(
        request.ctx, request.path["orgId"], after=query.after, count=limit + 1
    )
    return page(request, [msgspec.to_builtins(_approval(row)) for row in rows], limit)


@routes.get(
    "/instances/{id}/approvals",
    permission="Read",
    returns=Returns("The approvals, the oldest first; at most 10,000 at once.", type=list[Approval]),
    statuses=(403,),
    extension=True,
)
async def list_instance_approvals(request: Request[None, Paging]) -> Response:
    """Lists the approvals that workflows of the instance wait for or have got."""
    query = request.query
    limit = LIST_LIMIT_MAX if query.limit is None else query.limit
    rows = await approvals.list_instance_approvals(request.ctx, request.path["id"], after=query.after, count=limit + 1)
    return page(request, [msgspec.to_builtins(_approval(row)) for row in rows], limit)


@routes.post(
    "/approvals/{approvalId}/approve",
    permission=_PERMISSION,
    body=JsonBody(media_optional=True, example={"comment": "Seen in staging."}),
    returns=Returns("The approval as it is now; with enough answers the step goes on.", type=Approval),
    statuses=(403, 409),
    extension=True,
    idempotency_key=True,
)
async def approve(request: Request[AnswerBody, None]) -> Response:
    """Approves what a step waits for."""
    return await _answered(request, approves=True)


@routes.post(
    "/approvals/{approvalId}/reject",
    permission=_PERMISSION,
    body=JsonBody(media_optional=True, example={"comment": "Not on a Friday."}),
    returns=Returns("The approval, rejected.", type=Approval),
    statuses=(403, 409),
    extension=True,
    idempotency_key=True,
)
async def reject(request: Request[AnswerBody, None]) -> Response:
    """Rejects what a step waits for: the step fails, and is not tried again."""
    return await _answered(request, approves=False)


async def _answered(request: Request[AnswerBody, None], *, approves: bool) -> Response:
    given = AnswerRequest(approves, request.body.comment.strip())
    return JSONResponse(_approval(await approvals.answer_approval(request.ctx, request.path["approvalId"], given)))


def _approval(row: ApprovalRow) -> Approval:
    role = row.role or ("(deleted)" if row.role_id is not None else None)
    return Approval(
        id=row.id,
        status=row.status,  # type: ignore[arg-type] # the table has these five
        text=row.text,
        who=approver_message(permission=row.permission, role=role),
        permission=row.permission,
        role=row.role,
        needed=row.needed,
        answers=[
            GivenAnswer(each.user_id, each.email, each.approves, each.comment, each.at_ms)
            for each in read_answers(row.answers)
        ],
        requesters=row.requesters,
        notByRequester=row.not_by_requester,
        instanceId=row.instance_id,
        instanceName=row.instance_name,
        applicationId=row.application_id,
        environmentId=row.environment_id,
        jobId=row.job_id,
        workflow=row.workflow,
        step=row.step,
        createdAt=to_ms(row.created_at),
        expiresAt=to_ms(row.expires_at),
        decidedAt=_ms(row.decided_at),
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)
