"""Pages of Git sources: commits, their outcomes, differences, and the form."""

from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.forms import parse_parameters
from launchbay.console.rendering import pretty
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotFound
from launchbay.features.git_sources import previews as forges
from launchbay.features.git_sources import syncs as git_syncs
from launchbay.features.git_sources import usecases as git_sources
from launchbay.features.git_sources.rows import GitSource
from launchbay.features.git_sources.syncs import Drift
from launchbay.features.git_sources.usecases import (
    GitSettings,
    GitSourceRequest,
    PreviewSettings,
    read_changes,
    read_settings,
    status_of,
)
from launchbay.limits import CONSOLE_PAGE_ROWS, CONSOLE_SUGGESTIONS, INTERVAL_LONGEST_MS, PAGE_ROWS_MAX
from launchbay.model.durations import parse_duration_s
from launchbay.model.expiry import duration
from launchbay.model.wrong_values import converted
from launchbay.store.access_tokens import ServiceAccountRow
from launchbay.usecases.applications import list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.service_accounts import list_service_accounts
from launchbay.usecases.services import list_services

routes = Routes()
_VAULT = "builtin:cobalt_secure_store"
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
    request.ask_frame(organization_id)
    rows = await git_sources.list_git_sources(request.ctx, organization_id, application_id=None)
    return await request.page(
        "git_sources/templates/git_sources.html",
        section="applications",
        organization_id=organization_id,
        rows=[(row, read_settings(row.settings), status_of(row)) for row in rows],
        may_create=bool(await _accounts(request, organization_id)),
        kinds=_KINDS,
    )


@routes.get("/console/organizations/{id}/git-sources/new")
async def form_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the form of a new source."""
    return await _form_page(request, None, problem)


@routes.post("/console/organizations/{id}/git-sources", again=form_page)
async def create(request: PageRequest) -> Response:
    made = await git_sources.create_git_source(request.ctx, request.path("id"), await _wanted(request, None))
    target = f"{HOME}/organizations/{request.path('id')}/git-sources/{made.id}"
    return request.redirect(target, "Source created. Launchbay checks the branch.")


@routes.get("/console/organizations/{id}/git-sources/{source}", query=("after",))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    source = await _source(request)
    drift: Drift | None = None
    drift_problem = ""
    try:
        drift = await git_syncs.read_git_drift(request.ctx, source.id)
    except Conflict:
        pass  # nothing was applied yet
    except LaunchbayError as error:
        drift_problem = str(error)
    syncs = await git_sources.list_git_syncs(
        request.ctx, source.id, after=request.query("after"), count=CONSOLE_PAGE_ROWS + 1
    )
    shown = syncs[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "git_sources/templates/git_source.html",
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
        previews=request.ask(forges.list_git_previews(request.ctx, source.id, before=None, count=PAGE_ROWS_MAX)),
        next_after=shown[-1].id if len(syncs) > CONSOLE_PAGE_ROWS else None,
    )


@routes.get("/console/organizations/{id}/git-sources/{source}/settings")
async def settings_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the form to change a source."""
    return await _form_page(request, await _source(request), problem)


@routes.post("/console/organizations/{id}/git-sources/{source}/settings", again=settings_page)
async def change(request: PageRequest) -> Response:
    """Change a source. It looks at its branch again."""
    row = await _source(request)
    wanted = await _wanted(request, row)

    async def read() -> dict[str, str]:
        return _texts(await git_sources.read_git_source(request.ctx, row.id))

    async with request.unless_changed("git-sources", row.id, read):
        await git_sources.update_git_source(request.ctx, row.id, wanted)
    return request.redirect(_page(request), "Source saved. Launchbay checks the branch again.")


@routes.post("/console/organizations/{id}/git-sources/{source}/pause", again=show)
async def pause(request: PageRequest) -> Response:
    """Pause or resume a source."""
    row = await _source(request)
    is_paused = request.form.text("do") == "pause"
    async with request.ctx.locked("git-sources", row.id):
        row = await _source(request)
        wanted = GitSourceRequest(
            name=row.name,
            account_id=row.account_id,
            application_id=row.application_id,
            settings=read_settings(row.settings),
            is_paused=is_paused,
        )
        await git_sources.update_git_source(request.ctx, row.id, wanted)
    return request.redirect(_page(request), "Source paused." if is_paused else "Source resumed.")


