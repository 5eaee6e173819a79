"""Named revisions: an application's version with parameters, environment and submodules (conformance.md)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict
from launchbay.ids import NamedRow, new_id
from launchbay.manifest.configuration import configure, typed_parameters
from launchbay.model.changes import Proposal
from launchbay.model.scalars import decode_json
from launchbay.planning.arguments import check_size, ignored_parameters
from launchbay.planning.names import LAUNCH
from launchbay.store import applications as store
from launchbay.store.applications import Application, Revision, RevisionOfApplication
from launchbay.store.database import foreign_key_violation_as, unique_violation_as
from launchbay.usecases.context import AppContext, Context, Work, as_invalid_id, name_taken, validate_name
from launchbay.usecases.launch import validate_version
from launchbay.usecases.launch_request import RevisionRequest, read_submodules, refuse_unknown_in_submodules
from launchbay.usecases.submodule_shapes import submodules_of

_VANISHED = "The application or the environment was deleted by another request."


async def list_revisions(ctx: Context, application_id: str) -> list[NamedRow]:
    """Return the named revisions of an application, by name."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        return await store.list_revisions_by_application(work.connection, application_id=application.id)


async def list_all_revisions(ctx: Context, organization_id: str) -> list[RevisionOfApplication]:
    """Return the named revisions of all applications that the caller may read, by name."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_all_revisions(work.connection, organization_id=organization_id)
    return [
        row
        for row in rows
        if work.lookup.allows(organization_id, Permission.READ, permissions.application(row.application_id))
    ]


async def list_full_revisions(ctx: Context, application_id: str, ids: Sequence[str]) -> list[Revision]:
    """Return these named revisions of an application with their content, by name."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        return await store.list_full_revisions(work.connection, application_id=application.id, ids=list(ids))


async def read_revision(ctx: Context, revision_id: str) -> Revision:
    async with ctx.read() as work:
        return await work.lookup.revision(revision_id, Permission.READ)


async def create_revision(
    ctx: Context, application_id: str, request: RevisionRequest, *, checks_submodules: bool = True
) -> str:
    """Create a revision and return its id.

    Raises BadRequest for a name that is bad or taken, an unknown instance, version or environment, and parameters that
    do not fit the version; parameters that are required may be left to the launch. With `checks_submodules` also for
    revisions of submodules that the caller may not read.
    """
    revision_id = new_id()
    async with ctx.begin() as work:
        application = await work.lookup.application(application_id, Permission.EDIT_APPLICATION)
        assert request.name is not None, "the body of a creation has one"
        name = validate_name(request.name)
        if request.instance_id is None and request.version is None:
            raise BadRequest("Name an instance to copy, or a manifest version.", code="NoRevisionContent")
        content = await _content(work, application, request, None)
        if checks_submodules and request.submodules:
            await _check_revisions(work, application, request.submodules)
        with unique_violation_as(*name_taken("a revision", name)), foreign_key_violation_as(_VANISHED):
            await store.insert_revision(
                work.connection, revision_id=revision_id, application_id=application.id, name=name, **content
            )
        after = _shown(ctx.app, {"revision": revision_id, "name": name, **content})
        await work.audit("create_revision", application, after=after, proposed=_proposal(revision_id, content))
    return revision_id


async def change_revision(ctx: Context, revision_id: str, request: RevisionRequest) -> None:
    """Change what the request names and leave the rest as it is.

    Raises BadRequest as `create_revision` does.
    """
    async with ctx.begin() as work:
        found = await work.lookup.revision(revision_id, Permission.EDIT_APPLICATION)
        _refuse_unnamed(found)
        await store.lock_revision(work.connection, revision_id=found.id)
        old = await store.get_revision(work.connection, revision_id=found.id, application_id=found.application_id)
        if old is None:
            raise Conflict("The revision was deleted by another request.")
        name = old.name if request.name is None else validate_name(request.name)
        application = await work.lookup.application(old.application_id, Permission.EDIT_APPLICATION)
        content = await _content(work, application, request, old)
        if request.submodules:
            await _check_revisions(work, application, request.submodules)
        with unique_violation_as(*name_taken("a revision", name)), foreign_key_violation_as(_VANISHED):
            await store.update_revision(work.connection, revision_id=old.id, name=name, **content)
        before = _shown(ctx.app, {"revision": old.id, "name": old.name, **_columns(old)})
        after = _shown(ctx.app, {"revision": old.id, "name": name, **content})
        await work.audit("change_revision", application, before, after, proposed=_proposal(old.id, content))


async def plan_revision(work: Work, revision: Revision, request: RevisionRequest) -> Revision:
    """Return the revision as `change_revision` would store it, with the same errors."""
    _refuse_unnamed(revision)
    application = await work.lookup.application(revision.application_id, Permission.EDIT_APPLICATION)
    content = await _content(work, application, request, revision)
    if request.submodules:
        await _check_revisions(work, application, request.submodules)
    return replace(revision, **content)


