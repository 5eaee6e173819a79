"""The manifest editor, and the source of a manifest."""

import json
from collections.abc import Sequence
from contextlib import suppress

from starlette.responses import JSONResponse, Response

from launchbay.console.forms import parse_number
from launchbay.console.line_difference import Line, compare
from launchbay.console.request import HOME, ConsoleDeps, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, InvalidManifest, LaunchbayError
from launchbay.features.impact.usecases import Impact, impact_of_manifest
from launchbay.model.findings import Finding
from launchbay.store.applications import Application
from launchbay.usecases import manifests
from launchbay.usecases.applications import read_application

_TYPES = ("string", "int", "bool", "double", "object", "unit", "bytes", "list<string>", "map<string,string>")
_PIN_TYPES = (
    *(f"{kind}({name})" for kind in ("configuration", "publish-signal", "consume-signal") for name in _TYPES),
    "receive-command()",
    "receive-command( => )",
    "send-command()",
    "bind()",
)
_KEYS = (
    "application",
    "components",
    "interfaces",
    "bindings",
    "configuration",
    "required",
    "type",
    "configuration.workflows",
    "configuration.triggers",
    "configuration.schedule",
    "configuration.propagateStatus",
    "configuration.values",
    "__locator.application-id",
    "launch",
    "destroy",
    "steps",
    "action",
    "phase",
    "precedingPhases",
    "parameters",
    "output",
    "return",
    "value",
    "description",
    "default",
    "suggestions",
    "retryCount",
    "ignoreFail",
)


def completions(deps: ConsoleDeps) -> str:
    """Return the completions of the editor as JSON: component types, actions, pin types, keys."""
    return json.dumps({"types": deps.known_types, "actions": deps.known_actions, "pinTypes": _PIN_TYPES, "keys": _KEYS})


routes = Routes()


@routes.get("/console/applications/{id}/manifest", query=("version",))
async def edit(request: PageRequest) -> Response:
    """Show the editor with the newest version, or an older version read-only."""
    application = await read_application(request.ctx, request.path("id"))
    version = parse_number(request.query("version"))
    text = await manifests.read_manifest(request.ctx, application.id, version)
    return await _editor(request, application, text, version or application.latest_version, None)


@routes.post("/console/applications/{id}/manifest")
async def save(request: PageRequest) -> Response:
    """Save the text as a new version, unless somebody else saved one meanwhile."""
    application_id, form = request.path("id"), request.form
    text = form.raw("text")
    try:
        stored = await manifests.replace_manifest(
            request.ctx, application_id, text, message=form.text("message"), expected=parse_number(form.text("base"))
        )
    except LaunchbayError as error:
        application = await read_application(request.ctx, application_id)
        return await _editor(request, application, text, application.latest_version, error)
    message = f"Version {stored.version} saved.{_warned(stored.warnings)}"
    return request.redirect(f"{HOME}/applications/{application_id}", message)


def _warned(warnings: Sequence[Finding]) -> str:
    return f" Warnings: {len(warnings)}. The manifest's page shows them." if warnings else ""


@routes.post("/console/manifests/check")
async def check(request: PageRequest) -> Response:
    """Return the findings for a text as JSON, while it is being edited."""
    found = await manifests.validate_manifest(request.ctx, request.form.raw("text"))
    documents = {
        f"{severity}s": [finding.to_document() for finding in found if finding.severity == severity]
        for severity in ("error", "warning")
    }
    return JSONResponse(documents)


@routes.post("/console/applications/{id}/manifest/impact")
async def show_impact(request: PageRequest) -> Response:
    """Return what saving the text would mean for the instances."""
    impact: Impact | None = None
    with suppress(BadRequest, InvalidManifest):  # the findings say why
        impact = await impact_of_manifest(request.ctx, request.path("id"), request.form.raw("text"))
    groups = [] if impact is None else list(impact.groups.values())
    return await request.fragment(
        "impact/templates/manifest_impact.html",
        impact=impact,
        total=sum(group.count for group in groups),
        refused=[group for group in groups if group.outcome.errors],
    )


@routes.post("/console/applications/{id}/source")
async def set_source(request: PageRequest) -> Response:
    """Load the manifest from a URL, now and later."""
    application_id = request.path("id")
    try:
        stored = await manifests.set_manifest_source(request.ctx, application_id, request.form.text("url"))
    except LaunchbayError as error:
        application = await read_application(request.ctx, application_id)
        text = await manifests.read_manifest(request.ctx, application_id, None)
        error.field = "url"  # the only one
        return await _editor(request, application, text, application.latest_version, error)
    message = f"Version {stored.version} loaded from the URL.{_warned(stored.warnings)}"
    return request.redirect(f"{HOME}/applications/{application_id}", message)


@routes.post("/console/applications/{id}/source/refresh")
async def refresh(request: PageRequest) -> Response:
    application_id = request.path("id")
    found = await manifests.refresh_manifest(request.ctx, application_id)
    loaded = f"Version {found.version} loaded.{_warned(found.warnings)}"
    message = loaded if found.changed else "The source hasn't changed."
    return request.redirect(f"{HOME}/applications/{application_id}", message)


async def _editor(
    request: PageRequest, application: Application, text: str, version: int, problem: LaunchbayError | None
) -> Response:
    findings = problem.findings if isinstance(problem, InvalidManifest) else ()
    meanwhile: list[Line] | None = None
    if isinstance(problem, Conflict):
        newest = await manifests.read_manifest(request.ctx, application.id, None)
        meanwhile = compare(newest, text)
    return await request.page(
        "manifest.html",
        section="applications",
        organization_id=application.organization_id,
        problem=LaunchbayError("The manifest has errors and was not saved.") if findings else problem,
        status=None if problem is None else request.deps.status_of(problem),
        application=application,
        source=application.source_url,
        text=text,
        version=version,
        is_newest=version == application.latest_version,
        message=request.form.text("message"),
        findings=findings,
        meanwhile=meanwhile,
        completions=completions(request.deps),
    )
