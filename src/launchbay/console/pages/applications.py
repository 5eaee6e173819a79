"""Applications and their named revisions."""

from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.forms import parsed_object
from launchbay.console.graph import component_graph, component_lines
from launchbay.console.request import HOME, Page, Visit, names_of_people
from launchbay.errors import BadRequest, InvalidManifest, LaunchbayError
from launchbay.manifest.graph import CompiledManifest
from launchbay.usecases import applications, revisions
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import list_manifests

_INSTANCES_SHOWN = 10


async def list_all(visit: Visit) -> Response:
    """Show the applications of an organization."""
    return await _list(visit, visit.path("id"), None)


async def create(visit: Visit) -> Response:
    """Create an application, and open its manifest."""
    organization_id = visit.path("id")
    try:
        created = await applications.create_application(visit.ctx, organization_id, visit.form.text("name"))
    except BadRequest as error:
        return await _list(visit, organization_id, error)
    said = "The application is there. It does nothing yet: describe it."
    return visit.go(f"{HOME}/applications/{created}/manifest", said)


async def show(visit: Visit) -> Response:
    """Show an application."""
    return await _show(visit, None)


async def rename(visit: Visit) -> Response:
    """Give the application another name."""
    try:
        await applications.rename_application(visit.ctx, visit.path("id"), visit.form.text("name"))
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(_path(visit), "The application has its new name.")


async def delete_page(visit: Visit) -> Response:
    """Ask whether the application is really to go."""
    application = await applications.read_application(visit.ctx, visit.path("id"))
    return await _confirm_deletion(visit, application.id, None)


async def delete(visit: Visit) -> Response:
    """Delete the application."""
    application = await applications.read_application(visit.ctx, visit.path("id"))
    try:
        await applications.delete_application(visit.ctx, application.id)
    except BadRequest as error:
        return await _confirm_deletion(visit, application.id, error)
    target = f"{HOME}/organizations/{application.organization_id}/applications"
    return visit.go(target, f"{application.name} is deleted.")


async def create_revision(visit: Visit) -> Response:
    """Give a version, or the state of an instance, a name."""
    form = visit.form
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
        await revisions.create_revision(visit.ctx, visit.path("id"), request)
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{_path(visit)}#revisions", "The revision is kept.")


async def delete_revision(visit: Visit) -> Response:
    """Delete a revision."""
    revision = await revisions.read_revision(visit.ctx, visit.path("id"))
    await revisions.delete_revision(visit.ctx, revision.id)
    return visit.go(f"{HOME}/applications/{revision.application_id}#revisions", "The revision is deleted.")


async def _list(visit: Visit, organization_id: str, problem: LaunchbayError | None) -> Response:
    return await visit.page(
        "applications.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        rows=await applications.list_applications(visit.ctx, organization_id),
        name=visit.form.text("name"),
    )


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    ctx = visit.ctx
    application = await applications.read_application(ctx, visit.path("id"))
    manifest: CompiledManifest | None = None
    try:
        _, _, manifest = await read_compiled(ctx, application.id, None)
    except InvalidManifest as error:
        problem = problem or error  # a package that the version needs is gone
    wanted = InstanceFilter(application_id=application.id)
    instances = await browse_instances(ctx, application.organization_id, wanted, None, _INSTANCES_SHOWN)
    return await visit.page(
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
        people=await names_of_people(visit, application.organization_id),
        form=visit.form,
    )


async def _confirm_deletion(visit: Visit, application_id: str, problem: LaunchbayError | None) -> Response:
    application = await applications.read_application(visit.ctx, application_id)
    return await visit.page(
        "confirm.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem,
        heading=f"Delete {application.name}?",
        sentences=("Its manifests, revisions and destroyed instances go with it. This cannot be undone.",),
        action=f"{_path(visit)}/delete",
        back=_path(visit),
        label="Delete the application",
        allowed=(await visit.may(application.organization_id)).delete_application(application.id),
        needed=Permission.DELETE_APPLICATION,
    )


def _path(visit: Visit) -> str:
    return f"{HOME}/applications/{visit.path('id')}"


def _version(text: str) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest("The version is a whole number; choose one of the list.", code="InvalidManifestVersion")
    return int(text) if text else None


PAGES = (
    Page("GET", "/console/organizations/{id}/applications", list_all),
    Page("POST", "/console/organizations/{id}/applications", create),
    Page("GET", "/console/applications/{id}", show),
    Page("POST", "/console/applications/{id}/name", rename),
    Page("GET", "/console/applications/{id}/delete", delete_page),
    Page("POST", "/console/applications/{id}/delete", delete),
    Page("POST", "/console/applications/{id}/revisions", create_revision),
    Page("POST", "/console/revisions/{id}/delete", delete_revision),
)
