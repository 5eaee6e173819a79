"""The start page, and the user's organizations."""

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import LaunchbayError
from launchbay.model.instance import InstanceStatus
from launchbay.usecases import organizations
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import InstanceFilter, browse_instances
from launchbay.usecases.environments import list_environments

_NEWEST = 8


routes = Routes()


@routes.get(HOME)
async def home(request: PageRequest) -> Response:
    found = await organizations.list_organizations(request.ctx)
    if len(found) == 1:
        return request.redirect(f"{HOME}/organizations/{found[0].id}")
    return await list_all(request)


@routes.get("/console/organizations")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    may_create = await organizations.may_create_organization(request.ctx)
    return await request.page("organizations.html", problem=problem, may_create=may_create)


@routes.post("/console/organizations", again=list_all, refusals=(LaunchbayError,))
async def create(request: PageRequest) -> Response:
    created = await organizations.create_organization(request.ctx, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{created}", "Organization created. You are its administrator.")


@routes.get("/console/organizations/{id}")
async def overview(request: PageRequest) -> Response:
    """Show the newest and the failed instances of an organization."""
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


@routes.get("/console/organizations/{id}/usage")
async def show_usage(request: PageRequest) -> Response:
    """Show what an organization uses of its quotas."""
    organization_id = request.path("id")
    rows = await organizations.read_usage(request.ctx, organization_id)
    return await request.page("usage.html", section="usage", organization_id=organization_id, rows=rows)


@routes.post("/console/organizations/{id}/name")
async def rename(request: PageRequest) -> Response:
    organization_id = request.path("id")
    await organizations.rename_organization(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{organization_id}", "Organization renamed.")
