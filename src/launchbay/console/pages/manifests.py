"""The manifest editor, and where manifests come from."""

import json

from starlette.responses import JSONResponse, Response

from launchbay.console.request import HOME, ConsoleDeps, PageRequest, PageRoute
from launchbay.errors import InvalidManifest, LaunchbayError
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
    """Return the words as JSON: component types, actions, types of pins, keys."""
    return json.dumps({"types": deps.known_types, "actions": deps.known_actions, "pinTypes": _PIN_TYPES, "keys": _KEYS})


async def edit(request: PageRequest) -> Response:
    """Show the editor with the newest version, or, to look at, with another one."""
    application = await read_application(request.ctx, request.path("id"))
    asked = request.query("version")
    version = int(asked) if asked and asked.isascii() and asked.isdecimal() and len(asked) < 10 else None
    text = await manifests.read_manifest(request.ctx, application.id, version)
    return await _editor(request, application, text, version or application.latest_version, None)


async def save(request: PageRequest) -> Response:
    """Keep the text as the newest version; what is wrong with it stands at its lines."""
    application_id, text = request.path("id"), request.form.raw("text")
    try:
        version = await manifests.replace_manifest(request.ctx, application_id, text)
    except LaunchbayError as error:
        application = await read_application(request.ctx, application_id)
        return await _editor(request, application, text, application.latest_version, error)
    return request.redirect(f"{HOME}/applications/{application_id}", f"Version {version} is the newest now.")


async def check(request: PageRequest) -> Response:
    """Answer what is wrong with a text that is being written."""
    found = await manifests.validate_manifest(request.ctx, request.form.raw("text"))
    documents = {
        f"{severity}s": [finding.to_document() for finding in found if finding.severity == severity]
        for severity in ("error", "warning")
    }
    return JSONResponse(documents)


async def set_source(request: PageRequest) -> Response:
    """Load the manifest from a URL from now on."""
    application_id = request.path("id")
    try:
        version = await manifests.set_manifest_source(request.ctx, application_id, request.form.text("url"))
    except LaunchbayError as error:
        application = await read_application(request.ctx, application_id)
        text = await manifests.read_manifest(request.ctx, application_id, None)
        return await _editor(request, application, text, application.latest_version, error)
    said = f"The manifest comes from its address from now on. Version {version} is the newest."
    return request.redirect(f"{HOME}/applications/{application_id}", said)


async def refresh(request: PageRequest) -> Response:
    """Load the manifest from its URL again."""
    application_id = request.path("id")
    found = await manifests.refresh_manifest(request.ctx, application_id)
    said = f"Version {found.version} is the newest now." if found.changed else "Nothing has changed at the source."
    return request.redirect(f"{HOME}/applications/{application_id}", said)


async def _editor(
    request: PageRequest, application: Application, text: str, version: int, problem: LaunchbayError | None
) -> Response:
    findings = problem.findings if isinstance(problem, InvalidManifest) else ()
    return await request.page(
        "manifest.html",
        section="applications",
        organization_id=application.organization_id,
        problem=LaunchbayError("The manifest has errors; nothing was kept.") if findings else problem,
        status=None if problem is None else request.deps.status_of(problem),
        application=application,
        source=application.source_url,
        text=text,
        version=version,
        is_newest=version == application.latest_version,
        findings=findings,
        words=completions(request.deps),
    )


ROUTES = (
    PageRoute("GET", "/console/applications/{id}/manifest", edit),
    PageRoute("POST", "/console/applications/{id}/manifest", save),
    PageRoute("POST", "/console/manifests/check", check),
    PageRoute("POST", "/console/applications/{id}/source", set_source),
    PageRoute("POST", "/console/applications/{id}/source/refresh", refresh),
)
