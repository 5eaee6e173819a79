"""A launch with its submodules at every level, decided before writing (language §7).

Everything that can be known at launch is checked here, at every level: applications, versions, permissions, parameters.
So the launch is accepted whole or refused whole (promise 8).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, NotFound
from launchbay.ids import new_id
from launchbay.limits import SUBMODULE_INSTANCES, SUBMODULE_LEVELS
from launchbay.manifest.configuration import Configured, configure, typed_parameters
from launchbay.manifest.graph import LOCATOR, SUBMODULE, CompiledManifest, Component
from launchbay.manifest.scaling import scaled, template_path
from launchbay.manifest.v1 import inner_name
from launchbay.model.changes import ProposedSubmodule
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import (
    InstanceEvent,
    InstanceStatus,
    Link,
    LinkKind,
    Scale,
    effective_scale,
    read_link,
    scales_in,
    transition,
)
from launchbay.model.scalars import decode_json
from launchbay.model.types import PinKind
from launchbay.planning.acceptance import StartedJob, components_document, job_columns
from launchbay.planning.arguments import ignored_parameters
from launchbay.planning.names import LAUNCH
from launchbay.planning.plans import plan_launch
from launchbay.store import applications, instances, jobs
from launchbay.store.applications import Application, Revision
from launchbay.store.environments import Environment
from launchbay.store.instances import LinkedRow
from launchbay.store.jobs import ClaimRow
from launchbay.usecases.context import Work
from launchbay.usecases.launch_request import (
    SubmoduleRequest,
    for_components,
    merge_submodules,
    read_submodules,
    without_parameters,
)

_BEGUN = transition(InstanceStatus.REQUESTED, InstanceEvent.LAUNCH_STARTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerLaunch:
    """What an instance that stays is like before a reconfiguration.

    `owed` is that of `FormerConfiguration`.
    """

    version: int
    revision_id: str | None
    parameters: Mapping[str, Any]
    links: Mapping[str, LinkedRow]
    family: Mapping[str, Mapping[str, LinkedRow]]  # links of the instances inside, by instance and component
    owed: Mapping[str, list[str]] = field(default_factory=dict)

    def link(self, path: str) -> Link | None:
        row = self.links.get(path)
        return None if row is None else read_link(row.target_id, row.kind, row.binding)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNode:
    """One instance to be: the root, or a submodule's.

    `path` is its way from the root, component by component.
    """

    instance_id: str
    application_id: str
    name: str
    version: int
    revision_id: str | None
    parameters: Mapping[str, Any]
    manifest: CompiledManifest
    origins: Mapping[str, str] = field(default_factory=dict)  # of parameters that the request doesn't give
    path: tuple[str, ...] = ()
    former: FormerLaunch | None = None  # of an instance that is there already and stays
    links: dict[str, Link] = field(default_factory=dict)
    children: "dict[str, LaunchNode]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Decide about numbers that remember their text, now that their types are known."""
        object.__setattr__(self, "parameters", typed_parameters(self.manifest, self.parameters))

    def ignored_parameters(self) -> tuple[str, ...]:
        """Return a warning for each parameter without effect; submodules refuse such ones."""
        return ignored_parameters(self.manifest, LAUNCH, self.parameters)

    def walk(self) -> "Iterator[LaunchNode]":
        """Yield this node and all below it, parents before their children."""
        yield self
        for child in self.children.values():
            yield from child.walk()


def new_in_submodules(root: LaunchNode) -> tuple[ProposedSubmodule, ...]:
    """Return the submodules below a node that are new, or get another version."""
    return tuple(
        ProposedSubmodule("/".join(node.path), node.application_id, node.version)
        for node in root.walk()
        if node is not root and (node.former is None or node.former.version != node.version)
    )


