"""Revisions of an application: their list, and the form of one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.fields import (
    PARAMETER,
    RENEW_FIELDS,
    Draft,
    ModuleForm,
    fill_fields,
    launch_fields,
    request_of,
    submodule_groups,
    values,
)
from launchbay.console.forms import SEEN, parse_number, seen_tag
from launchbay.console.list_query import page_by_name
from launchbay.console.rendering import redact_value
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, PreconditionFailed
from launchbay.features.impact.usecases import Impact, impact_of_revision
from launchbay.pages.applications import tab_values
from launchbay.pages.versions import groups_of
from launchbay.store.applications import Revision
from launchbay.usecases import revisions
from launchbay.usecases.applications import read_application
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import list_manifests

routes = Routes()
_PREVIEW = "preview"
_SHOWN = 4  # parameters of a revision in the list
_REFUSALS = (BadRequest, Conflict, PreconditionFailed)


class Row(NamedTuple):
    """A revision in the list, with the first of its parameters, secrets masked."""

    revision: Revision
    parameters: Sequence[tuple[str, str]]
    more: int


@dataclass(slots=True, kw_only=True)
class _Draft(Draft):
    """A revision that is being filled in; `stored` is what it has now."""

    name: str
    environment_id: str
    stored: Mapping[str, Any]
    impact: Impact | None = None


@routes.get("/console/applications/{id}/revisions", query=("after", "q"))
async def list_all(request: PageRequest) -> Response:
    """Show the revisions of an application."""
    application = await read_application(request.ctx, request.path("id"))
    values = request.ask(tab_values(request, application, "revisions"))
    listed = request.ask(list_environments(request.ctx, application.organization_id))
    every = await revisions.list_revisions(request.ctx, application.id)
    page = page_by_name(every, request.query("q"), request.query("after"))
    rows = await revisions.list_full_revisions(request.ctx, application.id, [row.id for row in page.rows])
    places = await listed
    return await request.page(
        "revisions.html",
        **await values,
        page=page,
        rows=[_row(revision) for revision in rows],
        places={each.id: each.name for each in places},
    )


def _row(revision: Revision) -> Row:
    given: Mapping[str, Any] = msgspec.json.decode(revision.parameters)
    shown = [(name, redact_value(value, name)) for name, value in list(given.items())[:_SHOWN]]
    return Row(revision, shown, len(given) - len(shown))


@routes.get("/console/applications/{id}/revisions/new", query=("version",))
async def form_page(request: PageRequest) -> Response:
    """Show the form of a new revision, with the fields of the chosen version."""
    return await _show(request, request.path("id"), None, await _draft(request, request.path("id"), None))


@routes.post("/console/applications/{id}/revisions")
async def create(request: PageRequest) -> Response:
    """Save a version with parameters under a name."""
    application_id = request.path("id")
    draft = await _draft(request, application_id, None)

    async def save(wanted: RevisionRequest) -> Response:
        await revisions.create_revision(request.ctx, application_id, wanted)
        return request.redirect(f"{HOME}/applications/{application_id}/revisions", "Revision saved.")

    return await _submit(request, application_id, None, draft, save)


@routes.get("/console/revisions/{id}", query=("version",))
async def show(request: PageRequest) -> Response:
    """Show a revision, and the form to change it."""
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    return await _show(
        request, revision.application_id, revision, await _draft(request, revision.application_id, revision)
    )


@routes.post("/console/revisions/{id}")
async def change(request: PageRequest) -> Response:
    """Change a revision, or show what that would mean for its instances."""
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    draft = await _draft(request, revision.application_id, revision)

    async def save(wanted: RevisionRequest) -> Response:
        if request.form.text("do") == _PREVIEW:
            draft.impact = await impact_of_revision(request.ctx, revision.id, wanted)
            return await _show(request, revision.application_id, revision, draft)

        async def read() -> Revision:
            return await revisions.read_revision(request.ctx, revision.id)

        async with request.unless_changed("revisions", revision.id, read):
            await revisions.change_revision(request.ctx, revision.id, wanted)
        message = "Revision saved. Instances keep their configuration until someone changes it."
        return request.redirect(f"{HOME}/applications/{revision.application_id}/revisions", message)

    return await _submit(request, revision.application_id, revision, draft, save)


@routes.get("/console/revisions/{id}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    return await request.confirm_deletion(
        problem,
        section="applications",
        organization_id=revision.organization_id,
        name=revision.name or f"version {revision.version}",
        consequence="Instances that were launched from it stay as they are. You can't undo this.",
        path=f"{HOME}/revisions/{revision.id}",
        allowed=(await request.permissions(revision.organization_id)).edit_application(revision.application_id),
        needed=Permission.EDIT_APPLICATION,
    )


@routes.post("/console/revisions/{id}/delete", again=delete_page)
async def delete(request: PageRequest) -> Response:
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    await revisions.delete_revision(request.ctx, revision.id)
    return request.redirect(f"{HOME}/applications/{revision.application_id}/revisions", "Revision deleted.")


async def _submit(
    request: PageRequest,
    application_id: str,
    revision: Revision | None,
    draft: _Draft,
    save: Callable[[RevisionRequest], Awaitable[Response]],
) -> Response:
    """Do what the form asks, or show it again with its errors."""
    if request.form.text("do") == RENEW_FIELDS:
        draft.clear_errors()
        return await _show(request, application_id, revision, draft)
    problem: LaunchbayError | None = None
    if not draft.has_field_errors:
        try:
            return await save(_request_of(draft))
        except _REFUSALS as error:
            draft.place_errors(error.messages)
            problem = error
    return await _show(request, application_id, revision, draft, problem)


def _request_of(draft: _Draft) -> RevisionRequest:
    return RevisionRequest(
        name=draft.name,
        version=draft.version,
        parameters=values(draft.fields, draft.stored),
        environment_id=draft.environment_id or None,
        submodules=request_of(draft.submodules),
    )


async def _draft(request: PageRequest, application_id: str, revision: Revision | None) -> _Draft:
    form = request.form
    asked = form.text("version") or request.query("version") or ""
    wanted = parse_number(asked)
    if asked and wanted is None:
        raise BadRequest(f"Invalid manifest version: {asked[:80]}.", code="InvalidManifestVersion", field="version")
    if wanted is None and revision is not None:
        wanted = revision.version
    application, version, manifest = await read_compiled(request.ctx, application_id, wanted)
    stored: Mapping[str, Any] = {} if revision is None else msgspec.json.decode(revision.parameters)
    # What a launch requires may be left to the launch.
    fields = [replace(each, required=False) for each in launch_fields(manifest, stored)]
    now, environment_id, name = stored, "", ""
    if revision is not None:
        environment_id, name = revision.environment_id or "", revision.name
    if request.http.method == "POST":
        fields = fill_fields(fields, form, PARAMETER)
        now, environment_id, name = values(fields, stored), form.text("environmentId"), form.text("name")
    submodules = {} if revision is None else msgspec.json.decode(revision.submodules)
    module = ModuleForm(application=application, manifest=manifest, parameters=stored, submodules=submodules)
    return _Draft(
        version=version,
        name=name,
        environment_id=environment_id,
        stored=stored,
        fields=fields,
        submodules=await submodule_groups(request, module, now, environment_id or None),
    )


async def _show(
    request: PageRequest,
    application_id: str,
    revision: Revision | None,
    draft: _Draft,
    problem: LaunchbayError | None = None,
) -> Response:
    application = await read_application(request.ctx, application_id)
    tag = "" if revision is None else seen_tag(revision)
    return await request.page(
        "revision.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem if isinstance(problem, PreconditionFailed) else draft.problem(problem),
        status=None if problem is None else request.deps.status_of(problem),
        application=application,
        revision=revision,
        draft=draft,
        seen=tag if isinstance(problem, PreconditionFailed) else request.form.text(SEEN, tag),
        versions=request.ask(list_manifests(request.ctx, application.id)),
        environments=request.ask(list_environments(request.ctx, application.organization_id)),
        impact=draft.impact,
        impact_groups=[] if draft.impact is None else groups_of(draft.impact),
    )