async def delete_revision(ctx: Context, revision_id: str) -> None:
    """Delete a revision. Instances that were launched from it stay as they are."""
    async with ctx.begin() as work:
        revision = await work.lookup.revision(revision_id, Permission.EDIT_APPLICATION)
        _refuse_unnamed(revision)
        application = await work.lookup.application(revision.application_id, Permission.EDIT_APPLICATION)
        await store.delete_revision(work.connection, revision_id=revision.id)
        before = _shown(ctx.app, {"revision": revision.id, "name": revision.name, **_columns(revision)})
        await work.audit("delete_revision", application, before)


def _refuse_unnamed(revision: Revision) -> None:
    """Raise BadRequest for the revision of a manifest version, which belongs to it."""
    if not revision.name:
        raise BadRequest(
            f"This is the unnamed revision of version {revision.version}, which can't change. Create a named one.",
            code="UnnamedRevision",
        )


async def _content(
    work: Work, application: Application, request: RevisionRequest, old: Revision | None
) -> dict[str, Any]:
    """Return the columns of a revision that are not its name."""
    if request.instance_id is not None:
        if request.has_settings():
            raise BadRequest(
                "Give either instanceId, or version, parameters, environmentId and submodules; an instance brings all "
                "of them.",
                code="ConflictingFields",
            )
        return await _of_instance(work, application, request.instance_id)
    version = await validate_version(work, application, _chosen(request.version, old and old.version))
    given = _chosen(request.parameters, old and decode_json(old.parameters)) or {}
    submodules = _chosen(request.submodules, old and decode_json(old.submodules)) or {}
    manifest = await work.manifest(application.id, version)
    check_size(given)
    parameters = typed_parameters(manifest, given)
    configure(replace(manifest, required_parameters=()), parameters)
    work.warn(ignored_parameters(manifest, LAUNCH, parameters))
    read_submodules(submodules)
    refuse_unknown_in_submodules(submodules)
    old_environment = None if old is None else old.environment_id
    return {
        "version": version,
        "parameters": msgspec.json.encode(parameters).decode(),
        "environment_id": await _environment_id(work, application, request.environment_id, old_environment),
        "submodules": msgspec.json.encode(submodules).decode(),
    }


async def _check_revisions(work: Work, application: Application, submodules: Mapping[str, Any]) -> None:
    """Raise BadRequest for a revision of a submodule that the caller can't read.

    The error doesn't reveal whether it exists.
    """
    named = set(_revision_ids(submodules))
    rows = await store.list_revision_applications(
        work.connection, revision_ids=sorted(named), organization_id=application.organization_id
    )
    readable = {
        row.id
        for row in rows
        if work.lookup.allows(application.organization_id, Permission.READ, permissions.application(row.application_id))
    }
    if unknown := sorted(named - readable):
        raise BadRequest(
            f"submodules: You can read no revision {unknown[0][:40]!r} in this organization.",
            "GET applications/{id}/revisions lists those of an application.",
            code="UnknownRevision",
        )


def _revision_ids(submodules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the revisions that submodules name, at every level."""
    for submodule in submodules.values():
        if isinstance(submodule, Mapping):
            if isinstance(submodule.get("revisionId"), str):
                yield submodule["revisionId"]
            if isinstance(submodule.get("submodules"), Mapping):
                yield from _revision_ids(submodule["submodules"])


async def _of_instance(work: Work, application: Application, instance_id: str) -> dict[str, Any]:
    with as_invalid_id("instanceId"):
        instance = await work.lookup.instance(instance_id, Permission.READ)
    if instance.application_id != application.id:
        raise BadRequest("The instance is one of another application; choose one of this.", code="ForeignInstance")
    launched_from = None
    if instance.revision_id is not None:
        launched_from = await store.get_revision(
            work.connection, revision_id=instance.revision_id, application_id=application.id
        )
    kept = {} if launched_from is None else msgspec.json.decode(launched_from.submodules)
    return {
        "version": instance.version,
        "parameters": instance.parameters,
        "environment_id": instance.environment_id,
        "submodules": msgspec.json.encode({**kept, **await submodules_of(work, instance)}).decode(),
    }


async def _environment_id(
    work: Work, application: Application, wanted: str | UnsetType | None, old: str | None
) -> str | None:
    if wanted is UNSET:
        return old
    if wanted is None:
        return None
    with as_invalid_id("environmentId"):
        environment = await work.lookup.environment(wanted, Permission.READ)
    if environment.organization_id != application.organization_id:
        raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
    return environment.id


def _proposal(revision_id: str, content: Mapping[str, Any]) -> Proposal:
    parameters = msgspec.json.decode(content["parameters"])
    return Proposal(parameters=parameters, version=content["version"], revision_id=revision_id)


def _columns(revision: Revision) -> dict[str, Any]:
    return {name: getattr(revision, name) for name in ("version", "parameters", "environment_id", "submodules")}


def _shown(app: AppContext, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit log may show: parameters may be secrets, those of submodules too."""
    shown = dict(columns)
    shown["parameters"] = app.audit.fingerprints(msgspec.json.decode(columns["parameters"]))
    shown["submodules"] = app.audit.fingerprints(msgspec.json.decode(columns["submodules"]))
    return shown


def _chosen(given: Any, old: Any) -> Any:
    return old if given is None else given
