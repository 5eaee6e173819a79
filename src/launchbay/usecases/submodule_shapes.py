"""The fields of submodules in the form of a launch (language §7).

It looks at the same things as the planner of a launch (`launch_tree.py`), but refuses nothing: a submodule that cannot
be looked into says why, and the launch itself decides.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, InvalidManifest, NotAllowed, NotFound
from launchbay.ids import NamedRow
from launchbay.limits import CONSOLE_SUBMODULES, SUBMODULE_LEVELS
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import LOCATOR, SUBMODULE, CompiledManifest
from launchbay.manifest.scaling import template_path
from launchbay.manifest.v1 import inner_name
from launchbay.model.instance import LinkKind
from launchbay.store import applications, instances
from launchbay.store.applications import Application
from launchbay.store.instances import InstanceRecord, LinkedRow
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch import shared_instances
from launchbay.usecases.launch_request import SubmoduleRequest

_ABSENT = object()


async def submodules_of(work: Work, instance: InstanceRecord) -> dict[str, Any]:
    """Return the `submodules` of a launch like that of an instance (reference §4).

    Each has its revision, version and the parameters that do not come from the module around it. A shared one has the
    revision that stands for it in the catalog of the environment, if one still does.
    """
    shared = await shared_instances(work, instance.environment_id)
    revisions = {shared_id: revision_id for revision_id, shared_id in shared.items()}
    manifest = await work.manifest(instance.application_id, instance.version)
    parameters = msgspec.json.decode(instance.parameters)

    async def linked(instance_id: str) -> list[LinkedRow]:
        return await instances.list_linked(work.connection, instance_id=instance_id)

    return await submodules_inside(work, instance.id, manifest, parameters, revisions, linked)


async def same_configuration(
    work: Work, instance: InstanceRecord, *, version: int | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a reconfiguration to another version or other parameters that keeps everything else."""
    return {
        "parameters": {**msgspec.json.decode(instance.parameters), **parameters},
        "submodules": await submodules_of(work, instance),
        "manifestVersion": version,
    }


async def submodules_inside(
    work: Work,
    instance_id: str,
    manifest: CompiledManifest,
    parameters: Mapping[str, Any],
    revisions: Mapping[str, str],
    linked: Callable[[str], Awaitable[list[LinkedRow]]],
) -> dict[str, Any]:
    """Return the `submodules` of a request that makes those of an instance again.

    `parameters` are those of the instance. `revisions` are those that stand for shared instances, and `linked` says
    what was behind the components.
    """
    configured = configure(manifest, parameters)
    found: dict[str, Any] = {}
    for row in await linked(instance_id):
        if row.kind == LinkKind.SHARED and row.target_id in revisions:
            found[row.component] = {"revisionId": revisions[row.target_id]}
        if row.kind != LinkKind.OWN or row.application_id is None or row.version is None:
            continue
        own = msgspec.json.decode(row.parameters or "{}")
        inner = await work.manifest(row.application_id, row.version)
        from_outside = {
            inner_name(inner, key): value for key, value in configured.get(template_path(row.component), {}).items()
        }
        parts = {
            "revisionId": row.revision_id,
            "manifestVersion": row.version,
            "parameters": {name: value for name, value in own.items() if from_outside.get(name, _ABSENT) != value},
            "submodules": await submodules_inside(work, row.target_id, inner, own, revisions, linked),
        }
        found[row.component] = {name: value for name, value in parts.items() if value}
    return found


ModulePath = tuple[str, ...]  # from the root, component by component
SubmoduleChoices = Callable[[ModulePath], SubmoduleRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmoduleShape:
    """One submodule.

    `manifest` is None where it cannot be looked into, and `problem` says why.

    `asked` is what is asked of it so far. `mapped` leads from parameters to the one of the outer module that is given
    instead; `outside` has the values that the outer module or the revision brings, by the submodule's own names.
    """

    path: ModulePath
    locator: str
    choice: SubmoduleRequest
    application: Application | None = None
    problem: str = ""
    revisions: list[NamedRow] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)  # the newest first
    version: int = 0  # that the manifest is of
    shared_id: str | None = None  # the running instance that is used instead of a new one
    manifest: CompiledManifest | None = None
    mapped: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, Any] = field(default_factory=dict)
    inside: "list[SubmoduleShape]" = field(default_factory=list)


async def submodule_shapes(
    ctx: Context,
    application: Application,
    manifest: CompiledManifest,
    parameters: Mapping[str, Any],
    environment_id: str | None,
    choices: SubmoduleChoices,
) -> list[SubmoduleShape]:
    """Return the submodules of a launch with these parameters, as a tree."""
    if not any(component.type == SUBMODULE for component in manifest.components.values()):
        return []
    async with ctx.read() as work:
        await work.lookup.organization(application.organization_id)
        if environment_id is None:
            environment_id = (await work.lookup.default_environment(application.organization_id)).id
        shared = await shared_instances(work, environment_id)
        looker = _ShapeBuilder(work, application.organization_id, shared, choices)
        return await looker.inside(manifest, parameters, (), frozenset({application.id}))