class TreePlanner:
    """Plans the submodules of a launch or reconfiguration.

    `shared` maps revision ids to running instances (§8).

    With `resets_parameters`, as in a reconfiguration, revisions bring no parameters.
    """

    def __init__(
        self, work: Work, environment: Environment, shared: Mapping[str, str], *, resets_parameters: bool = False
    ) -> None:
        self._work = work
        self._resets_parameters = resets_parameters
        self._environment = environment
        self._shared = shared
        self._count = 0
        # A launch may name the same application hundreds of times, and looks it up once.
        self._ids: dict[str, str] = {}  # by locator
        self._applications: dict[str, Application] = {}  # by id

    async def plan_tree(
        self,
        node: LaunchNode,
        requests: Mapping[str, SubmoduleRequest],
        *,
        as_recorded: bool = False,
        explicit: Mapping[str, SubmoduleRequest] | None = None,
    ) -> None:
        """Add to a node the links and nodes of its submodules, at every level.

        Raises BadRequest, NotAllowed.

        With `as_recorded`, the requests are those of a revision: a submodule without a revision there is an own one.
        Otherwise it stays what it is. `explicit` are the requests without those of a revision, if they differ.
        """
        explicit = requests if explicit is None else explicit
        await self._plan_node(node, requests, explicit, {node.application_id}, as_recorded=as_recorded)

    async def _plan_node(
        self,
        node: LaunchNode,
        requests: Mapping[str, SubmoduleRequest],
        explicit: Mapping[str, SubmoduleRequest],
        above: set[str],
        *,
        as_recorded: bool,
    ) -> None:
        where = "/".join(("submodules", *node.path))
        asked = for_components(node.manifest, requests, where)
        given = for_components(node.manifest, explicit, where)
        scales = await self._scales(node)
        manifest, configuration = scaled(
            node.manifest,
            configure(node.manifest, node.parameters),
            lambda path, configured: effective_scale(scales.get(path), configured).quantity,
        )
        for path, component in manifest.components.items():
            if component.type != SUBMODULE:
                continue
            request = asked.get(path) or asked.get(template_path(path), SubmoduleRequest())
            if request.revision_id is not None and request.revision_id in self._shared:
                node.links[path] = Link(self._shared[request.revision_id], LinkKind.SHARED)
                continue
            configured = configuration.get(path, {})
            stays = None if node.former is None else node.former.link(path)
            if as_recorded and request.revision_id is None:
                request = replace(request, is_own=True)
            is_open = request.revision_id is None and not request.is_own
            if stays is not None and is_open and await self._remains_shared(node, path, configured):
                node.links[path] = stays
                continue
            own = given.get(path) or given.get(template_path(path), SubmoduleRequest())
            child, inside = await self._child(node, component, configured, request, own.parameters, above)
            node.children[path] = child
            node.links[path] = Link(child.instance_id, LinkKind.OWN)
            # A submodule's revision brings those inside as it records them, too.
            recorded = as_recorded or request.revision_id is not None
            explicit_inside = read_submodules(own.submodules, "/".join(("submodules", *child.path)))
            around = above | {child.application_id}
            await self._plan_node(child, inside, explicit_inside, around, as_recorded=recorded)

    async def _scales(self, node: LaunchNode) -> Mapping[str, Scale]:
        """Return how far the Scalers of an instance are that stays, by their paths."""
        if node.former is None or not any(component.scaler for component in node.manifest.components.values()):
            return {}
        standing = await instances.get_status(self._work.connection, instance_id=node.instance_id)
        return {} if standing is None else scales_in(standing.state)

    async def _remains_shared(self, node: LaunchNode, path: str, configured: Mapping[str, Any]) -> bool:
        """Return whether a component keeps its shared instance: another locator replaces it (§7)."""
        row = None if node.former is None else node.former.links.get(path)
        if row is None or row.kind != LinkKind.SHARED:
            return False
        return row.application_id == await self._application(configured, ".".join((*node.path, path)))

    async def _child(
        self,
        node: LaunchNode,
        component: Component,
        configured: Mapping[str, Any],
        request: SubmoduleRequest,
        explicit: Collection[str],
        above: set[str],
    ) -> tuple[LaunchNode, Mapping[str, SubmoduleRequest]]:
        """Return the submodule's instance, and what is asked of the submodules inside it.

        `explicit` are the names of the parameters that the request itself gives, and no revision.
        """
        where = ".".join((*node.path, component.path))
        application_id = await self._application(configured, where)
        if application_id in above or len(node.path) >= SUBMODULE_LEVELS:
            raise BadRequest(f"The submodule {where} contains itself; it would never end.", code="EndlessSubmodules")
        self._count += 1
        if self._count > SUBMODULE_INSTANCES:
            raise BadRequest(
                f"The launch would create more than {SUBMODULE_INSTANCES} submodules.", code="TooManySubmodules"
            )
        application = self._applications.get(application_id)
        if application is None:
            application = await self._work.lookup.application(
                application_id, Permission.CREATE_INSTANCE, permissions.environment(self._environment.id)
            )
            self._applications[application_id] = application
        present = self._present(node, component.path, application.id)
        version = application.latest_version if present is None else present.version
        inherited: Mapping[str, Any] = {}
        inside = request.submodules
        if request.revision_id is not None:
            revision = await self._revision(request.revision_id, application.id, where)
            version = revision.version
            recorded = decode_json(revision.submodules)
            if self._resets_parameters:
                recorded = without_parameters(recorded)
            else:
                inherited = decode_json(revision.parameters)
            inside = merge_submodules(recorded, inside)
        if request.manifest_version is not None:
            version = request.manifest_version
            known = 0 < version <= application.latest_version and await applications.manifest_exists(
                self._work.connection, application_id=application.id, version=version
            )
            if not known:
                newest = application.latest_version
                raise BadRequest(
                    f"The submodule {where} has no manifest version {version}; the newest is {newest}.",
                    code="InvalidManifestVersion",
                )
        manifest = await self._work.manifest(application.id, version)
        given = self._given(node, component, manifest, configured, request)
        parameters = {name: value for name, value in {**inherited, **given}.items() if name in manifest.parameters}
        asked = [inner_name(manifest, name) for name in request.parameters]
        unknown = [name for name in asked if name not in manifest.parameters]
        if unknown:
            raise BadRequest(f"The submodule {where} has no parameter {', '.join(unknown)}.", code="InvalidParameters")
        named = {inner_name(manifest, name) for name in explicit}
        origins = {
            name: "parent" if name in given and name not in asked else "revision"
            for name in parameters
            if name not in named
        }
        try:
            configure(manifest, parameters)
        except BadRequest as error:
            raise BadRequest(*(f"Submodule {where}: {text}" for text in error.messages), code=error.code) from error
        row = None if present is None or node.former is None else node.former.links[component.path]
        child = LaunchNode(
            instance_id=new_id() if row is None else row.target_id,
            application_id=application.id,
            name=f"{node.name}.{component.path}" if row is None or row.name is None else row.name,
            version=version,
            revision_id=request.revision_id or (None if present is None or request.is_own else present.revision_id),
            parameters=parameters,
            manifest=manifest,
            origins=origins,
            path=(*node.path, component.path),
            former=present,
        )
        return child, read_submodules(inside, "/".join(("submodules", *child.path)))

    def _present(self, node: LaunchNode, path: str, application_id: str) -> FormerLaunch | None:
        """Return the current state of a submodule's instance that stays."""
        former = node.former
        row = None if former is None else former.links.get(path)
        if former is None or row is None or row.kind != LinkKind.OWN or row.application_id != application_id:
            return None
        if row.status == InstanceStatus.DESTROYED:
            return None
        return FormerLaunch(
            version=row.version or 0,
            revision_id=row.revision_id,
            parameters=msgspec.json.decode(row.parameters or "{}"),
            links=former.family.get(row.target_id, {}),
            family=former.family,
        )

    def _given(
        self,
        node: LaunchNode,
        component: Component,
        manifest: CompiledManifest,
        configured: Mapping[str, Any],
        request: SubmoduleRequest,
    ) -> dict[str, Any]:
        """Return the submodule's parameters, from the outer module and the request.

        `manifest` is the submodule's, and the names are its API's.
        """
        pins = node.manifest.configuration_pins.get(template_path(component.path), {})
        mapped = {inner_name(manifest, key): pin.parameter for key, pin in pins.items() if pin.parameter is not None}
        asked = {inner_name(manifest, name): value for name, value in request.parameters.items()}
        for name in asked:
            if name in mapped:
                where = ".".join((*node.path, component.path))
                raise BadRequest(
                    f"The parameter {name} of the submodule {where} is mapped to {mapped[name]} of the outer "
                    f"module; give {mapped[name]} instead.",
                    code="MappedParameter",
                )
        declared = {key for key, pin in component.pins.items() if pin.type.kind is PinKind.CONFIGURATION}
        from_outside = {
            inner_name(manifest, key): value for key, value in configured.items() if key in declared and key != LOCATOR
        }
        return {**from_outside, **asked}

    async def _application(self, configured: Mapping[str, Any], where: str) -> str:
        """Return the application of a submodule, by its locator."""
        locator = configured.get(LOCATOR)
        if not isinstance(locator, str) or not locator:
            raise BadRequest(f"The submodule {where} has no {LOCATOR}; name an application.", code="UnknownSubmodule")
        if locator not in self._ids:
            found = await applications.resolve_locator(
                self._work.connection, organization_id=self._environment.organization_id, locator=locator
            )
            if found is None:
                raise BadRequest(
                    f"Submodule {where}: the organization has no application with the ID or name {locator!r}.",
                    code="UnknownSubmodule",
                )
            self._ids[locator] = found
        return self._ids[locator]

    async def _revision(self, revision_id: str, application_id: str, where: str) -> Revision:
        try:
            revision = await self._work.lookup.revision(revision_id, Permission.READ)
        except NotFound:
            revision = None
        if revision is None or revision.application_id != application_id:
            raise BadRequest(
                f"The submodule {where} has no revision {revision_id!r}, and no shared instance is mapped to it.",
                code="UnknownRevision",
            )
        return revision


