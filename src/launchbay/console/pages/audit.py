"""The audit log (promise 14)."""

import msgspec
from starlette.responses import Response

from launchbay.console.page import Page
from launchbay.console.visit import Visit
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.usecases.browsing import read_audit_page


async def show(visit: Visit) -> Response:
    """Show a page of the audit log, the newest entries first."""
    organization_id = visit.path("id")
    asked = visit.query("before") or ""
    before = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 19 else None
    by, about = visit.query("actor"), visit.query("object")
    rows = await read_audit_page(
        visit.desk,
        visit.actor,
        organization_id,
        before=before,
        by=by,
        about=about,
        count=CONSOLE_PAGE_ROWS + 1,
    )
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await visit.page(
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


PAGES = (Page("GET", "/console/organizations/{id}/audit", show),)
