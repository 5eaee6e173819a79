"""Approvals that workflow steps wait for (decision 0059)."""

from typing import NamedTuple

from starlette.responses import Response

from launchbay.console.request import PageRequest, Routes, safe_path
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.features.change_sets.usecases import list_asking
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.job import approver_message
from launchbay.store.approvals import ApprovalAnswer, ApprovalRow, read_answers
from launchbay.usecases import approvals
from launchbay.usecases.approvals import AnswerRequest
from launchbay.usecases.users import list_member_names


class ApprovalItem(NamedTuple):
    """An approval as pages show it."""

    row: ApprovalRow
    approvers: str
    answers: list[ApprovalAnswer]


routes = Routes()

VIEWS = ("mine", "asked", "open", "decided")
_MOST = 2_000  # pending ones that the page looks at


@routes.get("/console/organizations/{id}/approvals", query=("after", "view"))
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show approvals: those for the user, asked by the user, all open ones, or the decided ones.

    The form of an answer names the organization.
    """
    organization_id = request.form.text("organization", request.path("id"))
    request.ask_frame(organization_id)
    view = request.choice("view", VIEWS) or "mine"
    pending = await approvals.list_pending_approvals(request.ctx, organization_id, after=None, count=_MOST)
    permissions = await request.permissions(organization_id)
    user_id = request.actor.user_id
    mine = [row for row in pending if permissions.answer(row, user_id)]
    asked = [row for row in pending if user_id in row.requesters]
    after = request.query("after")
    rows = {"mine": mine, "asked": asked, "open": pending}.get(view, [])
    rows = [row for row in rows if after is None or row.id > after]
    if view == "decided":
        rows = await approvals.list_decided_approvals(
            request.ctx, organization_id, before=after, count=CONSOLE_PAGE_ROWS + 1
        )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "approvals.html",
        section="approvals",
        organization_id=organization_id,
        problem=problem,
        shown=view,
        numbers={"mine": len(mine), "asked": len(asked), "open": len(pending)},
        asking=len(await list_asking(request.ctx, organization_id)),
        rows=[approval_item(row) for row in shown],
        people=request.ask(
            list_member_names(request.ctx, organization_id, (), also={each for row in shown for each in row.requesters})
        ),
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
