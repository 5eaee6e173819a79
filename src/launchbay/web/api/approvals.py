"""Approvals that workflows wait for (an addition; decision 0059)."""

from typing import Annotated, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.model.job import approver_message
from launchbay.store.approvals import ApprovalRow, read_answers
from launchbay.usecases import approvals
from launchbay.usecases.approvals import AnswerRequest
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, LongPages, Response, optional_ms, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Approvals", extension=True)

_PERMISSION = "ApproveInstanceWorkflow, and the permission or role that the step requires"


class AnswerBody(msgspec.Struct):
    """An optional comment on the decision."""

    comment: Annotated[str, msgspec.Meta(description="Comment for the others who decide, and for the log.")] = ""


class GivenAnswer(msgspec.Struct):
    """The answer of one user; `at` is in milliseconds since the Unix epoch."""

    userId: str
    email: str
    approves: bool
    comment: str
    at: int


class Approval(msgspec.Struct, kw_only=True):
    """An approval. `who` describes the approvers; programs read `permission` or `role`, null if the role was deleted.

    Times are in milliseconds since the Unix epoch; after `expiresAt` the step fails.
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
    instanceEndsAt: Annotated[
        int | None,
        msgspec.Meta(description="When the instance of a pending one is to be destroyed. That waits for the job."),
    ] = None


class ApprovalsQuery(LongPages, frozen=True):
    """Paging, and which approvals."""

    status: Annotated[
        Literal["pending", "decided"],
        msgspec.Meta(
            description="`decided`: approved, rejected, expired or withdrawn ones, newest first; `status` says which."
        ),
    ] = "pending"


@routes.get(
    "/organizations/{orgId}/approvals",
    permission="Read on the instance of each approval, or ApproveInstanceWorkflow on its workflow",
    returns=Returns("The pending approvals, oldest first.", type=list[Approval]),
)
async def list_approvals(request: Request[None, ApprovalsQuery]) -> Response:
    """List the pending or the decided approvals of an organization."""
    limit, after = request.query.limit, request.query.after
    if request.query.status == "decided":
        decided = await approvals.list_decided_approvals(
            request.ctx, request.path["orgId"], before=after, count=limit + 1
        )
        return page(request, [_approval(row) for row in decided], limit)
    rows = await approvals.list_pending_approvals(request.ctx, request.path["orgId"], after=after, count=limit + 1)
    return page(request, [_approval(row) for row in rows], limit)


@routes.get(
    "/instances/{id}/approvals",
    command="instance approvals",
    permission="Read",
    returns=Returns("The approvals, oldest first.", type=list[Approval]),
)
async def list_instance_approvals(request: Request[None, LongPages]) -> Response:
    """List the approvals of an instance, pending and decided."""
    limit, after = request.query.limit, request.query.after
    rows = await approvals.list_instance_approvals(request.ctx, request.path["id"], after=after, count=limit + 1)
    return page(request, [_approval(row) for row in rows], limit)


@routes.get("/approvals/{approvalId}", permission="Read on the instance, or ApproveInstanceWorkflow on the workflow")
async def read_approval(request: Request[None, None]) -> Approval:
    """Show an approval."""
    return _approval(await approvals.read_approval(request.ctx, request.path["approvalId"]))


@routes.post(
    "/approvals/{approvalId}/approve",
    command="approval approve",
    permission=_PERMISSION,
    body=JsonBody(media_optional=True, example={"comment": "Seen in staging."}),
    returns=Returns("The updated approval. With enough approvals the step continues.", type=Approval),
    statuses=(409,),
    idempotency_key=True,
)
async def approve(request: Request[AnswerBody, None]) -> Response:
    """Approve a step."""
    return await _answered(request, approves=True)


@routes.post(
    "/approvals/{approvalId}/reject",
    command="approval reject",
    permission=_PERMISSION,
    body=JsonBody(media_optional=True, example={"comment": "Not on a Friday."}),
    returns=Returns("The rejected approval.", type=Approval),
    statuses=(409,),
    idempotency_key=True,
)
async def reject(request: Request[AnswerBody, None]) -> Response:
    """Reject a step. The step fails and is not retried."""
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
        decidedAt=optional_ms(row.decided_at),
        instanceEndsAt=optional_ms(row.instance_ends_at),
    )
