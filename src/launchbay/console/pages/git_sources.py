"""Sources in Git: which commits they have, what came of them, and what differs."""

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import Conflict, LaunchbayError, NotFound
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.usecases import forges, git_sources
from launchbay.usecases.git_sources import Drift, read_changes, read_settings, status_of

routes = Routes()
# Status of a source or outcome → kind of status, as colors and glyphs know it.
_KINDS = {
    "Current": "ok",
    "Applied": "ok",
    "Planned": "wait",
    "Waiting": "wait",
    "Running": "busy",
    "Paused": "stop",
    "Failing": "fail",
    "Failed": "fail",
    "Refused": "fail",
}


@routes.get("/console/organizations/{id}/git-sources")
async def list_all(request: PageRequest) -> Response:
    organization_id = request.path("id")
    rows = await git_sources.list_git_sources(request.ctx, organization_id, application_id=None)
    return await request.page(
        "git_sources.html",
        section="applications",
        organization_id=organization_id,
        rows=[(row, read_settings(row.settings), status_of(row)) for row in rows],
        kinds=_KINDS,
    )


@routes.get("/console/organizations/{id}/git-sources/{source}")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    source = await git_sources.read_git_source(request.ctx, request.path("source"))
    if source.organization_id != organization_id:
        raise NotFound("Git source not found.", "Check the organization's Git sources.")
    drift: Drift | None = None
    drift_problem = ""
    try:
        drift = await git_sources.read_git_drift(request.ctx, source.id)
    except Conflict:
        pass  # nothing was applied yet
    except LaunchbayError as error:
        drift_problem = str(error)
    syncs = await git_sources.list_git_syncs(
        request.ctx, source.id, after=request.query("after"), count=CONSOLE_PAGE_ROWS + 1
    )
    shown = syncs[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "git_source.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        row=source,
        settings=read_settings(source.settings),
        state=status_of(source),
        kinds=_KINDS,
        drift=drift,
        drift_problem=drift_problem,
        syncs=[(each, read_changes(each.changes)) for each in shown],
        previews=await forges.list_git_previews(request.ctx, source.id),
        next_after=shown[-1].id if len(syncs) > CONSOLE_PAGE_ROWS else None,
    )


@routes.post("/console/organizations/{id}/git-sources/{source}/sync", again=show)
async def sync(request: PageRequest) -> Response:
    await git_sources.sync_git_source(request.ctx, request.path("source"))
    return request.redirect(_page(request), "Launchbay looks at the branch now.")


@routes.post("/console/organizations/{id}/git-sources/{source}/apply", again=show)
async def apply(request: PageRequest) -> Response:
    await git_sources.apply_git_source(request.ctx, request.path("source"), request.form.text("commit"))
    return request.redirect(_page(request), "The plan is approved.")


def _page(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/git-sources/{request.path('source')}"