async def former_of(
    work: Work, instance_id: str, version: int, revision_id: str | None, parameters: str
) -> FormerLaunch:
    """Return what an instance, with its own submodules, is like before a reconfiguration."""
    family: dict[str, dict[str, LinkedRow]] = {}
    for row in await instances.list_linked_family(work.connection, instance_id=instance_id):
        family.setdefault(row.instance_id, {})[row.component] = LinkedRow(*row[1:])
    return FormerLaunch(
        version=version,
        revision_id=revision_id,
        parameters=msgspec.json.decode(parameters),
        links=family.get(instance_id, {}),
        family=family,
    )


def configured_as(
    manifest: CompiledManifest,
    parameters: Mapping[str, Any],
    links: Mapping[str, Link],
    scales: Mapping[str, Scale],
    owed: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Configured:
    """Return one side of a comparison, with the members of its Scalers."""
    configuration = configure(manifest, parameters)

    def quantity(path: str, configured: int) -> int:
        return effective_scale(scales.get(path), configured).quantity

    return Configured(*scaled(manifest, configuration, quantity), links, frozenset(parameters), owed=owed)


def write_launch(
    work: Work,
    root: LaunchNode,
    environment: Environment,
    view: EnvironmentView,
    destroy_after_ms: int | None,
    labels: Mapping[str, str],
    *,
    is_limited: bool,
) -> StartedJob:
    """Write the root with its job and expiry, and its submodules.

    Returns the root's job. A tree of any size takes three statements, which go with the commit. A job that is limited
    runs once it has its places.
    """
    job_id, dispatch = new_id(), work.app.dispatch
    plan = work.seeded(plan_launch({}, InstanceStatus.REQUESTED))
    columns = job_columns(plan, root.manifest, root.version, work.origin())
    parameters, environment_view = msgspec.json.encode(root.parameters).decode(), view.to_text()
    worker_id = dispatch.hold(work.connection, environment.organization_id, job_id, here=not is_limited)
    begins = worker_id is not None and dispatch.begin(
        job_id,
        ClaimRow.of_launch(
            plan=columns["plan"],
            steps=columns["steps"],
            instance_id=root.instance_id,
            organization_id=environment.organization_id,
            application_id=root.application_id,
            environment_id=environment.id,
            version=root.version,
            parameters=parameters,
            environment_view=environment_view,
            links=root.links,
        ),
    )
    jobs.accept_launch.later(
        work.connection,
        job_id=job_id,
        worker_id=worker_id,
        begins=begins,
        is_limited=is_limited,
        schedule_id=new_id(),
        organization_id=environment.organization_id,
        environment_id=environment.id,
        owner_id=work.actor.user_id,
        status=_BEGUN if begins else InstanceStatus.REQUESTED,
        environment_view=environment_view,
        instance_id=root.instance_id,
        application_id=root.application_id,
        revision_id=root.revision_id,
        version=root.version,
        name=root.name,
        parameters=parameters,
        parameter_origins=msgspec.json.encode(root.origins).decode(),
        components=components_text(root),
        destroy_after_ms=destroy_after_ms,
        labels=msgspec.json.encode(labels).decode(),
        **columns,
    )
    write_children(work, root, environment, view)
    write_links(work, root.walk())
    return StartedJob(root.instance_id, job_id)


def write_children(work: Work, root: LaunchNode, environment: Environment, view: EnvironmentView) -> None:
    """Write the submodules of a tree that don't exist yet, without their links."""
    new = [(parent, child) for parent in root.walk() for child in parent.children.values() if child.former is None]
    if new:
        instances.insert_children.later(
            work.connection,
            organization_id=environment.organization_id,
            environment_id=environment.id,
            owner_id=work.actor.user_id,
            status=InstanceStatus.REQUESTED,
            environment_view=view.to_text(),
            instance_ids=[child.instance_id for _, child in new],
            application_ids=[child.application_id for _, child in new],
            revision_ids=[child.revision_id for _, child in new],
            versions=[child.version for _, child in new],
            names=[child.name for _, child in new],
            parameters=[msgspec.json.encode(child.parameters).decode() for _, child in new],
            parameter_origins=[msgspec.json.encode(child.origins).decode() for _, child in new],
            components=[components_text(child) for _, child in new],
            parent_ids=[parent.instance_id for parent, _ in new],
        )


def write_links(work: Work, nodes: Iterable[LaunchNode]) -> None:
    """Write where the components of the nodes lead."""
    links = [(node.instance_id, path, link) for node in nodes for path, link in node.links.items()]
    if links:
        instances.insert_links.later(
            work.connection,
            instance_ids=[instance_id for instance_id, _, _ in links],
            components=[path for _, path, _ in links],
            targets=[link.instance_id for _, _, link in links],
            kinds=[link.kind.value for _, _, link in links],
            bindings=[link.binding_text() for _, _, link in links],
        )


def components_text(node: LaunchNode) -> str:
    return components_document(node.manifest, node.links)
