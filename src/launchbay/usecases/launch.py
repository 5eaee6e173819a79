"""The launch of an application: checks, services and commit (language §8).

Services are chosen when a launch or a reconfiguration is accepted. The choice holds until the next reconfiguration.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict, InvalidManifest, NotFound
from launchbay.ids import new_id
from launchbay.manifest.bindings import provided_needs, unbound_requirements
from launchbay.manifest.configuration import configure, effective_parameters
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import component_at
from launchbay.manifest.services import (
    OfferedPin,
    ServiceOffer,
    ServiceOffers,
    choose_all,
    service_shapes,
    unmet_needs,
)
from launchbay.manifest.v1 import ACTIONS, RESULT
from launchbay.model.changes import NOTHING_PROPOSED, Proposal
from launchbay.model.environment import EnvironmentView
from launchbay.model.expiry import NEVER, ExpiryRules, IfExists, NoExpiryRules
from launchbay.model.instance import Binding, BoundService, InstanceStatus, Link, LinkKind
from launchbay.model.places import JobScope, Place
from launchbay.model.types import PinKind
from launchbay.planning.acceptance import StartedJob, environment_view
from launchbay.planning.places import check_places, places_of_launch, take_places
from launchbay.planning.plans import plan_launch
from launchbay.service_types.builtin import CATALOG
from launchbay.service_types.contract import PublishesSignals, ServiceType
from launchbay.service_types.registry import ServiceTypes
from launchbay.store import applications, environments, instances
from launchbay.store.applications import Application
from launchbay.store.database import NotTogether, foreign_key_violation_as
from launchbay.store.environments import Environment, OfferedInstance, OfferedService
from launchbay.store.instances import NamedInstance
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch_request import (
    LaunchRequest,
    ignored_in_submodules,
    read_launch_request,
    read_submodules,
    with_revision,
)
from launchbay.usecases.launch_tree import LaunchNode, TreePlanner, new_in_submodules, write_launch

_FINAL = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})
UnmetServices = dict[tuple[str, ...], list[str]]  # way of a node from the root → sentences


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """A decided launch with the environment that every level sees."""

    application: Application
    environment: Environment
    request: LaunchRequest
    root: LaunchNode
    view: EnvironmentView
    may_be_limited: bool  # settings of the organization limit how many jobs run at a time
    may_be_ruled: bool  # there may be a rule that a launch must ask
    destroy_after_ms: int | None  # None: it lives for good
    if_exists: IfExists  # what the request or the rules say


async def launch(
    ctx: Context, application_id: str, body: Mapping[str, Any], if_exists: IfExists | None = None
) -> StartedJob:
    """Launch an application and return the new instance and its job.

    The commit accepts the launch (promises 1 and 2).

    Fields that the body leaves out come from its revision. `if_exists` decides when the application already has a
    living instance of this name in the environment (decision 0147). None leaves that to the rules.

    Raises BadRequest for an invalid field or parameter, for an unknown version, revision or environment, and for a
    service or marker that the environment lacks.
    """
    with foreign_key_violation_as("The application or its environment was deleted by another request."):
        if if_exists in {None, "allow"}:
            with suppress(NotTogether):  # nothing was committed: one of the group was refused, or waited for a lock
                async with ctx.begin(shares_commit=True) as work:
                    return await _launch(work, application_id, body, if_exists, shares_commit=True)
        async with ctx.begin() as work:
            return await _launch(work, application_id, body, if_exists)


async def _launch(
    work: Work,
    application_id: str,
    body: Mapping[str, Any],
    if_exists: IfExists | None,
    *,
    shares_commit: bool = False,
) -> StartedJob:
    instances.announce_new.later(work.connection)
    planned = await plan_launch_tree(work, application_id, body, if_exists)
    application, request, root = planned.application, planned.request, planned.root
    if planned.if_exists != "allow" and request.instance_name is not None:
        if shares_commit:
            raise NotTogether  # who waits for a name holds a connection, and the group needs another one
        await lock_name(work, application.id, planned.environment.id, root.name)
        existing = await check_name(work, planned)
        if existing is not None:
            work.warn([nothing_launched(planned, existing)])
            return StartedJob(existing.id, existing.job_id, is_new=False)
    await work.decide(  # before anything is written, so that a launch that rules allow shares its commit
        "launch_application",
        application,
        kind="launch",
        environment_id=planned.environment.id,
        may_be_ruled=planned.may_be_ruled,
        at=permissions.instance(application.id, root.instance_id),
        proposed=proposal_of(planned) if planned.may_be_ruled else NOTHING_PROPOSED,
    )
    await work.admit_job(application.organization_id, new_instances=sum(1 for _ in root.walk()))
    needed = await _places(work, planned)
    started = write_launch(
        work, root, planned.environment, planned.view, planned.destroy_after_ms, request.labels, is_limited=bool(needed)
    )
    if needed:
        organization_id, plan = application.organization_id, plan_launch({}, InstanceStatus.REQUESTED)
        await check_places(work.connection, organization_id, needed)
        await take_places(work.connection, organization_id, started.job_id, plan, needed)
    await work.audit(
        "launch_application",
        application,
        after={
            "name": root.name,
            "version": root.version,
            "revisionId": request.revision_id,
            "environmentId": planned.environment.id,
            "destroyInterval": NEVER if planned.destroy_after_ms is None else planned.destroy_after_ms,
            "parameters": work.fingerprints(request.parameters),
            "submodules": work.fingerprints(request.submodules),
            "job": started.job_id,
            **({"labels": dict(request.labels)} if request.labels else {}),
        },
        at=permissions.instance(application.id, root.instance_id),
    )
    work.warn(ignored_by_launch(planned))
    return started


def proposal_of(planned: PlannedLaunch) -> Proposal:
    """Return what rules know of a launch."""
    return Proposal(
        name=planned.root.name,
        labels=planned.request.labels,
        parameters=effective_parameters(planned.root.manifest, planned.root.parameters),
        version=planned.root.version,
        revision_id=planned.request.revision_id,
        lifetime_ms=NEVER if planned.destroy_after_ms is None else planned.destroy_after_ms,
        submodules=new_in_submodules(planned.root),
    )


def ignored_by_launch(planned: PlannedLaunch) -> tuple[str, ...]:
    """Return a warning for each parameter or submodule's field without effect."""
    return (*planned.root.ignored_parameters(), *ignored_in_submodules(planned.request.submodules))


