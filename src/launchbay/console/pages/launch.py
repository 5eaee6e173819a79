"""The launch form of an application, with its preview."""

from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console import forms
from launchbay.console.fields import (
    FIX_FIELDS,
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
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.store.applications import Application, Revision
from launchbay.usecases import launch as usecases_launch
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.preview import preview_launch
from launchbay.usecases.revisions import list_revisions, read_revision


@dataclass(slots=True, kw_only=True)
class _Draft(Draft):
    """A launch that is being filled in."""

    application: Application
    revision: Revision | None


routes = Routes()


@routes.get("/console/applications/{id}/launch")
async def launch_page(request: PageRequest) -> Response:
    draft = await _draft(request, request.query("version"), request.query("revision"))
    return await _show(request, draft, None)


@routes.post("/console/applications/{id}/launch")
async def launch(request: PageRequest) -> Response:
    form = request.form
    draft = await _draft(request, form.text("version"), form.text("revisionId"))
    if form.text("do") == RENEW_FIELDS:
        draft.clear_errors()
        return await _show(request, draft, None)
    problem: LaunchbayError | None = None
    try:
        body = _body(request, draft)
        if draft.has_field_errors:  # a preview without these fields would show a different launch
            problem = BadRequest(FIX_FIELDS)
        elif form.text("do") == "preview":
            draft.preview = await preview_launch(request.ctx, draft.application.id, body)
            draft.place_errors(draft.preview.errors)
        else:
            started = await usecases_launch.launch(request.ctx, draft.application.id, body)
            return request.redirect(f"{HOME}/instances/{started.instance_id}", "Launch started.")
    except BadRequest as error:
        draft.place_errors(error.messages)
        problem = error
    return await _show(request, draft, problem)


async def _draft(request: PageRequest, version: str | None, revision_id: str | None) -> _Draft:
    application_id = request.path("id")
    revision = await read_revision(request.ctx, revision_id) if revision_id else None
    wanted = forms.parse_number(version)
    if wanted is None and revision is not None:
        wanted = revision.version
    application, number, manifest = await read_compiled(request.ctx, application_id, wanted)
    given = {} if revision is None else msgspec.json.decode(revision.parameters)
    fields = launch_fields(manifest, given)
    environment_id = None if revision is None else revision.environment_id
    now = given
    if request.http.method == "POST":
        fields = fill_fields(fields, request.form, PARAMETER)
        now, environment_id = values(fields, given), request.form.text("environmentId") or environment_id
    submodules = {} if revision is None else msgspec.json.decode(revision.submodules)
    module = ModuleForm(application=application, manifest=manifest, parameters=given, submodules=submodules)
    return _Draft(
        application=application,
        version=number,
        revision=revision,
        fields=fields,
        submodules=await submodule_groups(request, module, now, environment_id),
    )


def _body(request: PageRequest, draft: _Draft) -> dict[str, Any]:
    """Return the body of the launch, as in the API. Raises BadRequest."""
    form = request.form
    kept = {} if draft.revision is None else msgspec.json.decode(draft.revision.parameters)
    return {
        "revisionId": None if draft.revision is None else draft.revision.id,
        "version": draft.version,
        "environmentId": form.text("environmentId") or None,
        "destroyInterval": forms.interval_ms(form.text("lifetime"), form.text("minutes")),
        "instanceName": form.text("instanceName") or None,
        "parameters": values(draft.fields, kept),
        "submodules": request_of(draft.submodules),
    }


async def _show(request: PageRequest, draft: _Draft, problem: LaunchbayError | None) -> Response:
    application, form = draft.application, request.form
    kept_environment = "" if draft.revision is None else draft.revision.environment_id or ""
    return await request.page(
        "launch.html",
        section="applications",
        organization_id=application.organization_id,
        problem=draft.problem(problem),
        # A script inserts the preview; htmx ignores error responses.
        status=400 if problem is not None and form.text("do") != "preview" else 200,
        draft=draft,
        application=application,
        revision_id="" if draft.revision is None else draft.revision.id,
        versions=await list_manifests(request.ctx, application.id),
        revisions=await list_revisions(request.ctx, application.id),
        environments=await list_environments(request.ctx, application.organization_id),
        environment_id=form.text("environmentId", kept_environment),
        name=form.text("instanceName"),
        lifetime=form.text("lifetime", forms.CHOICES[0][0]),
        minutes=form.text("minutes"),
        lifetimes=forms.CHOICES,
    )
