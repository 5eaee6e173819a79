"""Approvals that workflow steps wait for (docs/decisions/0059)."""

from typing import NamedTuple

from starlette.responses import Response

from launchbay.console.request import PageRequest, Routes, safe_path, user_names
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.job import approver_message
from launchbay.store.approvals import ApprovalAnswer, ApprovalRow, read_answers
from launchbay.usecases import approvals
from launchbay.usecases.approvals import AnswerRequest


class ApprovalItem(NamedTuple):
    """An approval as pages show it."""

    row: ApprovalRow
    approvers: str
    answers: list[ApprovalAnswer]


routes = Routes()


@routes.get("/console/organizations/{id}/approvals")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the pending approvals of an organization, oldest first. The form of an answer names the organization."""
    organization_id = request.form.text("organization", request.path("id"))
    rows = await approvals.list_pending_approvals(
        request.ctx, organization_id, after=request.query("after"), count=CONSOLE_PAGE_ROWS + 1
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "approvals.html",
        section="approvals",
        organization_id=organization_id,
        problem=problem,
        rows=[approval_item(row) for row in shown],
        people=await user_names(request, organization_id),
        next_after=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
    )


@routes.post("/console/approvals/{id}", again=list_all, refusals=(BadRequest, Conflict))
async def answer(request: PageRequest) -> Response:
    form = request.form
    approves = form.text("do") == "approve"
    row = await approvals.answer_approval(
        request.ctx, request.path("id"), AnswerRequest(approves, form.text("comment"))
    )
    message = "Approved." if approves else "Rejected. The step fails."
    if row.status == "pending":
        message += " It needs more approvals."
    return request.redirect(safe_path(form.text("back")), message)


def approval_item(row: ApprovalRow) -> ApprovalItem:
    """Return an approval with its approvers as text and its answers."""
    role = row.role or ("(deleted)" if row.role_id is not None else None)
    return ApprovalItem(row, approver_message(permission=row.permission, role=role), read_answers(row.answers))
