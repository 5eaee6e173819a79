"""The start page, and the organizations of the caller."""

from starlette.responses import Response

from launchbay.console.page import Page
from launchbay.console.visit import HOME, Visit
from launchbay.errors import LaunchbayError
from launchbay.model.instance import InstanceStatus
from launchbay.usecases import organizations
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import InstanceFilter, browse_instances
from launchbay.usecases.environments import list_environments

_NEWEST = 8


async def home(visit: Visit) -> Response:
    """Lead to the only organization, or let one be chosen."""
    found = await organizations.list_organizations(visit.desk, visit.actor)
    if len(found) == 1:
        return visit.go(f"{HOME}/organizations/{found[0].id}")
    return await _list(visit, None)


async def list_all(visit: Visit) -> Response:
    """Show the organizations."""
    return await _list(visit, None)


async def create(visit: Visit) -> Response:
    """Create an organization."""
    try:
        created = await organizations.create_organization(visit.desk, visit.actor, visit.form.text("name"))
    except LaunchbayError as error:
        return await _list(visit, error)
    return visit.go(f"{HOME}/organizations/{created}", "The organization is there, with you as its administrator.")


async def overview(visit: Visit) -> Response:
    """Show what runs in an organization and what went wrong in it."""
    desk, actor, organization_id = visit.desk, visit.actor, visit.path("id")
    newest = await browse_instances(desk, actor, organization_id, InstanceFilter(), None, _NEWEST)
    failed = await browse_instances(
        desk, actor, organization_id, InstanceFilter(status=InstanceStatus.FAILED), None, _NEWEST
    )
    return await visit.page(
        "overview.html",
        organization_id=organization_id,
        newest=newest.rows,
        failed=failed.rows,
        applications=await list_applications(desk, actor, organization_id),
        environments=await list_environments(desk, actor, organization_id),
    )


async def rename(visit: Visit) -> Response:
    """Give the organization another name."""
    organization_id = visit.path("id")
    await organizations.rename_organization(visit.desk, visit.actor, organization_id, visit.form.text("name"))
    return visit.go(f"{HOME}/organizations/{organization_id}", "The organization has its new name.")


async def _list(visit: Visit, problem: LaunchbayError | None) -> Response:
    may_create = await organizations.may_create_organization(visit.desk, visit.actor)
    return await visit.page("organizations.html", problem=problem, may_create=may_create)


PAGES = (
    Page("GET", HOME, home),
    Page("GET", "/console/organizations", list_all),
    Page("POST", "/console/organizations", create),
    Page("GET", "/console/organizations/{id}", overview),
    Page("POST", "/console/organizations/{id}/name", rename),
)