async def lock_name(work: Work, application_id: str, environment_id: str, name: str) -> None:
    """Wait until no other transaction gives this name.

    It is this one's until its end.
    """
    await instances.lock_name(work.connection, application_id=application_id, environment_id=environment_id, name=name)


async def find_by_name(work: Work, application_id: str, environment_id: str, name: str) -> NamedInstance | None:
    """Return the living instance that has the name there."""
    return await instances.find_by_name(
        work.connection, application_id=application_id, environment_id=environment_id, name=name
    )


async def check_name(work: Work, planned: PlannedLaunch) -> NamedInstance | None:
    """Return the living instance that a launch would return instead of a new one.

    Raises BadRequest if it would fail, and NotAllowed for an instance that the caller may not read.
    """
    if planned.if_exists == "allow" or planned.request.instance_name is None:
        return None
    found = await find_by_name(work, planned.application.id, planned.environment.id, planned.root.name)
    if found is None:
        return None
    if planned.if_exists == "return" and found.status != InstanceStatus.DESTROYING:
        await work.lookup.instance(found.id, Permission.READ)
        return found
    where = f"{planned.application.name!r} in the environment {planned.environment.name!r}"
    remedy = "Wait until it is deleted" if found.status == InstanceStatus.DESTROYING else "Destroy it"
    raise BadRequest(
        f"{planned.root.name!r} is the name of a living instance of {where}: {found.id}, {found.status}.",
        f"{remedy}, or choose another name.",
        code="NameExists",
        field="instanceName",
    )


def nothing_launched(planned: PlannedLaunch, existing: NamedInstance) -> str:
    """Return the warning of a launch that returns an instance."""
    who = f"{planned.root.name!r} is a living instance already: {existing.id}, {existing.status}"
    return f"{who}. Nothing is launched, and the instance stays as it is."


async def _places(work: Work, planned: PlannedLaunch) -> list[Place]:
    scope = JobScope(
        application_id=planned.application.id,
        application=planned.application.name,
        environment_id=planned.environment.id,
        environment=planned.environment.name,
        labels=planned.request.labels,
        application_limits=None,
        environment_limits=None,
    )
    plan = plan_launch({}, InstanceStatus.REQUESTED)
    return await places_of_launch(
        work.connection, planned.root.manifest, plan, scope, may_be_limited=planned.may_be_limited
    )


