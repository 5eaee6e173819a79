"""Launching an application: the form made from its parameters, and what the launch would do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console import forms
from launchbay.console.fields import (
    Field,
    ModuleForm,
    SubmoduleGroup,
    fields_in,
    fill_fields,
    launch_fields,
    request_of,
    submodule_groups,
    values,
    with_errors,
    with_submodule_errors,
    without_errors,
)
from launchbay.console.request import HOME, PageRequest, PageRoute
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.manifest.graph import CompiledManifest
from launchbay.store.applications import Application, Revision
from launchbay.usecases import launch as usecases_launch
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.preview import Preview, preview_launch
from launchbay.usecases.revisions import list_revisions, read_revision

PARAMETER = "parameter:"
FIELDS = "fields"  # asks for the fields of other versions or submodules, and says nothing of what is missing
_MARKED_FIELDS = BadRequest("Mend the fields that are marked below.")


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A launch that is being filled in."""

    application: Application
    version: int
    manifest: CompiledManifest
    revision: Revision | None
    fields: list[Field]
    submodules: list[SubmoduleGroup] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    preview: Preview | None = None


async def launch_page(request: PageRequest) -> Response:
    """Show the form."""
    draft = await _draft(request, request.query("version"), request.query("revision"))
    return await _show(request, draft, None)


async def launch(request: PageRequest) -> Response:
    """Launch, or tell what a launch would do; what is wrong stands at its field."""
    form = request.form
    draft = await _draft(request, form.text("version"), form.text("revisionId"))
    if form.text("do") == FIELDS:
        draft.fields = [replace(each, error="") for each in draft.fields]
        draft.submodules = without_errors(draft.submodules)
        return await _show(request, draft, None)
    problem: LaunchbayError | None = None
    try:
        body = _body(request, draft)
        # A preview without the fields that are wrong would show another launch than the one that is meant.
        if _is_refused(draft):
            problem = _MARKED_FIELDS
        elif form.text("do") == "preview":
            await _preview(request, draft, body)
        else:
            created = await usecases_launch.launch(request.ctx, draft.application.id, body)
            return request.redirect(f"{HOME}/instances/{created}", "Launched.")
    except BadRequest as error:
        _place_errors(draft, error.messages)
        problem = error
    return await _show(request, draft, problem)


async def _draft(request: PageRequest, version: str | None, revision_id: str | None) -> _Draft:
    application_id = request.path("id")
    revision = await read_revision(request.ctx, revision_id) if revision_id else None
    wanted = int(version) if version and version.isascii() and version.isdecimal() and len(version) < 10 else None
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
    inside = {} if revision is None else msgspec.json.decode(revision.submodules)
    module = ModuleForm(application=application, manifest=manifest, parameters=given, submodules=inside)
    return _Draft(
        application=application,
        version=number,
        manifest=manifest,
        revision=revision,
        fields=fields,
        submodules=await submodule_groups(request, module, now, environment_id),
    )


def _body(request: PageRequest, draft: _Draft) -> dict[str, Any]:
    """Return the launch as the API takes it. Raises BadRequest."""
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


async def _preview(request: PageRequest, draft: _Draft, body: Mapping[str, Any]) -> None:
    preview = await preview_launch(request.ctx, draft.application.id, body)
    _place_errors(draft, preview.errors)
    draft.preview = preview


def _place_errors(draft: _Draft, sentences: Iterable[str]) -> None:
    draft.submodules, rest = with_submodule_errors(draft.submodules, sentences)
    draft.fields, draft.problems = with_errors(draft.fields, rest)


def _is_refused(draft: _Draft) -> bool:
    return any(each.error for each in (*draft.fields, *fields_in(draft.submodules)))


async def _show(request: PageRequest, draft: _Draft, problem: LaunchbayError | None) -> Response:
    application, form = draft.application, request.form
    shown = None
    if draft.problems:
        shown = BadRequest(*draft.problems)
    elif problem is not None or _is_refused(draft):
        shown = _MARKED_FIELDS
    kept_environment = "" if draft.revision is None else draft.revision.environment_id or ""
    return await request.page(
        "launch.html",
        section="applications",
        organization_id=application.organization_id,
        problem=shown,
        # What a script puts into the page is an answer like any other.
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


ROUTES = (
    PageRoute("GET", "/console/applications/{id}/launch", launch_page),
    PageRoute("POST", "/console/applications/{id}/launch", launch),
)
