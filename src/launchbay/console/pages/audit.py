"""The audit log of an organization."""

import msgspec
from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.request import PageRequest, Routes
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.usecases.browsing import read_audit_page

routes = Routes()


@routes.get("/console/organizations/{id}/audit")
async def show_audit_log(request: PageRequest) -> Response:
    """Show a page of the audit log, newest entries first."""
    organization_id = request.path("id")
    before = parse_number(request.query("before"), 18)
    by, about = request.query("actor"), request.query("object")
    rows = await read_audit_page(
        request.ctx, organization_id, before=before, by=by, about=about, count=CONSOLE_PAGE_ROWS + 1
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "audit.html",
        section="audit",
        organization_id=organization_id,
        rows=[(row, *(_document(text) for text in (row.before, row.after))) for row in shown],
        next_before=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
        is_first=before is None,
        query={name: value for name, value in (("actor", by), ("object", about)) if value},
    )


def _document(text: str | None) -> object:
    return None if text is None else msgspec.json.decode(text)