async def plan_launch_tree(
    work: Work, application_id: str, body: Mapping[str, Any], if_exists: IfExists | None = None
) -> PlannedLaunch:
    """Return what a launch brings at all levels, with everything looked up and checked.

    Writes nothing.
    """
    wanted = body.get("environmentId")
    application, environment, settings = await work.lookup.launch_target(
        application_id, wanted if isinstance(wanted, str) else None, Permission.CREATE_INSTANCE
    )
    given = read_launch_request(body)
    if if_exists in {"fail", "return"} and given.instance_name is None:
        raise BadRequest(
            f"ifExists={if_exists} compares names, and this launch has none.",
            "Send instanceName, or leave ifExists out.",
            code="InvalidField",
            field="instanceName",
        )
    request = await _with_revision(work, application, given)
    may_be_ruled = settings.may_be_ruled
    if environment is None or request.environment_id not in {None, environment.id}:
        may_be_ruled = True  # the settings are those of the other one
        environment = await _environment(work, application, request.environment_id)
    _require_environment(work, application, environment)
    version = await validate_version(work, application, request.version)
    manifest = await work.manifest(application.id, version)
    given, request = given.with_declared(manifest.parameters), request.with_declared(manifest.parameters)
    view = environment_view(environment)
    root = _root(application, request, given, version, manifest)
    # Shared instances are asked for by name only, so most launches need not know them.
    shared = await shared_instances(work, environment.id) if request.submodules else {}
    planner = TreePlanner(work, environment, shared)
    await planner.plan_tree(root, read_submodules(request.submodules), explicit=read_submodules(given.submodules))
    unmet = await bind_services(work, environment, root)
    for node in root.walk():
        validate_runnable(node, view, work.app.runnable_types, unmet)
    interval_ms = request.destroy_interval_ms
    rules: ExpiryRules = NoExpiryRules()
    if settings.has_lifetime_rules:
        rules = await work.app.ports.expiry_rules(work, application.organization_id, application.id, environment.id)
    return PlannedLaunch(
        application,
        environment,
        request,
        root,
        view,
        settings.may_be_limited,
        may_be_ruled or bool(root.children),  # the settings don't know the applications of submodules
        rules.at_launch(interval_ms),
        if_exists or rules.if_exists or "allow",
    )


def _root(
    application: Application, request: LaunchRequest, given: LaunchRequest, version: int, manifest: CompiledManifest
) -> LaunchNode:
    """Return the root. `request` is `given`, completed by its revision."""
    instance_id = new_id()
    return LaunchNode(
        instance_id=instance_id,
        application_id=application.id,
        name=request.instance_name or f"{application.name} {instance_id[-6:]}",
        version=version,
        revision_id=request.revision_id,
        parameters=request.parameters,
        manifest=manifest,
        origins=dict.fromkeys(request.parameters.keys() - given.parameters.keys(), "revision"),
    )


async def shared_instances(work: Work, environment_id: str) -> dict[str, str]:
    """Return the shared instances of the environment by revision (language §8)."""
    shared: dict[str, str] = {}
    for catalog in await instances.list_shared_catalogs(work.connection, environment_id=environment_id):
        for revision_id, instance_id in (msgspec.json.decode(catalog).get(CATALOG) or {}).items():
            shared.setdefault(revision_id, instance_id)
    return shared


async def _with_revision(work: Work, application: Application, request: LaunchRequest) -> LaunchRequest:
    """Fill what the request leaves open from its revision.

    Raises BadRequest for one that is not the application's.
    """
    if request.revision_id is None:
        return request
    revision = await applications.get_revision(
        work.connection, revision_id=request.revision_id, application_id=application.id
    )
    if revision is None:
        raise BadRequest(
            f"The application has no revision {request.revision_id[:40]!r}. List its revisions.",
            code="UnknownRevision",
        )
    return with_revision(request, revision)


async def _environment(work: Work, application: Application, environment_id: str | None) -> Environment:
    """Fetch the environment to launch in, the default one if none is named."""
    try:
        if environment_id is None:
            environment = await work.lookup.default_environment(application.organization_id)
        else:
            environment = await work.lookup.environment(environment_id, None)
    except NotFound:
        if environment_id is None:
            raise BadRequest(
                "The organization has no default environment; give environmentId, or make one the default.",
                code="NoEnvironment",
            ) from None
        # The addressed object is the application: 404 would say that it does not exist (reference §4, launch).
        raise BadRequest(
            f"environmentId: there is no environment {environment_id[:80]!r}.", code="UnknownEnvironment"
        ) from None
    if environment.organization_id != application.organization_id:
        raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
    return environment


