"""Launching an application into an instance (reference §4, launch)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from launchbay.access import resources
from launchbay.access.actor import Actor
from launchbay.access.lookup import Lookup
from launchbay.access.permissions import Permission
from launchbay.errors import BadRequest, NotFound
from launchbay.ids import new_id
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.application import Application
from launchbay.model.environment import Environment
from launchbay.model.environment_view import EnvironmentView
from launchbay.model.instance import InstanceStatus
from launchbay.planning.accept import job_columns
from launchbay.planning.commands import plan_launch
from launchbay.planning.environment import unmet_needs, view_of
from launchbay.store import environments, jobs, manifests, revisions
from launchbay.store.constraints import refuse_vanished
from launchbay.store.pool import Connection
from launchbay.usecases.desk import Desk
from launchbay.usecases.launch_request import LaunchRequest, read_launch_request
from launchbay.usecases.revision_content import with_revision


async def launch(desk: Desk, actor: Actor, application_id: str, body: Mapping[str, Any]) -> str:
    """Launch an application and return the id of the new instance. The commit is the promise (promises 1 and 2).

    What the body leaves open comes from its revision, if it names one.

    Raises BadRequest for a field that makes no sense, an unknown version, revision or environment, for parameters that
    do not fit, and for needs that the environment does not meet.
    """
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        application = await lookup.application(application_id, Permission.CREATE_INSTANCE)
        request = await _with_revision(connection, application, read_launch_request(body))
        environment = await _environment(connection, lookup, application, request.environment_id)
        version = await checked_version(connection, application, request.version)
        manifest = await desk.manifests.get(connection, application.id, version)
        view = view_of(environment)
        _refuse_what_cannot_run(manifest, view, request.parameters)
        plan = plan_launch({}, InstanceStatus.REQUESTED)
        instance_id = new_id()
        destroy_at = None
        if request.destroy_interval_ms != -1:
            destroy_at = desk.clock.now() + timedelta(milliseconds=request.destroy_interval_ms)
        with refuse_vanished("The application or its environment was deleted at the same moment."):
            await jobs.accept_launch(
                connection,
                instance_id=instance_id,
                organization_id=application.organization_id,
                application_id=application.id,
                environment_id=environment.id,
                revision_id=request.revision_id,
                version=version,
                name=request.instance_name or f"{application.name} {instance_id[-6:]}",
                owner_id=actor.user_id,
                status=InstanceStatus.REQUESTED,
                job_id=new_id(),
                schedule_id=new_id(),
                parameters=msgspec.json.encode(request.parameters).decode(),
                components=components_text(manifest),
                environment_view=view.to_text(),
                destroy_at=destroy_at,
                **job_columns(plan, manifest),
            )
    return instance_id


def components_text(manifest: CompiledManifest) -> str:
    """Return the instance's components as the API shows them; none for manifests without components (reference §2)."""
    if not manifest.is_component_manifest:
        return "[]"
    return msgspec.json.encode([{"name": path} for path in manifest.components]).decode()


async def _with_revision(connection: Connection, application: Application, request: LaunchRequest) -> LaunchRequest:
    """Fill what the request leaves open from its revision. Raises BadRequest for one that is not the application's."""
    if request.revision_id is None:
        return request
    revision = await revisions.one(connection, revision_id=request.revision_id, application_id=application.id)
    if revision is None:
        raise BadRequest(
            f"The application has no revision {request.revision_id[:40]!r}; GET …/revisions lists those that it has.",
            code="UnknownRevision",
        )
    return with_revision(request, revision)


async def _environment(
    connection: Connection, lookup: Lookup, application: Application, environment_id: str | None
) -> Environment:
    """Fetch the environment to launch in, the default one if none is named; the permission is for the two together."""
    if environment_id is None:
        environment_id = await environments.default_id(connection, organization_id=application.organization_id)
        if environment_id is None:
            raise BadRequest(
                "The organization has no default environment; give environmentId, or make one the default.",
                code="NoEnvironment",
            )
    try:
        environment = await lookup.environment(environment_id, None)
    except NotFound:
        # The addressed object is the application: 404 would say that it does not exist (reference §4, launch).
        raise BadRequest(
            f"environmentId: there is no environment {environment_id[:80]!r}.", code="UnknownEnvironment"
        ) from None
    if environment.organization_id != application.organization_id:
        raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
    lookup.require(
        application.organization_id,
        Permission.CREATE_INSTANCE,
        resources.application(application.id),
        resources.environment(environment.id),
    )
    return environment


async def checked_version(connection: Connection, application: Application, version: int | None) -> int:
    """Return a manifest version of the application, by default the newest. Raises BadRequest for another number."""
    if version is None or version == application.latest_version:
        return application.latest_version
    known = 0 < version < 2**31 and await manifests.exists(connection, application_id=application.id, version=version)
    if not known:
        raise BadRequest(
            f"The application has no manifest version {version}; the newest is {application.latest_version}.",
            code="InvalidManifestVersion",
        )
    return version


def _refuse_what_cannot_run(manifest: CompiledManifest, view: EnvironmentView, parameters: Mapping[str, Any]) -> None:
    configure(manifest, parameters)
    problems = [*unsupported_components(manifest), *unmet_needs(manifest, view)]
    if problems:
        raise BadRequest(*problems, code="CannotLaunch")


_RUNNABLE = frozenset({"workflow.Instance", "cobalt.common.Constants", "reference.Service"})


def unsupported_components(manifest: CompiledManifest) -> list[str]:
    """Return a sentence for each component whose type is known but cannot be run by this version yet."""
    return [
        f"Component {path!r}: components of type {component.type!r} are not supported yet."
        for path, component in manifest.components.items()
        if component.type not in _RUNNABLE
    ]
