"""Applications and their named revisions."""

from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.forms import parse_number, parse_object
from launchbay.console.graph import component_lines
from launchbay.console.pages.components import ShownGraph, manifest_graph, read_graph_query
from launchbay.console.request import HOME, PageRequest, Routes, user_names
from launchbay.errors import BadRequest, InvalidManifest, LaunchbayError
from launchbay.manifest.graph import CompiledManifest
from launchbay.usecases import applications, revisions
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_compiled
from launchbay.usecases.environments import list_environments
from launchbay.usecases.generations import FailurePolicy, read_failure_policy, set_failure_policy
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.usecases.manifests import list_manifests

_INSTANCES_SHOWN = 10


routes = Routes()


@routes.get("/console/organizations/{id}/applications")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    return await request.page(
        "applications.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        rows=await applications.list_applications(request.ctx, organization_id),
        name=request.form.text("name"),
    )


@routes.post("/console/organizations/{id}/applications", again=list_all)
async def create(request: PageRequest) -> Response:
    organization_id = request.path("id")
    created = await applications.create_application(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/applications/{created}/manifest", "Application created. Now write its manifest.")


@routes.get("/console/applications/{id}")
async def show(request: PageRequest, problem: LaunchbayError | None = None, tab: str = "overview") -> Response:
    """Show the components and newest instances of an application, or another tab."""
    ctx = request.ctx
    application = await applications.read_application(ctx, request.path("id"))
    manifest: CompiledManifest | None = None
    graph: ShownGraph | None = None
    if tab == "overview":
        try:
            _, version, manifest = await read_compiled(ctx, application.id, None)
            graph = await manifest_graph(application.id, version, manifest, read_graph_query(request), _path(request))
        except InvalidManifest as error:
            problem = problem or error  # the version needs a package that is no longer installed
    wanted = InstanceFilter(application_id=application.id)
    instances = await browse_instances(ctx, application.organization_id, wanted, None, _INSTANCES_SHOWN)
    return await request.page(
        "application.html",
        section="applications",
        organization_id=application.organization_id,
        problem=problem,
        application=application,
        tab=tab,
        manifest=manifest,
        lines=[] if manifest is None else component_lines(manifest),
        graph=graph,
        versions=await list_manifests(ctx, application.id),
        revisions=await revisions.list_revisions(ctx, application.id),
        environments=await list_environments(ctx, application.organization_id),
        instances=instances,
        people=await user_names(request, application.organization_id),
        form=request.form,
        on_failure=await read_failure_policy(ctx, application.id) if tab == "settings" else "keep",
    )


@routes.get("/console/applications/{id}/revisions")
async def show_revisions(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await show(request, problem, "revisions")


@routes.get("/console/applications/{id}/settings")
async def show_settings(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await show(request, problem, "settings")


@routes.post("/console/applications/{id}/name", again=show_settings)
async def rename(request: PageRequest) -> Response:
    await applications.rename_application(request.ctx, request.path("id"), request.form.text("name"))
    return request.redirect(_path(request), "Application renamed.")


@routes.post("/console/applications/{id}/onFailure", again=show_settings)
async def set_on_failure(request: PageRequest) -> Response:
    """Set what instances do when a reconfiguration fails."""
    policy: FailurePolicy = "rollback" if request.form.text("onFailure") == "rollback" else "keep"
    await set_failure_policy(request.ctx, request.path("id"), policy)
    return request.redirect(f"{_path(request)}/settings", "Policy saved.")


@routes.get("/console/applications/{id}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    application = await applications.read_application(request.ctx, request.path("id"))
    return await request.confirm_deletion(
        problem,
        section="applications",
        organization_id=application.organization_id,
        name=application.name,
        consequence="This also deletes its manifests, revisions and destroyed instances. You can't undo this.",
        path=_path(request),
        allowed=(await request.permissions(application.organization_id)).delete_application(application.id),
        needed=Permission.DELETE_APPLICATION,
    )


@routes.post("/console/applications/{id}/delete", again=delete_page)
async def delete(request: PageRequest) -> Response:
    application = await applications.read_application(request.ctx, request.path("id"))
    await applications.delete_application(request.ctx, application.id)
    target = f"{HOME}/organizations/{application.organization_id}/applications"
    return request.redirect(target, f"Application {application.name} deleted.")


@routes.post("/console/applications/{id}/revisions", again=show_revisions)
async def create_revision(page_request: PageRequest) -> Response:
    """Save a version with parameters, or the state of an instance, under a name."""
    form = page_request.form
    instance_id = form.text("instanceId")
    request = RevisionRequest(name=form.text("name"), instance_id=instance_id)
    if not instance_id:
        request = RevisionRequest(
            name=form.text("name"),
            version=_version(form.text("version")),
            parameters=parse_object("Parameters", form.text("parameters")),
            environment_id=form.text("environmentId") or None,
        )
    await revisions.create_revision(page_request.ctx, page_request.path("id"), request)
    return page_request.redirect(f"{_path(page_request)}/revisions", "Revision saved.")


@routes.post("/console/revisions/{id}/delete")
async def delete_revision(request: PageRequest) -> Response:
    revision = await revisions.read_revision(request.ctx, request.path("id"))
    await revisions.delete_revision(request.ctx, revision.id)
    return request.redirect(f"{HOME}/applications/{revision.application_id}/revisions", "Revision deleted.")


def _path(request: PageRequest) -> str:
    return f"{HOME}/applications/{request.path('id')}"


def _version(text: str) -> int | None:
    version = parse_number(text)
    if text and version is None:
        raise BadRequest(f"Invalid manifest version: {text[:80]}.", code="InvalidManifestVersion")
    return version