def _require_environment(work: Work, application: Application, environment: Environment) -> None:
    """Raise NotAllowed unless the permission is for the application and the environment together."""
    work.lookup.require(
        application.organization_id,
        Permission.CREATE_INSTANCE,
        permissions.application(application.id),
        permissions.environment(environment.id),
    )


async def validate_version(work: Work, application: Application, version: int | None) -> int:
    """Return a manifest version of the application, by default the newest.

    Raises BadRequest for another number.
    """
    if version is None or version == application.latest_version:
        return application.latest_version
    known = 0 < version < 2**31 and await applications.manifest_exists(
        work.connection, application_id=application.id, version=version
    )
    if not known:
        raise BadRequest(
            f"The application has no manifest version {version}; the newest is {application.latest_version}.",
            code="InvalidManifestVersion",
            field="version",
        )
    return version


def validate_runnable(node: LaunchNode, view: EnvironmentView, runnable: Collection[str], unmet: UnmetServices) -> None:
    """Raise BadRequest with every reason why a node of a launch cannot run in the environment, or its parameters."""
    configure(node.manifest, node.parameters)
    where = f"Submodule {'.'.join(node.path)}: " if node.path else ""
    problems = [
        *unsupported_components(node.manifest, runnable),
        *unmet_needs(node.manifest, view),
        *unmet.get(node.path, []),
    ]
    if problems:
        raise BadRequest(*(f"{where}{problem}" for problem in problems), code="CannotLaunch")


def unsupported_components(manifest: CompiledManifest, runnable: Collection[str]) -> list[str]:
    """Return a sentence for each component of a type that nothing here runs."""
    return [
        f"Component {path!r}: components of type {component.type!r} are not supported."
        for path, component in manifest.components.items()
        if component.type not in runnable
    ]


async def bind_services(work: Work, environment: Environment, root: LaunchNode) -> UnmetServices:
    """Add to every node of a launch or reconfiguration the links to its services.

    Returns the conflicts: needs of required interfaces that nothing meets, and choices that nothing decides.
    """
    unmet = _unbound(root, frozenset())
    needing = [node for node in root.walk() if service_shapes(node.manifest)]
    if not needing:
        return unmet
    offered = await _offers(work, environment, root)
    for node in needing:
        former = {} if node.former is None else node.former.links
        former_ids = {path: row.target_id for path, row in former.items()}
        chosen, conflicts = choose_all(node.manifest, offered, former_ids)
        for path, match in chosen.items():
            node.links[path] = Link(match.offer.id, match.offer.kind, Binding(dict(match.pins)))
        if conflicts:
            unmet.setdefault(node.path, []).extend(conflicts)
    if not unmet:
        await _lock_services(work, needing)
    return unmet


def _unbound(node: LaunchNode, provided: Collection[str]) -> UnmetServices:
    """Return the required interfaces in a tree without a binding.

    `provided` are needs that the parent fills. An instance that already runs this version stays as it is.
    """
    unmet: UnmetServices = {}
    if node.former is None or node.former.version != node.version:
        problems = unbound_requirements(node.manifest, provided)
        if problems:
            unmet[node.path] = problems
    for path, child in node.children.items():
        component = component_at(node.manifest, path)
        assert component is not None  # the planner made the child of it
        unmet |= _unbound(child, provided_needs(node.manifest, component, provided))
    return unmet


async def _offers(work: Work, environment: Environment, root: LaunchNode) -> ServiceOffers:
    services = await environments.list_services(work.connection, environment_id=environment.id)
    instances = await environments.list_offered_instances(work.connection, environment_id=environment.id)
    existing = await _dependent_instances(work, environment, root) if instances else frozenset()
    manifests = await offered_manifests(work, instances)
    return service_offers(work.app.service_types, services, instances, manifests, existing)


async def offered_manifests(work: Work, instances: Sequence[OfferedInstance]) -> dict[str, CompiledManifest]:
    """Return the manifest of each offered instance, by its ID, that this server accepts."""
    found: dict[str, CompiledManifest] = {}
    for row in instances:
        # If a package is gone, the instance's own next job says so to its owner.
        with suppress(InvalidManifest):
            found[row.id] = await work.manifest(row.application_id, row.version)
    return found


