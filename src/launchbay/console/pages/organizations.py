"""The start page, and the organizations of the caller."""

import msgspec
from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, PageRoute
from launchbay.errors import LaunchbayError
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.instance import InstanceStatus
from launchbay.usecases import organizations
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_audit_page
from launchbay.usecases.environments import list_environments

_NEWEST = 8


async def home(request: PageRequest) -> Response:
    """Lead to the only organization, or let one be chosen."""
    found = await organizations.list_organizations(request.ctx)
    if len(found) == 1:
        return request.redirect(f"{HOME}/organizations/{found[0].id}")
    return await _list(request, None)


async def list_all(request: PageRequest) -> Response:
    """Show the organizations."""
    return await _list(request, None)


async def create(request: PageRequest) -> Response:
    """Create an organization."""
    try:
        created = await organizations.create_organization(request.ctx, request.form.text("name"))
    except LaunchbayError as error:
        return await _list(request, error)
    return request.redirect(
        f"{HOME}/organizations/{created}", "The organization is there, with you as its administrator."
    )


async def overview(request: PageRequest) -> Response:
    """Show what runs in an organization and what went wrong in it."""
    ctx, organization_id = request.ctx, request.path("id")
    newest = await browse_instances(ctx, organization_id, InstanceFilter(), None, _NEWEST)
    failed = await browse_instances(ctx, organization_id, InstanceFilter(status=InstanceStatus.FAILED), None, _NEWEST)
    return await request.page(
        "overview.html",
        organization_id=organization_id,
        newest=newest.rows,
        failed=failed.rows,
        applications=await list_applications(ctx, organization_id),
        environments=await list_environments(ctx, organization_id),
    )


async def rename(request: PageRequest) -> Response:
    """Give the organization another name."""
    organization_id = request.path("id")
    await organizations.rename_organization(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{organization_id}", "The organization has its new name.")


async def _list(request: PageRequest, problem: LaunchbayError | None) -> Response:
    may_create = await organizations.may_create_organization(request.ctx)
    return await request.page("organizations.html", problem=problem, may_create=may_create)


ROUTES = (
    PageRoute("GET", HOME, home),
    PageRoute("GET", "/console/organizations", list_all),
    PageRoute("POST", "/console/organizations", create),
    PageRoute("GET", "/console/organizations/{id}", overview),
    PageRoute("POST", "/console/organizations/{id}/name", rename),
)


async def show_audit_log(request: PageRequest) -> Response:
    """Show a page of the audit log, the newest entries first."""
    organization_id = request.path("id")
    asked = request.query("before") or ""
    before = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 19 else None
    by, about = request.query("actor"), request.query("object")
    rows = await read_audit_page(
        request.ctx,
        organization_id,
        before=before,
        by=by,
        about=about,
        count=CONSOLE_PAGE_ROWS + 1,
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


AUDIT_ROUTES = (PageRoute("GET", "/console/organizations/{id}/audit", show_audit_log),)
