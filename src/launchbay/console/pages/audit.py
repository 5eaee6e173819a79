"""The audit log of an organization."""

from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.rendering import named_path
from launchbay.console.request import PageRequest, Routes
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.usecases.browsing import read_audit_page
from launchbay.usecases.organizations import list_changes

routes = Routes()


@routes.get("/console/organizations/{id}/audit")
async def show_audit_log(request: PageRequest) -> Response:
    """Show a page of the audit log, newest entries first."""
    organization_id = request.path("id")
    before = parse_number(request.query("before"), 18)
    by, about = request.query("actor"), request.query("object")
    rows, names = await read_audit_page(
        request.ctx, organization_id, before=before, by=by, about=about, count=CONSOLE_PAGE_ROWS + 1
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "audit.html",
        section="audit",
        organization_id=organization_id,
        rows=[(row, named_path(row.object, names), list_changes(row.before, row.after)) for row in shown],
        next_before=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
        is_first=before is None,
        query={name: value for name, value in (("actor", by), ("object", about)) if value},
    )