def service_offers(
    types: ServiceTypes,
    services: Sequence[OfferedService],
    instances: Sequence[OfferedInstance],
    manifests: Mapping[str, CompiledManifest],
    existing: Collection[str],
) -> ServiceOffers:
    """Return what an environment offers.

    `existing` instances depend on the one that asks, which can't use them.
    """
    found = [offer for row in services if (offer := _service_offer(row, types.find(row.type_id)))]
    found += [_instance_offer(row, manifests[row.id], existing) for row in instances if row.id in manifests]
    return ServiceOffers(found)


def _service_offer(row: OfferedService, kind: ServiceType | None) -> ServiceOffer | None:
    if kind is None:
        return None
    interfaces = {
        interface: {
            # Commands have their bare names, by which the API runs them too.
            name: OfferedPin(pin.kind, name if pin.kind is PinKind.RECEIVE_COMMAND else f"{interface}.{name}")
            for name, pin in pins.items()
        }
        for interface, pins in kind.interfaces.items()
    }
    return ServiceOffer(row.id, f"the service {row.name!r} ({row.id})", LinkKind.SERVICE_INSTANCE, interfaces)


def _instance_offer(row: OfferedInstance, manifest: CompiledManifest, existing: Collection[str]) -> ServiceOffer:
    interfaces: dict[str, dict[str, OfferedPin]] = {}
    for pins, plain_interface in ((manifest.results, RESULT), (manifest.commands, ACTIONS), (manifest.needs, "")):
        for key, pin in pins.items():
            # The API's names of a workflow manifest are bare (language §2).
            interface, name = key.split(".", 1) if manifest.is_component_manifest else (plain_interface, key)
            interfaces.setdefault(interface, {})[name] = OfferedPin(pin.type.kind, key)
    unusable = None
    if InstanceStatus(row.status) in _FINAL:
        unusable = f"that is {row.status}"
    elif row.id in existing:
        unusable = "that depends on this instance itself"
    return ServiceOffer(row.id, f"the instance {row.name!r} ({row.id})", LinkKind.SERVICE, interfaces, unusable)


async def _dependent_instances(work: Work, environment: Environment, root: LaunchNode) -> frozenset[str]:
    """Return instances that would cause a deadlock as services here."""
    present = [node.instance_id for node in root.walk() if node.former is not None]
    if not present:
        return frozenset()  # nothing depends on instances that do not exist yet
    await environments.lock_links(work.connection, organization_id=environment.organization_id)
    return frozenset(await environments.list_dependent_instances(work.connection, instance_ids=present))


async def _lock_services(work: Work, nodes: list[LaunchNode]) -> None:
    """Store in the links what the nodes see of their services."""
    linked = [
        (node, path, link)
        for node in nodes
        for path, link in node.links.items()
        if link.kind is LinkKind.SERVICE_INSTANCE
    ]
    if not linked:
        return
    kept = await _lock_existing(work, sorted({link.instance_id for _, _, link in linked}))
    for node, path, link in linked:
        if link.instance_id not in kept:
            raise Conflict("A service of the environment was deleted by another request. Retry.")
        binding = Binding(link.binding.pins, kept[link.instance_id])
        node.links[path] = Link(link.instance_id, link.kind, binding)


async def _lock_existing(work: Work, service_ids: list[str]) -> Mapping[str, BoundService]:
    secrets: dict[str, dict[str, bytes]] = {}
    for sealed in await environments.list_sealed_parameters(work.connection, service_ids=service_ids):
        secrets.setdefault(sealed.service_id, {})[sealed.name] = sealed.sealed
    return {
        row.id: BoundService(
            name=row.name,
            type_id=row.type_id,
            parameters=(parameters := msgspec.json.decode(row.parameters)),
            secrets=secrets.get(row.id, {}),
            signals=published_signals(row.name, work.app.service_types.find(row.type_id), parameters),
        )
        for row in await environments.list_bound_services(work.connection, service_ids=service_ids)
    }


def published_signals(name: str, kind: ServiceType | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a service publishes.

    Raises BadRequest where its type, which may be a package's, breaks.
    """
    if not isinstance(kind, PublishesSignals):
        return {}
    try:
        signals: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(kind.signals(parameters)), type=dict[str, Any]
        )
    except Exception as error:
        raise BadRequest(
            f"The service {name!r} can't publish its signals: {type(error).__name__}: {error}.",
            "Fix its parameters, or the package that provides its type.",
            code="CannotLaunch",
        ) from error
    return signals
