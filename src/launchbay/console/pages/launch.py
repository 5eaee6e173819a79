"""Launching an application: the form made from its parameters, and what the launch would do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console import lifetimes
from launchbay.console.form import parsed_object
from launchbay.console.page import Page
from launchbay.console.parameter_fields import Field, filled, launch_fields, values, with_errors
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.manifest.component_types import LOCATOR, SUBMODULE
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.application import Application, Revision
from launchbay.store.rows import NamedRow
from launchbay.usecases import launching
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.manifests import list_manifests
from launchbay.usecases.previewing import Preview, preview_launch
from launchbay.usecases.revisions import list_revisions, read_revision

PARAMETER = "parameter:"
_SUBMODULE = "submodule:"
_MARKED = BadRequest("Mend the fields that are marked below.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmoduleFields:
    """What may be chosen for one submodule."""

    path: str
    application: str
    revisions: list[NamedRow]
    revision_id: str = ""
    version: str = ""
    parameters: str = ""
    error: str = ""


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A launch that is being filled in."""

    application: Application
    version: int
    manifest: CompiledManifest
    revision: Revision | None
    fields: list[Field]
    submodules: list[SubmoduleFields] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    preview: Preview | None = None


async def launch_page(visit: Visit) -> Response:
    """Show the form."""
    draft = await _draft(visit, visit.query("version"), visit.query("revision"))
    return await _show(visit, draft, None)


async def launch(visit: Visit) -> Response:
    """Launch, or tell what a launch would do; what is wrong stands at its field."""
    form = visit.form
    draft = await _draft(visit, form.text("version"), form.text("revisionId"))
    draft.fields = filled(draft.fields, form, PARAMETER)
    problem: LaunchbayError | None = None
    try:
        body = _body(visit, draft)
        # A preview without the fields that are wrong would show another launch than the one that is meant.
        if _is_refused(draft):
            problem = _MARKED
        elif form.text("do") == "preview":
            await _preview(visit, draft, body)
        else:
            created = await launching.launch(visit.desk, visit.actor, draft.application.id, body)
            return visit.go(f"{HOME}/instances/{created}", "Launched.")
    except BadRequest as error:
        draft.fields, draft.problems = with_errors(draft.fields, error.sentences)
        problem = error
    return await _show(visit, draft, problem)


async def _draft(visit: Visit, version: str | None, revision_id: str | None) -> _Draft:
    application_id = visit.path("id")
    revision = await read_revision(visit.desk, visit.actor, revision_id) if revision_id else None
    wanted = int(version) if version and version.isascii() and version.isdecimal() and len(version) < 10 else None
    if wanted is None and revision is not None:
        wanted = revision.version
    application, number, manifest = await read_compiled(visit.desk, visit.actor, application_id, wanted)
    given = {} if revision is None else msgspec.json.decode(revision.parameters)
    draft = _Draft(
        application=application,
        version=number,
        manifest=manifest,
        revision=revision,
        fields=launch_fields(manifest, given),
    )
    draft.submodules = await _submodules(visit, draft)
    return draft


async def _submodules(visit: Visit, draft: _Draft) -> list[SubmoduleFields]:
    """Return the fields of the submodules; their applications are known by id or by name."""
    paths = [path for path, component in draft.manifest.components.items() if component.type == SUBMODULE]
    if not paths:
        return []
    known = await list_applications(visit.desk, visit.actor, draft.application.organization_id)
    kept: Mapping[str, Any] = {} if draft.revision is None else msgspec.json.decode(draft.revision.submodules)
    found: list[SubmoduleFields] = []
    for path in paths:
        pin = draft.manifest.configuration_pins.get(path, {}).get(LOCATOR)
        locator = str(pin.default) if pin is not None and pin.has_default else ""
        child = next((row for row in known if locator in {row.id, row.name}), None)
        rows = [] if child is None else await list_revisions(visit.desk, visit.actor, child.id)
        revised = kept.get(path, kept.get(path.rpartition(".")[2])) or {}
        parameters = revised.get("parameters")
        found.append(
            SubmoduleFields(
                path=path,
                application=locator if child is None else child.name,
                revisions=rows,
                revision_id=visit.form.text(f"{_SUBMODULE}{path}:revision", revised.get("revisionId") or ""),
                version=visit.form.text(f"{_SUBMODULE}{path}:version", str(revised.get("manifestVersion") or "")),
                parameters=visit.form.raw(
                    f"{_SUBMODULE}{path}:parameters", msgspec.json.encode(parameters).decode() if parameters else ""
                ),
            )
        )
    return found


def _body(visit: Visit, draft: _Draft) -> dict[str, Any]:
    """Return the launch as the API takes it. Raises BadRequest."""
    form = visit.form
    submodules: dict[str, Any] = {}
    for each in draft.submodules:
        asked: dict[str, Any] = {}
        if each.revision_id:
            asked["revisionId"] = each.revision_id
        if each.version:
            asked["manifestVersion"] = _number(f"Submodule {each.path}, version", each.version)
        parameters = parsed_object(f"Submodule {each.path}, parameters", each.parameters)
        if parameters:
            asked["parameters"] = parameters
        if asked:
            submodules[each.path] = asked
    kept = {} if draft.revision is None else msgspec.json.decode(draft.revision.parameters)
    return {
        "revisionId": None if draft.revision is None else draft.revision.id,
        "version": draft.version,
        "environmentId": form.text("environmentId") or None,
        "destroyInterval": lifetimes.interval_ms(form.text("lifetime"), form.text("minutes")),
        "instanceName": form.text("instanceName") or None,
        "parameters": values(draft.fields, kept),
        "submodules": submodules,
    }


async def _preview(visit: Visit, draft: _Draft, body: Mapping[str, Any]) -> None:
    preview = await preview_launch(visit.desk, visit.actor, draft.application.id, body)
    draft.fields, draft.problems = with_errors(draft.fields, preview.errors)
    draft.preview = preview


def _is_refused(draft: _Draft) -> bool:
    return any(each.error for each in draft.fields)


async def _show(visit: Visit, draft: _Draft, problem: LaunchbayError | None) -> Response:
    application, form = draft.application, visit.form
    shown = None
    if draft.problems:
        shown = BadRequest(*draft.problems)
    elif problem is not None or _is_refused(draft):
        shown = _MARKED
    kept_environment = "" if draft.revision is None else draft.revision.environment_id or ""
    return await visit.page(
        "launch.html",
        section="applications",
        organization_id=application.organization_id,
        problem=shown,
        # What a script puts into the page is an answer like any other.
        status=400 if problem is not None and form.text("do") != "preview" else 200,
        draft=draft,
        application=application,
        revision_id="" if draft.revision is None else draft.revision.id,
        versions=await list_manifests(visit.desk, visit.actor, application.id),
        revisions=await list_revisions(visit.desk, visit.actor, application.id),
        environments=await list_environments(visit.desk, visit.actor, application.organization_id),
        environment_id=form.text("environmentId", kept_environment),
        name=form.text("instanceName"),
        lifetime=form.text("lifetime", lifetimes.CHOICES[0][0]),
        minutes=form.text("minutes"),
        lifetimes=lifetimes.CHOICES,
    )


def _number(label: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest(f"{label}: give a whole number.", code="InvalidManifestVersion")
    return int(text)


PAGES = (
    Page("GET", "/console/applications/{id}/launch", launch_page),
    Page("POST", "/console/applications/{id}/launch", launch),
)
