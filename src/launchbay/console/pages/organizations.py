"""The start page, and the user's organizations."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.console.shell import NAVIGATION
from launchbay.errors import LaunchbayError
from launchbay.model.instance import InstanceStatus
from launchbay.usecases import organizations
from launchbay.usecases.applications import list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, list_instances

_FOUND = 6  # of each kind, in the palette
_LOOKED_AT = 30  # instances with the text in their names


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


@routes.get("/console/organizations/{id}/jump")
async def jump(request: PageRequest) -> Response:
    """Return what the palette offers for a text: objects by name, then sections."""
    ctx, organization_id, text = request.ctx, request.path("id"), request.query("q") or ""
    permissions = await request.permissions(organization_id)
    named = InstanceFilter(name_part=text, statuses=[each for each in InstanceStatus if each != "Destroyed"])
    found = None
    if text:
        found = await list_instances(ctx, organization_id, named, sort="name", after=None, count=_LOOKED_AT)
    sections = [entry for group in NAVIGATION for entry in group.entries if permissions.section(entry.key)]
    return request.fragment(
        "jump.html",
        home=f"{HOME}/organizations/{organization_id}",
        instances=_best(found.rows, text) if found else (),
        applications=_best(await list_applications(ctx, organization_id), text) if text else (),
        environments=_best(await list_environments(ctx, organization_id), text) if text else (),
        entries=[entry for entry in sections if text.lower() in entry.label.lower()],
    )


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


def _best(rows: Iterable[NamedT], text: str) -> list[NamedT]:
    """Return the first rows with the text in their names, those that begin with it first."""
    wanted = text.lower()
    found = [row for row in rows if wanted in row.name.lower()]
    return sorted(found, key=lambda row: not row.name.lower().startswith(wanted))[:_FOUND]


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
    return request.redirect(f"{HOME}/organizations/{organization_id}/usage", "Organization renamed.")
