"""Applications: their list, their components and newest instances, and their settings."""

from functools import partial
from typing import Any

from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.graph import component_lines
from launchbay.console.list_query import page_by_name
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, InvalidManifest, LaunchbayError, PreconditionFailed
from launchbay.features.freezes.usecases import show_freeze
from launchbay.features.generations.usecases import FailurePolicy, read_failure_policy, set_failure_policy
from launchbay.features.git_sources.usecases import list_git_sources
from launchbay.features.webhooks.usecases import list_webhooks
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import ALIVE
from launchbay.pages.components import GRAPH_FIELDS, ShownGraph, manifest_graph, read_graph_query
from launchbay.pages.overview import health_by
from launchbay.pages.rule_forms import (
    lift_freeze,
    rule_values,
    save_freeze,
    save_freeze_windows,
    save_lifetime,
    save_limits,
    save_sleep,
)
from launchbay.store.applications import Application
from launchbay.usecases import applications
from launchbay.usecases.browsing import read_compiled
from launchbay.usecases.fleet import InstanceFilter, count_by_version, count_destroyed, list_instances, read_groups
from launchbay.usecases.organizations import list_last_changes
from launchbay.usecases.revisions import list_revisions

_INSTANCES_SHOWN = 10


routes = Routes()


@routes.get("/console/organizations/{id}/applications", query=("after", "q"))
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    groups = request.ask(read_groups(request.ctx, organization_id))
    every = await applications.list_applications(request.ctx, organization_id)
    page = page_by_name(every, request.query("q"), request.query("after"))
    return await request.page(
        "applications.html",
        section="applications",
        organization_id=organization_id,
        problem=problem,
        page=page,
        changed=request.ask(list_last_changes(request.ctx, organization_id, [row.id for row in page.rows])),
        health=health_by("application_id", await groups),
        name=request.form.text("name"),
    )


@routes.post("/console/organizations/{id}/applications", again=list_all)
async def create(request: PageRequest) -> Response:
    organization_id = request.path("id")
    created = await applications.create_application(request.ctx, organization_id, request.form.text("name"))
    return request.redirect(f"{HOME}/applications/{created}/manifest", "Application created. Now write its manifest.")


@routes.get("/console/applications/{id}", query=GRAPH_FIELDS)
async def show(request: PageRequest, problem: LaunchbayError | None = None, tab: str = "overview") -> Response:
    """Show the components and newest instances of an application, or its settings."""
    ctx = request.ctx
    application = await applications.read_application(ctx, request.path("id"))
    wanted = InstanceFilter(application_ids=[application.id], statuses=ALIVE)
    values = request.ask(tab_values(request, application, tab))
    settings = request.ask(_settings(request, application, problem)) if tab == "settings" else None
    destroyed = request.ask(count_destroyed(ctx, application.organization_id, wanted))
    instances = request.ask(
        list_instances(ctx, application.organization_id, wanted, sort="-created", after=None, count=_INSTANCES_SHOWN)
    )
    manifest: CompiledManifest | None = None
    graph: ShownGraph | None = None
    if tab == "overview":
        try:
            _, version, manifest = await read_compiled(ctx, application.id, None)
            graph = await manifest_graph(application.id, version, manifest, read_graph_query(request), _path(request))
        except InvalidManifest as error:
            problem = problem or error  # the version needs a package that is no longer installed
    return await request.page(
        "application.html",
        **await values,
        problem=problem,
        manifest=manifest,
        lines=[] if manifest is None else component_lines(manifest),
        graph=graph,
        instances=await instances,
        destroyed=await destroyed,
        **({} if settings is None else await settings),
    )


async def tab_values(request: PageRequest, application: Application, tab: str) -> dict[str, Any]:
    """Return what the pages of an application's tabs have in common."""
    request.ask_frame(application.organization_id)
    in_use = request.ask(count_by_version(request.ctx, application.id))
    freeze = request.ask(show_freeze(request.ctx, "application", application.id))
    revisions = await list_revisions(request.ctx, application.id)
    return {
        "section": "applications",
        "organization_id": application.organization_id,
        "application": application,
        "tab": tab,
        "in_use": await in_use,
        "freeze": await freeze,
        "revision_count": len(revisions),
    }


async def _settings(request: PageRequest, application: Application, problem: LaunchbayError | None) -> dict[str, Any]:
    ask, ctx, organization_id = request.ask, request.ctx, application.organization_id
    may_hook = (await request.permissions(organization_id)).manage_all_users()
    policy, webhooks = ask(_read_policy(request)), ask(list_webhooks(ctx, organization_id)) if may_hook else None
    git_sources = ask(list_git_sources(ctx, organization_id, application_id=application.id))
    rules = await rule_values(request, "application", application.id, organization_id, problem)
    return {
        "on_failure": (await policy)["onFailure"],
        "seen_name": request.seen("/name", await _read_name(request)),
        "seen_policy": request.seen("/onFailure", await policy),
        "webhooks": None if webhooks is None else await webhooks,
        "git_sources": await git_sources,
        **rules,
    }


@routes.get("/console/applications/{id}/settings")
async def show_settings(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await show(request, problem, "settings")


@routes.post("/console/applications/{id}/name", again=show_settings)
async def rename(request: PageRequest) -> Response:
    async with request.unless_changed("applications", request.path("id"), partial(_read_name, request)):
        await applications.rename_application(request.ctx, request.path("id"), request.form.text("name"))
    return request.redirect(_path(request), "Application renamed.")


@routes.post("/console/applications/{id}/onFailure", again=show_settings)
async def set_on_failure(request: PageRequest) -> Response:
    """Set what instances do when a reconfiguration fails."""
    policy: FailurePolicy = "rollback" if request.form.text("onFailure") == "rollback" else "keep"
    async with request.unless_changed("applications", request.path("id"), partial(_read_policy, request)):
        await set_failure_policy(request.ctx, request.path("id"), policy)
    return request.redirect(f"{_path(request)}/settings", "Policy saved.")


@routes.post("/console/applications/{id}/lifetime", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_lifetime(request: PageRequest) -> Response:
    return await save_lifetime(request, "application")


@routes.post("/console/applications/{id}/sleep", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_sleep(request: PageRequest) -> Response:
    return await save_sleep(request, "application", show_settings)


@routes.post("/console/applications/{id}/concurrency", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_limits(request: PageRequest) -> Response:
    return await save_limits(request, "application")


@routes.post("/console/applications/{id}/freeze", again=show_settings)
async def set_freeze(request: PageRequest) -> Response:
    return await save_freeze(request, "application")


@routes.post("/console/applications/{id}/lift-freeze", again=show)
async def end_freeze(request: PageRequest) -> Response:
    return await lift_freeze(request, "application")


@routes.post(
    "/console/applications/{id}/freeze-windows", again=show_settings, refusals=(BadRequest, PreconditionFailed)
)
async def set_freeze_windows(request: PageRequest) -> Response:
    return await save_freeze_windows(request, "application", show_settings)


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


async def _read_name(request: PageRequest) -> dict[str, str]:
    return {"name": (await applications.read_application(request.ctx, request.path("id"))).name}


async def _read_policy(request: PageRequest) -> dict[str, str]:
    return {"onFailure": await read_failure_policy(request.ctx, request.path("id"))}


def _path(request: PageRequest) -> str:
    return f"{HOME}/applications/{request.path('id')}"
