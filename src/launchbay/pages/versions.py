"""The versions of a manifest: the difference of two, and restoring one."""

import asyncio
from contextlib import suppress

from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.line_difference import Line, compare
from launchbay.console.request import HOME, PageRequest, Routes, user_names
from launchbay.errors import BadRequest, Conflict, InvalidManifest, LaunchbayError
from launchbay.features.generations.pages import rollback_target
from launchbay.features.impact.usecases import Impact, ImpactGroup, impact_of_version
from launchbay.model.manifest_difference import NO_DIFFERENCE
from launchbay.pages.applications import tab_values
from launchbay.store.applications import Application
from launchbay.store.fleet import FleetRow
from launchbay.usecases import manifests
from launchbay.usecases.applications import read_application
from launchbay.usecases.fleet import InstanceFilter, list_instances
from launchbay.usecases.manifest_differences import compare_versions

routes = Routes()

_MOST_SHOWN = 2_000
_SHOWN_VERSIONS = 50
_IMPACT_AT_ONCE = 1_000  # live instances
_SHOWN_USERS = 10
_LIVE = ["Running", "Failed", "Executing"]


@routes.get("/console/applications/{id}/versions", query=("against", "impact"))
async def show_newest(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the newest version against the one before."""
    return await _show(request, None, problem)


@routes.get("/console/applications/{id}/versions/{version}", query=("against", "impact"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show a version against another one, by default the one before."""
    return await _show(request, parse_number(request.path("version")) or 0, problem)


async def _show(request: PageRequest, wanted: int | None, problem: LaunchbayError | None) -> Response:
    ctx = request.ctx
    application = await read_application(ctx, request.path("id"))
    version = application.latest_version if wanted is None else wanted
    values = request.ask(tab_values(request, application, "versions"))
    is_small, asked_users = (
        request.ask(_is_small(request, application)),
        request.ask(_users(request, application, version)),
    )
    versions = await manifests.list_manifests(ctx, application.id)
    listed = [row for row in versions if row.version][:_SHOWN_VERSIONS]
    people = request.ask(user_names(request, application.organization_id, [row.author_id for row in listed]))
    against = parse_number(request.query("against"))
    if against is None:
        against = version - 1
    lines: list[Line] | None = []
    difference = NO_DIFFERENCE
    if versions:
        new = await manifests.read_manifest(ctx, application.id, version)
        old = await manifests.read_manifest(ctx, application.id, against) if against else ""
        lines = await asyncio.to_thread(compare, old, new)
        with suppress(InvalidManifest):  # one of them no longer compiles: the lines show what differs
            difference = (await compare_versions(ctx, application.id, against, version))[2]
    impact: Impact | None = None
    if versions and (request.query("impact") or await is_small):
        try:
            impact = await impact_of_version(ctx, application.id, version)
        except InvalidManifest as error:
            problem = problem or error
    users, more = await asked_users if versions else ([], False)
    return await request.page(
        "versions.html",
        users=users,
        more_users=more,
        impact=impact,
        impact_groups=[] if impact is None else groups_of(impact),
        impact_title=f"version {version}",
        impact_rollout=f"{HOME}/applications/{application.id}/rollouts/new?version={version}",
        **await values,
        problem=problem,
        versions=listed,
        version=version,
        against=against,
        older=[row.version for row in versions if row.version not in (version, 0)][:_SHOWN_VERSIONS],
        lines=None if lines is None else lines[:_MOST_SHOWN],
        left_out=0 if lines is None else max(0, len(lines) - _MOST_SHOWN),
        added=sum(line.sign == "+" for line in lines or ()),
        removed=sum(line.sign == "-" for line in lines or ()),
        difference=difference,
        people=await people,
    )


async def _users(
    request: PageRequest, application: Application, version: int
) -> tuple[list[tuple[FleetRow, int | None]], bool]:
    """Return live instances of a version with their rollback targets.

    The flag says whether there are more.
    """
    wanted = InstanceFilter(application_ids=[application.id], version=version, statuses=_LIVE)
    found = await list_instances(
        request.ctx, application.organization_id, wanted, sort="-lastJob", after=None, count=_SHOWN_USERS
    )
    permissions = await request.permissions(application.organization_id)
    targets = [request.ask(rollback_target(request, permissions, row)) for row in found.rows]
    users = [(row, await target) for row, target in zip(found.rows, targets, strict=True)]
    return users, found.next_after is not None


def groups_of(impact: Impact) -> list[ImpactGroup]:
    """Return groups of instances: those that fail first, then by size."""
    return sorted(impact.groups.values(), key=lambda group: (group.outcome.kind != "fails", -group.count))


async def _is_small(request: PageRequest, application: Application) -> bool:
    """Return whether the impact on all instances is known at once."""
    live = await list_instances(
        request.ctx,
        application.organization_id,
        InstanceFilter(application_ids=[application.id], statuses=_LIVE),
        sort="name",
        after=None,
        count=1,
        counts=True,
    )
    return (live.total or 0) <= _IMPACT_AT_ONCE


@routes.post(
    "/console/applications/{id}/versions/{version}/restore",
    again=show,
    refusals=(BadRequest, Conflict, InvalidManifest),
)
async def restore(request: PageRequest) -> Response:
    """Save the text of an old version as the newest one."""
    application_id, version = request.path("id"), parse_number(request.path("version")) or 0
    text = await manifests.read_manifest(request.ctx, application_id, version)
    stored = await manifests.replace_manifest(request.ctx, application_id, text, message=f"Restores version {version}")
    target = f"{HOME}/applications/{application_id}/versions/{stored.version}?against={version}"
    return request.redirect(target, f"Version {version} restored as version {stored.version}.")