async def present_submodules(ctx: Context, instance_id: str) -> Mapping[str, Any]:
    """Return the `submodules` of a request that keeps those of an instance.

    The permission is the one for reconfiguring it, which is what they are for.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        return await submodules_of(work, record)


class _ShapeBuilder:
    """Looks from one submodule into the next, a bounded number of them."""

    def __init__(self, work: Work, organization_id: str, shared: Mapping[str, str], choices: SubmoduleChoices) -> None:
        self._work = work
        self._organization_id = organization_id
        self._shared = shared
        self._choices = choices
        self._count = 0

    async def inside(
        self, manifest: CompiledManifest, parameters: Mapping[str, Any], module_path: ModulePath, above: frozenset[str]
    ) -> list[SubmoduleShape]:
        configured = _configured(manifest, parameters)
        found: list[SubmoduleShape] = []
        for path, component in manifest.components.items():
            if component.type == SUBMODULE:
                self._count += 1
                found.append(await self._one(manifest, configured.get(path, {}), path, (*module_path, path), above))
        return found

    async def _one(
        self,
        outer: CompiledManifest,
        configured: Mapping[str, Any],
        path: str,
        module_path: ModulePath,
        above: frozenset[str],
    ) -> SubmoduleShape:
        locator = configured.get(LOCATOR)
        shape = SubmoduleShape(
            path=module_path, locator=locator if isinstance(locator, str) else "", choice=self._choices(module_path)
        )
        try:
            application = await self._application(shape, above)
            return await self._with_contents(shape, outer, configured, path, application, above)
        except (BadRequest, InvalidManifest, NotAllowed, NotFound) as error:
            return replace(shape, problem=error.messages[0])

    async def _application(self, shape: SubmoduleShape, above: frozenset[str]) -> Application:
        if self._count > CONSOLE_SUBMODULES:
            raise BadRequest(f"A form shows {CONSOLE_SUBMODULES} submodules; give what others take through the API.")
        if not shape.locator:
            raise BadRequest("Which application it is depends on a parameter that has no value yet.")
        found = await applications.resolve_locator(
            self._work.connection, organization_id=self._organization_id, locator=shape.locator
        )
        if found is None:
            raise BadRequest(f"The organization has no application of the id or name {shape.locator[:200]!r}.")
        if found in above or len(shape.path) > SUBMODULE_LEVELS:
            raise BadRequest("It contains itself; a launch would never end.")
        return await self._work.lookup.application(found, Permission.READ)

    async def _with_contents(
        self,
        shape: SubmoduleShape,
        outer: CompiledManifest,
        configured: Mapping[str, Any],
        path: str,
        application: Application,
        above: frozenset[str],
    ) -> SubmoduleShape:
        known = await applications.list_revisions_by_application(self._work.connection, application_id=application.id)
        versions = [
            row.version
            for row in await applications.list_manifests_by_application(
                self._work.connection, application_id=application.id
            )
        ]
        asked, inherited, version = await self._chosen(shape.choice, application, known, versions)
        shape = replace(
            shape, application=application, revisions=known, versions=versions, choice=asked, version=version
        )
        if asked.revision_id is not None and asked.revision_id in self._shared:
            return replace(shape, shared_id=self._shared[asked.revision_id])
        if not self._work.lookup.allows(
            self._organization_id, Permission.CREATE_INSTANCE, permissions.application(application.id)
        ):
            shape = replace(shape, problem=f"You need the permission {Permission.CREATE_INSTANCE} for it too.")
        manifest = await self._work.manifest(application.id, version)
        pins = outer.configuration_pins.get(path, {})
        mapped = {inner_name(manifest, key): pin.parameter for key, pin in pins.items() if pin.parameter is not None}
        from_outer = {inner_name(manifest, key): value for key, value in configured.items() if key != LOCATOR}
        outside = {name: value for name, value in {**inherited, **from_outer}.items() if name in manifest.parameters}
        given = {name: value for name, value in asked.parameters.items() if name in manifest.parameters}
        inside = await self.inside(manifest, {**outside, **given}, shape.path, above | {application.id})
        return replace(shape, manifest=manifest, mapped=mapped, outside=outside, inside=inside)

    async def _chosen(
        self, choice: SubmoduleRequest, application: Application, known: list[NamedRow], versions: list[int]
    ) -> tuple[SubmoduleRequest, Mapping[str, Any], int]:
        """Return the requested parameters, those of the revision, and the version."""
        inherited: Mapping[str, Any] = {}
        version = application.latest_version
        if choice.revision_id is not None and choice.revision_id not in {row.id for row in known}:
            choice = replace(choice, revision_id=None)  # of the application that it was before
        if choice.revision_id is not None:
            revision = await self._work.lookup.revision(choice.revision_id, Permission.READ)
            inherited, version = msgspec.json.decode(revision.parameters), revision.version
        if choice.manifest_version not in versions:
            choice = replace(choice, manifest_version=None)
        return choice, inherited, choice.manifest_version or version


def _configured(manifest: CompiledManifest, parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the valid values of the pins; submitting the form reports errors."""
    lenient = replace(manifest, required_parameters=())
    for given in (parameters, {}):
        try:
            return configure(lenient, given)
        except BadRequest:
            continue
    return {}