@routes.get("/console/organizations/{id}/git-sources/{source}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    row = await _source(request)
    return await request.confirm_deletion(
        problem,
        section="applications",
        organization_id=row.organization_id,
        name=row.name,
        consequence="What it applied stays. You can't undo this.",
        path=_page(request),
        allowed=(await request.permissions(row.organization_id)).control_git_source(row.account_id),
        needed=Permission.MANAGE_ROLES,
    )


@routes.post("/console/organizations/{id}/git-sources/{source}/delete", again=delete_page)
async def delete(request: PageRequest) -> Response:
    row = await _source(request)
    await git_sources.delete_git_source(request.ctx, row.id)
    return request.redirect(f"{HOME}/organizations/{row.organization_id}/git-sources", f"Source {row.name} deleted.")


@routes.post("/console/organizations/{id}/git-sources/{source}/sync", again=show)
async def sync(request: PageRequest) -> Response:
    await git_sources.sync_git_source(request.ctx, request.path("source"))
    return request.redirect(_page(request), "Launchbay checks the branch now.")


@routes.post("/console/organizations/{id}/git-sources/{source}/apply", again=show)
async def apply(request: PageRequest) -> Response:
    await git_sources.apply_git_source(request.ctx, request.path("source"), request.form.text("commit"))
    return request.redirect(_page(request), "The plan is approved.")


def _page(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/git-sources/{request.path('source')}"


async def _source(request: PageRequest) -> GitSource:
    source = await git_sources.read_git_source(request.ctx, request.path("source"))
    if source.organization_id != request.path("id"):
        raise NotFound("Git source not found.", "Check the organization's Git sources.")
    return source


async def _form_page(request: PageRequest, row: GitSource | None, problem: LaunchbayError | None) -> Response:
    organization_id, ctx = request.path("id"), request.ctx
    permissions = await request.permissions(organization_id)
    stored = _texts(row)
    given = stored
    if problem is not None and request.form.has("url"):
        given = {name: request.form.text(name) for name in stored}
    services = await list_services(ctx, organization_id)
    names = {each.id: each.name for each in await list_applications(ctx, organization_id)}
    return await request.page(
        "git_sources/templates/git_source_form.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        row=row,
        given=given | {"application": names.get(given["application"], given["application"])},
        seen=request.seen("settings", stored),
        accounts=request.ask(_accounts(request, organization_id)),
        may=row is None or permissions.control_git_source(row.account_id),
        applications=list(names.values())[:CONSOLE_SUGGESTIONS],
        vaults=[each for each in services if each.type_id == _VAULT],
        environments=request.ask(list_environments(ctx, organization_id)),
    )


async def _accounts(request: PageRequest, organization_id: str) -> list[ServiceAccountRow]:
    """Return the service accounts that a source of the user may have."""
    permissions = await request.permissions(organization_id)
    rows = await list_service_accounts(request.ctx, organization_id)
    return [row for row in rows if permissions.control_git_source(row.id)]


# Fields that are texts or None in the settings, by their names in the form.
_OPTIONAL = ("vault", "credential", "forge", "api", "webhook_secret", "status_token")


def _texts(row: GitSource | None) -> dict[str, str]:
    """Return a source as the texts of the fields of its form."""
    settings = GitSettings(url="") if row is None else read_settings(row.settings)
    previews = settings.previews
    found = {
        "name": "" if row is None else row.name,
        "account": "" if row is None else row.account_id,
        "application": "" if row is None else row.application_id or "",
        "url": settings.url,
        "branch": settings.branch,
        "path": settings.path,
        "user": settings.user,
        "host_keys": "\n".join(settings.host_keys),
        "interval": "" if settings.interval_ms is None else duration(settings.interval_ms),
        "applies": settings.applies,
        "instances": settings.instances,
        "prune": "1" if settings.prune else "",
        "preview_environment": "" if previews is None else previews.environment_id,
        "preview_lifetime": "" if previews is None else duration(previews.lifetime_ms),
        "preview_parameters": pretty(previews.parameters) if previews and previews.parameters else "",
    }
    return found | {name: getattr(settings, name) or "" for name in _OPTIONAL}


async def _wanted(request: PageRequest, row: GitSource | None) -> GitSourceRequest:
    """Return what the form asks for. Raises BadRequest."""
    form = request.form
    old = GitSettings(url="") if row is None else read_settings(row.settings)
    values: dict[str, Any] = {
        "url": form.text("url"),
        "branch": form.text("branch") or "main",
        "path": form.text("path"),
        "user": form.text("user"),
        "host_keys": [line.strip() for line in form.raw("host_keys").splitlines() if line.strip()],
        "interval_ms": _length("Check every", form.text("interval")),
        "applies": form.text("applies", old.applies),
        "instances": form.text("instances", old.instances),
        "prune": form.has("prune"),
        "previews": _previews(request),
        **{name: form.text(name) or None for name in _OPTIONAL},
    }
    try:
        settings = converted(
            msgspec.to_builtins(msgspec.structs.replace(old, **values), builtin_types=(msgspec.Raw,)), GitSettings
        )
    except ValueError as error:
        raise BadRequest(str(error), code="InvalidGitSource") from error
    return GitSourceRequest(
        name=form.text("name"),
        account_id=form.text("account"),
        application_id=await _application(request),
        settings=settings,
        is_paused=row is not None and row.is_paused,
    )


async def _application(request: PageRequest) -> str | None:
    """Return the ID of the application that the form names, or None. Raises BadRequest."""
    text = request.form.text("application")
    if not text:
        return None
    for row in await list_applications(request.ctx, request.path("id")):
        if text in (row.id, row.name):
            return row.id
    raise BadRequest(
        f"No application {text!r}.", "Enter its name, or nothing for a whole directory.", field="application"
    )


def _previews(request: PageRequest) -> PreviewSettings | None:
    form = request.form
    if not form.text("preview_environment"):
        return None
    lifetime_ms = _length("Lifetime of a preview", form.text("preview_lifetime"))
    if lifetime_ms is None:
        raise BadRequest("Lifetime of a preview: say how long, such as 3 days.", code="InvalidGitSource")
    return PreviewSettings(
        environment_id=form.text("preview_environment"),
        lifetime_ms=lifetime_ms,
        parameters=parse_parameters("Parameters of a preview", form.raw("preview_parameters")),
    )


def _length(label: str, text: str) -> int | None:
    """Return the ms of a field; None if it is empty. Raises BadRequest."""
    problem = "Add a unit, such as minutes or days."
    try:
        if not text.isdecimal():
            return round(parse_duration_s(text, longest_s=INTERVAL_LONGEST_MS / 1000) * 1000) if text else None
    except ValueError as error:
        problem = str(error)
    raise BadRequest(f"{label}: {problem}", code="InvalidGitSource")
