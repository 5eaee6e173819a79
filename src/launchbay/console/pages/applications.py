"""Applications and their named revisions."""

from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.forms import parsed_object
from launchbay.console.graph import component_graph, component_lines
from launchbay.console.request import HOME, PageRequest, PageRoute, user_names
from launchbay.errors import BadRequest, InvalidManifest, LaunchbayError
from launchbay.manifest.graph import CompiledManifest
from launchbay.usecases import applications, revisions
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import list_manifests

_INSTANCES_SHOWN = 10


async def list_all(request: PageRequest) -> Response:
    """Show the applications of an organization."""
    return await _list(request, request.path("id"), None)


async def create(request: PageRequest) -> Response:
    """Create an application, and open its manifest."""
    organization_id = request.path("id")
    try:
        created = await applications.create_application(request.ctx, organization_id, request.form.text("name"))
    except BadRequest as error:
        return await _list(request, organization_id, error)
    said = "The application is there. It does nothing yet: describe it."
    return request.redirect(f"{HOME}/applications/{created}/manifest", said)


async def show(request: PageRequest) -> Response:
    """Show an application."""
    return await _show(request, None)


async def rename(request: PageRequest) -> Response:
    """Give the application another name."""
    try:
        await applications.rename_application(request.ctx, request.path("id"), request.form.text("name"))
    except BadRequest as error:
        return await _show(request, error)
    return request.redirect(_path(request), "The application has its new name.")


async def delete_page(request: PageRequest) -> Response:
    """Ask whether the application is really to go."""
    application = await applications.read_application(request.ctx, request.path("id"))
    return await _confirm_deletion(request, application.id, None)


async def delete(request: PageRequest) -> Response:
    """Delete the application."""
    application = await applications.read_application(request.ctx, request.path("id"))
    try:
        await applications.delete_application(request.ctx, application.id)
    except BadRequest as error:
        return await _confirm_deletion(request, application.id, error)
    target = f"{HOME}/organizations/{application.organization_id}/applications"
    return request.redirect(target, f"{application.name} is deleted.")


async def create_revision(page_request: PageRequest) -> Response:
    """Give a version, or the state of an instance, a name."""
    form = page_request.form
    instance_id = form.text("instanceId")
    try:
        request = RevisionRequest(name=form.text("name"), instance_id=instance_id)
        if not instance_id:
            request = RevisionRequest(
                name=form.text("name"),
                version=_version(form.text("version")),
                parameters=parsed_object("Parameters", form.text("parameters")),
                environment_id=form.text("environmentId") or None,
            )
        await revisions.create_revision(page_request.ctx, page_request.path("id"), request)
    except BadRequest as error:
        return await _show(page_request, error)
    return page_request.redirect(f"{_path(page_request)}#revisions", "The revision is kept.")


async def delete_revision(request: PageRequest) -> Response:
    """Delete a revision."""
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    await revisions.delete_revision(request.ctx, revision.id)
    return request.redirect(f"{HOME}/applications/{revision.application_id}#revisions", "The revision is deleted.")


async def _list(request: PageRequest, organization_id: str, problem: LaunchbayError | None) -> Response:
    return await request.page(
        "applications.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        rows=await applications.list_applications(request.ctx, organization_id),
        name=request.form.text("name"),
    )


async def _show(request: PageRequest, problem: LaunchbayError | None) -> Response:
    ctx = request.ctx
    application = await applications.read_application(ctx, request.path("id"))
    manifest: CompiledManifest | None = None
    try:
        _, _, manifest = await read_compiled(ctx, application.id, None)
    except InvalidManifest as error:
        problem = problem or error  # a package that the version needs is gone
    wanted = InstanceFilter(application_id=application.id)
    instances = await browse_instances(ctx, application.organization_id, wanted, None, _INSTANCES_SHOWN)
    return await request.page(
        "application.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem,
        application=application,
        source=application.source_url,
        manifest=manifest,
        lines=[] if manifest is None else component_lines(manifest),
        graph="" if manifest is None else component_graph(manifest),
        versions=await list_manifests(ctx, application.id),
        revisions=await revisions.list_revisions(ctx, application.id),
        environments=await list_environments(ctx, application.organization_id),
        instances=instances,
        people=await user_names(request, application.organization_id),
        form=request.form,
    )


async def _confirm_deletion(request: PageRequest, application_id: str, problem: LaunchbayError | None) -> Response:
    application = await applications.read_application(request.ctx, application_id)
    return await request.page(
        "confirm.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem,
        heading=f"Delete {application.name}?",
        sentences=("Its manifests, revisions and destroyed instances go with it. This cannot be undone.",),
        action=f"{_path(request)}/delete",
        back=_path(request),
        label="Delete the application",
        allowed=(await request.permissions(application.organization_id)).delete_application(application.id),
        needed=Permission.DELETE_APPLICATION,
    )


def _path(request: PageRequest) -> str:
    return f"{HOME}/applications/{request.path('id')}"


def _version(text: str) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest("The version is a whole number; choose one of the list.", code="InvalidManifestVersion")
    return int(text) if text else None


ROUTES = (
    PageRoute("GET", "/console/organizations/{id}/applications", list_all),
    PageRoute("POST", "/console/organizations/{id}/applications", create),
    PageRoute("GET", "/console/applications/{id}", show),
    PageRoute("POST", "/console/applications/{id}/name", rename),
    PageRoute("GET", "/console/applications/{id}/delete", delete_page),
    PageRoute("POST", "/console/applications/{id}/delete", delete),
    PageRoute("POST", "/console/applications/{id}/revisions", create_revision),
    PageRoute("POST", "/console/revisions/{id}/delete", delete_revision),
)
