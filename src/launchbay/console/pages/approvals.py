"""What steps of workflows wait for people to approve (docs/decisions/0059)."""

from typing import NamedTuple

from starlette.responses import Response

from launchbay.console.request import Page, Visit, names_of_people, own_path
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.job import who_sentence
from launchbay.store.approvals import ApprovalRow, ShownAnswer, read_answers
from launchbay.usecases import approvals
from launchbay.usecases.approvals import Given


class Asked(NamedTuple):
    """An approval as pages show it."""

    row: ApprovalRow
    who: str
    answers: list[ShownAnswer]


async def list_all(visit: Visit) -> Response:
    """Show the approvals of an organization that are waited for, the oldest first."""
    return await _list(visit, visit.path("id"), None)


async def answer(visit: Visit) -> Response:
    """Approve or reject."""
    form = visit.form
    approves = form.text("do") == "approve"
    try:
        row = await approvals.answer(visit.ctx, visit.path("id"), Given(approves, form.text("comment")))
    except (BadRequest, Conflict) as error:
        return await _list(visit, form.text("organization"), error)
    said = "You have approved it." if approves else "You have rejected it; the step fails."
    waits = " Others have to approve it as well." if row.status == "pending" else ""
    return visit.go(own_path(form.text("back")), said + waits)


def asked(row: ApprovalRow) -> Asked:
    """Return an approval with what people read of it."""
    role = row.role or ("(deleted)" if row.role_id is not None else None)
    return Asked(row, who_sentence(permission=row.permission, role=role), read_answers(row.answers))


async def _list(visit: Visit, organization_id: str, problem: LaunchbayError | None) -> Response:
    rows = await approvals.pending_of_organization(
        visit.ctx, organization_id, after=visit.query("after"), count=CONSOLE_PAGE_ROWS + 1
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await visit.page(
        "approvals.html",
        section="approvals",
        organization_id=organization_id,
        problem=problem,
        rows=[asked(row) for row in shown],
        people=await names_of_people(visit, organization_id),
        next_after=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
    )


PAGES = (
    Page("GET", "/console/organizations/{id}/approvals", list_all),
    Page("POST", "/console/approvals/{id}", answer),
)
