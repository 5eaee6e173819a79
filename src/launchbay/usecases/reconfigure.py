"""Reconfigurations of live instances (reference §4, configuration).

Everything is checked before anything is written, at every level of submodules. Then one transaction writes the new and
the former configuration of all levels, and one job applies it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec

from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff
from launchbay.errors import BadRequest, NotAllowed
from launchbay.manifest.configuration import Change, difference, effective_parameters
from launchbay.model.changes import Proposal
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import (
    FormerConfiguration,
    InstanceStatus,
    LinkKind,
    read_former_configuration,
    read_link,
    scales_in,
)
from launchbay.model.scalars import decode_json
from launchbay.planning.acceptance import StartedJob, environment_view
from launchbay.planning.plans import may_accept, plan_reconfigure
from launchbay.store import applications, environments, instances, jobs
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch import bind_services, find_by_name, lock_name, shared_instances, validate_runnable
from launchbay.usecases.launch_request import (
    ConfigurationRequest,
    ignored_in_configuration,
    merge_submodules,
    read_configuration_request,
    read_submodules,
    without_parameters,
)
from launchbay.usecases.launch_tree import (
    FormerLaunch,
    LaunchNode,
    TreePlanner,
    components_text,
    configured_as,
    former_of,
    new_in_submodules,
    write_children,
    write_links,
)
from launchbay.usecases.workflows import InstanceBusy, before_triggers, busy

LOCK_LOOKS = Backoff(0.01, 0.2)  # at an instance that another request has locked
LOCK_LOOKS_MOST = 20  # 3 s


@dataclass(frozen=True, slots=True)
class PlannedConfiguration:
    """The whole new configuration, with the view of the environment that every level gets."""

    record: InstanceRecord
    environment: Environment
    root: LaunchNode
    view: EnvironmentView


@dataclass(frozen=True, slots=True)
class WayBack:
    """The former configuration that a change leads back to, by its number."""

    number: int
    revision_id: str | None


@dataclass(frozen=True, slots=True)
class _Target:
    version: int
    revision_id: str | None
    parameters: Mapping[str, Any]
    submodules: Mapping[str, Any]


async def reconfigure(
    ctx: Context, instance_id: str, body: Mapping[str, Any], way_back: WayBack | None = None
) -> StartedJob:
    """Accept a new configuration and return the job with which it takes effect.

    With a `way_back`, the body is what leads there. Raises BadRequest for what makes no sense, NotAllowed for a
    submodule, and Conflict when a job is under way, or another request has locked the instance for seconds.
    """
    return await before_triggers(ctx, lambda: _reconfigure(ctx, instance_id, body, way_back))


async def _reconfigure(ctx: Context, instance_id: str, body: Mapping[str, Any], way_back: WayBack | None) -> StartedJob:
    for delay_s in islice(LOCK_LOOKS.delays(), LOCK_LOOKS_MOST):
        async with ctx.begin() as work:
            instances.announce_new.later(work.connection)  # a submodule may be new
            asked = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
            _refuse_submodule(asked)
            read_configuration_request(body)
            # Planning is expensive, and those who wait for the lock would keep connections from others.
            if asked.job_id is not None:
                raise await busy(work, asked)
            # What the plan starts from must not change until it is written: no job begins or ends while this is held.
            if await instances.lock_at_once(work.connection, instance_id=asked.id) is not None:
                return await _accept(work, asked, body, way_back)
        # Whoever has it may change nothing, or leave an instance that no longer is what it was.
        await asyncio.sleep(delay_s)
    raise InstanceBusy("Another request is changing the instance; try again.", instance_id=asked.id)


async def _accept(work: Work, asked: InstanceRecord, body: Mapping[str, Any], way_back: WayBack | None) -> StartedJob:
    """Accept the new configuration of an instance that is locked.

    `asked` is what it was before.
    """
    name = read_configuration_request(body).instance_name
    if name is not None:  # a launch may demand at the same time that this name is free
        await lock_name(work, asked.application_id, asked.environment_id, name)
    planned = await plan_configuration(work, asked.id, body, way_back)
    record, root = planned.record, planned.root
    plan = plan_reconfigure(record.status)
    refuse_destroyed(record)
    new_instances = sum(node.former is None for node in root.walk() if node is not root)
    await work.admit_job(record.organization_id, new_instances=new_instances)
    if record.job_id is not None or not may_accept(plan):
        raise await busy(work, record)
    job_id = await work.accept(record, plan, root.manifest, root.version)
    if job_id is None:
        raise await busy(work, record)
    await _write(work, planned)
    await work.audit(
        "reconfigure_instance" if way_back is None else "rollback_instance",
        record,
        before={"name": record.name, "version": record.version, "revisionId": record.revision_id},
        after={
            **({} if way_back is None else {"generation": way_back.number}),
            "name": root.name,
            "version": root.version,
            "revisionId": root.revision_id,
            "parameters": work.fingerprints(root.parameters),
        },
        proposed=proposal_of(planned),
    )
    work.warn([*root.ignored_parameters(), *ignored_in_configuration(body)])
    return StartedJob(record.id, job_id)


def refuse_destroyed(record: InstanceRecord) -> None:
    """Raise BadRequest for an instance that has ended."""
    if record.status is InstanceStatus.DESTROYED:
        raise BadRequest("The instance is destroyed; it cannot be reconfigured.", code="InstanceDestroyed")


async def plan_configuration(
    work: Work, instance_id: str, body: Mapping[str, Any], way_back: WayBack | None = None
) -> PlannedConfiguration:
    """Return the new configuration at all levels, having looked the instance up. Writes nothing.

    With a `way_back`, the body leads there, and the instance gets its revision, as a mere name.
    """
    record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
    _refuse_submodule(record)
    request = read_configuration_request(body)
    await _check_name(work, record, request.instance_name)
    target = await _target(work, record, request)
    if way_back is not None:
        target = replace(target, revision_id=way_back.revision_id)
    manifest = await work.manifest(record.application_id, target.version)
    former = await former_of(work, record.id, record.version, record.revision_id, record.parameters)
    environment = await work.lookup.environment(record.environment_id, None)
    view = environment_view(environment)
    root = LaunchNode(
        instance_id=record.id,
        application_id=record.application_id,
        name=request.instance_name or record.name,
        version=target.version,
        revision_id=target.revision_id,
        parameters=target.parameters,
        manifest=manifest,
        former=replace(former, owed=await _owed(work, record, former)),
    )
    shared = await shared_instances(work, environment.id)
    planner = TreePlanner(work, environment, shared, resets_parameters=True)
    as_recorded = request.revision_id is not None
    explicit = read_submodules(request.submodules)
    await planner.plan_tree(root, read_submodules(target.submodules), as_recorded=as_recorded, explicit=explicit)
    unmet = await bind_services(work, environment, root)
    await _refuse_cycles(work, record.organization_id, root)
    for node in root.walk():
        validate_runnable(node, view, work.app.runnable_types, unmet)
    return PlannedConfiguration(record, environment, root, view)


async def _owed(work: Work, record: InstanceRecord, present: FormerLaunch) -> dict[str, list[str]]:
    """Return pins by component that a failed reconfiguration changed, with workflows that haven't run.

    That is one that was held to a plan: what was refused is planned again (decision 0217).
    """
    text = await jobs.get_owing(work.connection, instance_id=record.id)
    if text is None:
        return {}
    former = read_former_configuration(text)
    scales = scales_in(record.state)
    links = {path: link for path in present.links if (link := present.link(path)) is not None}
    former_links = {path: read_link(target, kind, None) for path, (target, kind) in former.links.items()}
    manifest = await work.manifest(record.application_id, former.version)
    before = configured_as(manifest, former.parameters, former_links, scales, former.owed)
    manifest = await work.manifest(record.application_id, present.version)
    after = configured_as(manifest, present.parameters, links, scales)
    return {
        change.path: sorted(change.changed_pins)
        for change in difference(before, after)
        if change.change is Change.CHANGES
    }


def proposal_of(planned: PlannedConfiguration) -> Proposal:
    """Return what rules know of a new configuration."""
    root = planned.root
    parameters = effective_parameters(root.manifest, root.parameters)
    return Proposal(
        name=root.name,
        parameters=parameters,
        version=root.version,
        revision_id=root.revision_id,
        submodules=new_in_submodules(root),
    )


def _refuse_submodule(record: InstanceRecord) -> None:
    if record.parent_id is not None:
        raise NotAllowed(
            "The instance belongs to a submodule; reconfigure the instance that launched it.", code="SubmoduleInstance"
        )


async def _check_name(work: Work, record: InstanceRecord, name: str | None) -> None:
    """Raise BadRequest for a name that rules keep for another living instance.

    See decision 0147.
    """
    if name in {None, record.name} or (await work.expiry_rules(record)).if_exists in {None, "allow"}:
        return
    if await find_by_name(work, record.application_id, record.environment_id, name) is not None:
        raise BadRequest(
            f"{name!r} is the name of another living instance of the application in the environment.",
            "Choose another name: a rule (ifExists) demands it.",
            code="NameExists",
            field="instanceName",
        )


async def _target(work: Work, record: InstanceRecord, request: ConfigurationRequest) -> _Target:
    """Return what the request leads to (reference §4, configuration).

    What it gives wins over its revision.

    A revision brings its manifest and submodules, but no parameters: those not given go back to the defaults.
    """
    target = _Target(record.version, record.revision_id, request.parameters, request.submodules)
    if request.revision_id is not None:
        revision = await applications.get_revision(
            work.connection, revision_id=request.revision_id, application_id=record.application_id
        )
        if revision is None:
            raise BadRequest(
                f"The application has no revision {request.revision_id[:40]!r}. List its revisions.",
                code="UnknownRevision",
            )
        target = _Target(
            revision.version,
            revision.id,
            request.parameters,
            merge_submodules(without_parameters(decode_json(revision.submodules)), request.submodules),
        )
    if request.manifest_version is not None:
        version = request.manifest_version
        known = 0 < version < 2**31 and await applications.manifest_exists(
            work.connection, application_id=record.application_id, version=version
        )
        if not known:
            raise BadRequest(f"The application has no manifest version {version}.", code="InvalidManifestVersion")
        target = replace(target, version=version)
    return target


async def _refuse_cycles(work: Work, organization_id: str, root: LaunchNode) -> None:
    """Raise BadRequest for shared instances that would depend on each other.

    Over whatever others that be: their jobs would wait for each other.
    """
    by_path = {node.path: node.instance_id for node in root.walk()}
    for node in root.walk():
        new = {
            component: link.instance_id
            for component, link in node.links.items()
            if link.kind is LinkKind.SHARED and (node.former is None or node.former.link(component) != link)
        }
        if not new:
            continue
        around = [by_path[node.path[:length]] for length in range(len(node.path) + 1)]
        await environments.lock_links(work.connection, organization_id=organization_id)
        dependents = set(await environments.list_dependent_instances(work.connection, instance_ids=around))
        for component, instance_id in new.items():
            if instance_id in dependents:
                where = ".".join((*node.path, component))
                raise BadRequest(
                    f"The submodule {where} would be the instance {instance_id}, which is the outer instance or "
                    "depends on it. Name another revision.",
                    code="EndlessSubmodules",
                )


async def _write(work: Work, planned: PlannedConfiguration) -> None:
    relinked: list[LaunchNode] = []
    changed: list[LaunchNode] = []
    for node in planned.root.walk():
        if node.former is None:
            relinked.append(node)
        elif node is planned.root or _changes(node, planned):
            relinked.append(node)
            changed.append(node)
    await instances.change_configuration(
        work.connection,
        instance_ids=[node.instance_id for node in changed],
        versions=[node.version for node in changed],
        revision_ids=[node.revision_id for node in changed],
        parameters=[msgspec.json.encode(node.parameters).decode() for node in changed],
        parameter_origins=[msgspec.json.encode(node.origins).decode() for node in changed],
        components=[components_text(node) for node in changed],
        environment_view=planned.view.to_text(),
        names=[node.name for node in changed],
        befores=[_former_text(node) for node in changed],
    )
    write_children(work, planned.root, planned.environment, planned.view)
    write_links(work, relinked)


def _changes(node: LaunchNode, planned: PlannedConfiguration) -> bool:
    """Tell whether anything changes for a submodule's instance, or for those below it."""
    former = node.former
    assert former is not None
    same_links = former.links.keys() == node.links.keys() and all(
        link.is_same(former.link(path)) for path, link in node.links.items()
    )
    was = (former.version, former.revision_id, dict(former.parameters))
    same = was == (node.version, node.revision_id, dict(node.parameters))
    same_view = planned.record.environment_view == planned.view.to_text()
    below = any(child.former is None or _changes(child, planned) for child in node.children.values())
    return below or not (same and same_links and same_view)


def _former_text(node: LaunchNode) -> str:
    former = node.former
    assert former is not None
    links = {path: (row.target_id, row.kind) for path, row in former.links.items()}
    return FormerConfiguration(former.version, dict(former.parameters), links, owed=dict(former.owed)).to_text()
