"""The start page, and the user's organizations."""

import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec
from starlette.responses import Response

from launchbay.console.forms import parse_object
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.console.shell import NAVIGATION
from launchbay.errors import LaunchbayError
from launchbay.model.instance import InstanceStatus
from launchbay.usecases import archives, organizations, second_factors
from launchbay.usecases.applications import list_applications
from launchbay.usecases.archives import Imported
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
async def list_all(
    request: PageRequest, problem: LaunchbayError | None = None, *, planned: Imported | None = None
) -> Response:
    may_create = await organizations.may_create_organization(request.ctx)
    return await request.page(
        "organizations.html",
        problem=problem,
        may_create=may_create,
        planned=planned,
        archive=request.form.raw("archive"),
        archive_name=request.form.text("archiveName"),
    )


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
async def show_settings(request: PageRequest) -> Response:
    """Show what an organization uses of its quotas, and its settings."""
    organization_id = request.path("id")
    return await request.page(
        "usage.html",
        section="usage",
        organization_id=organization_id,
        rows=await organizations.read_usage(request.ctx, organization_id),
        environments=await list_environments(request.ctx, organization_id),
        second_factor_required=await second_factors.read_requirement(request.ctx, organization_id),
    )


@routes.post("/console/organizations/{id}/name")
async def rename(request: PageRequest) -> Response:
    organization_id = request.path("id")
    await organizations.rename_organization(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/organizations/{organization_id}/usage", "Organization renamed.")


@routes.post("/console/organizations/{id}/signInPolicy")
async def write_sign_in_policy(request: PageRequest) -> Response:
    organization_id, required = request.path("id"), request.form.has("secondFactorRequired")
    await second_factors.write_requirement(request.ctx, organization_id, required=required)
    return request.redirect(f"{HOME}/organizations/{organization_id}/usage", "Sign-in policy saved.")


@routes.get("/console/organizations/{id}/archive")
async def export(request: PageRequest) -> Response:
    """Send the organization as a file, without secrets and instances."""
    archive = await archives.export_organization(request.ctx, request.path("id"))
    name = re.sub(r"[^A-Za-z0-9]+", "-", archive.name).strip("-").lower() or "organization"
    disposition = {"Content-Disposition": f'attachment; filename="{name}.json"'}
    body = msgspec.json.format(msgspec.json.encode(archive), indent=1)
    return Response(body, media_type="application/json", headers={**HEADERS, **disposition})


@routes.post("/console/archives", again=list_all, refusals=(LaunchbayError,))
async def import_archive(request: PageRequest) -> Response:
    """Create an organization from an archive, or show what that would create."""
    form = request.form
    document = parse_object("Archive", form.raw("archive"))
    is_plan = form.text("do") != "import"
    made = await archives.import_organization(request.ctx, document, form.text("archiveName") or None, plan=is_plan)
    if made.id is None:
        return await list_all(request, planned=made)
    return request.redirect(
        f"{HOME}/organizations/{made.id}", "Organization imported. You are its administrator; invite its users again."
    )
