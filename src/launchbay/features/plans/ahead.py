"""Instances that a change touches, with all that goes (decision 0206)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import msgspec

from launchbay.auth.permissions import Method, Permission
from launchbay.errors import BadRequest
from launchbay.manifest.check_rules import PLAN
from launchbay.manifest.configuration import Change, Configured, configure, difference
from launchbay.manifest.scaling import scaled
from launchbay.model.changes import Proposal
from launchbay.model.environment import EnvironmentView, read_environment_view
from launchbay.model.expiry import IfExists
from launchbay.model.instance import InstanceStatus, Link, LinkKind, read_former_configuration, read_link
from launchbay.model.scalars import json_decoder
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.runtime.state import InstanceState, existing_quantity
from launchbay.store import instances, jobs
from launchbay.store.applications import Application
from launchbay.store.instances import InstanceRecord, StatusRow
from launchbay.usecases.context import Work
from launchbay.usecases.launch import plan_launch_tree, proposal_of
from launchbay.usecases.launch_tree import LaunchNode
from launchbay.usecases.preview import preview_end, runs_of
from launchbay.usecases.reconfigure import plan_configuration
from launchbay.usecases.reconfigure import proposal_of as configured_proposal

PlanAct = Literal["launch", "reconfigure", "relaunch", "manage", "destroy"]
KeptAct = Literal[PlanAct, "adopt"]


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to plan.

    The act `adopt` finds what runs of what a launch would make. `body` is that of a launch or a reconfiguration.
    `token_id` is the access token that asks, if any; `method` is its
    kind of credential, of which an older server says nothing. `override` is why who adopts changes what is frozen.
    An adoption looks `only` at steps of some components.
    """

    act: KeptAct
    application_id: str | None = None
    instance_id: str | None = None
    body: dict[str, Any] = {}
    if_exists: IfExists | None = None
    force: bool = False
    token_id: str | None = None
    method: Method = Method.ENGINE
    is_agent: bool = False
    override: str | None = None
    only: list[str] = []

    def check(self) -> None:
        """Raise BadRequest for what is missing or unused."""
        is_new = self.act in {"launch", "adopt"}
        needed, other = ("applicationId", "instanceId") if is_new else ("instanceId", "applicationId")
        given = {"applicationId": self.application_id, "instanceId": self.instance_id}
        if given[needed] is None or given[other] is not None:
            raise BadRequest(f"The act {self.act} needs {needed}, and no {other}.", code="InvalidAct")


read_request = json_decoder(PlanRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """An instance as a plan sees it: what runs in which graph, in order.

    `removed` and `started` are components, `changed` those that stay with other pins, and `ends` are the submodules
    below that are destroyed. `checks` are workflows that only read, which a check runs. One that `is_launched` isn't
    there yet. With `is_destroyed`, all goes that is left.
    """

    instance_id: str
    organization_id: str
    environment_id: str
    view: EnvironmentView
    before: Configured
    after: Configured
    state: str
    links: Mapping[str, Link]
    removed: tuple[str, ...]
    started: tuple[str, ...]
    changed: Mapping[str, Collection[str]]
    ends: tuple[str, ...]
    stops: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]
    known: list[Any]  # inputs, whose secrets no text may have
    checks: tuple[tuple[str, str], ...] = ()
    path: tuple[str, ...] = ()
    is_launched: bool = False
    is_destroyed: bool = False


class Target(NamedTuple):
    """What is launched or changes, where, and the instances that this touches.

    Rules know what is `proposed`.
    """

    changed: Application | InstanceRecord
    environment_id: str
    instances: list[Ahead]
    proposed: Proposal


async def look_ahead(work: Work, organization_id: str, request: PlanRequest) -> Target:
    """Return what to look ahead at.

    Raises what the change itself would raise, and BadRequest for one in another organization.
    """
    target = await _target(work, request)
    if target.changed.organization_id != organization_id:
        what = "application" if request.act in {"launch", "adopt"} else "instance"
        raise BadRequest(f"The {what} belongs to another organization.", code="InvalidAct")
    return target


async def _target(work: Work, request: PlanRequest) -> Target:
    changed: Application | InstanceRecord
    if request.act in {"launch", "adopt"}:
        planned = await plan_launch_tree(work, request.application_id or "", request.body, request.if_exists)
        changed, environment, view, root = planned.application, planned.environment, planned.view, planned.root
        proposed = proposal_of(planned)
    elif request.act == "reconfigure":
        configured = await plan_configuration(work, request.instance_id or "", request.body)
        changed, environment, view, root = configured.record, configured.environment, configured.view, configured.root
        proposed = configured_proposal(configured)
    else:
        record = await work.lookup.instance(request.instance_id or "", Permission.EDIT_INSTANCE)
        if request.act in {"relaunch", "manage"}:
            ahead = await _relaunched(work, record)
            return Target(record, record.environment_id, ahead, Proposal(workflow=LAUNCH))
        preview = await preview_end(work, record, force=request.force)
        if preview.errors:
            raise BadRequest(*preview.errors)
        at = _Place(record.organization_id, record.environment_id, read_environment_view(record.environment_view))
        ends = [] if record.is_observed else await _end(work, at, record.id, ())
        return Target(record, record.environment_id, ends, Proposal(workflow=DESTROY))
    at = _Place(environment.organization_id, environment.id, view)
    found = [each for node in root.walk() for each in await _of_node(work, at, node)]
    return Target(changed, environment.id, found, proposed)


@dataclass(frozen=True, slots=True)
class _Place:
    organization_id: str
    environment_id: str
    view: EnvironmentView


async def _of_node(work: Work, at: _Place, node: LaunchNode) -> list[Ahead]:
    runs = await runs_of(work, node)
    standing = await instances.get_status(work.connection, instance_id=node.instance_id)
    found = Ahead(
        instance_id=node.instance_id,
        organization_id=at.organization_id,
        environment_id=at.environment_id,
        view=at.view,
        before=runs.before,
        after=runs.after,
        state="{}" if standing is None else standing.state,
        links=node.links,
        removed=runs.removed,
        started=runs.started,
        changed=runs.changed,
        ends=(),
        stops=runs.stops,
        others=runs.others,
        known=[node.parameters, *(() if node.former is None else (node.former.parameters,))],
        path=node.path,
        is_launched=standing is None,
    )
    return await _with_ends(work, at, found, {path: runs.before.links.get(path) for path in runs.removed})


async def _end(work: Work, at: _Place, instance_id: str, path: tuple[str, ...]) -> list[Ahead]:
    """Return what the destruction of an instance destroys, at every level."""
    standing = await instances.get_status(work.connection, instance_id=instance_id)
    if standing is None or standing.status == InstanceStatus.DESTROYED:
        return []
    rows = await instances.list_linked(work.connection, instance_id=instance_id)
    links = {row.component: read_link(row.target_id, row.kind, row.binding) for row in rows}
    parameters = msgspec.json.decode(standing.parameters)
    after = replace(await _configured(work, standing, standing.version, parameters), links=links)
    before, known = after, [parameters]
    if standing.before is not None:  # of a reconfiguration that never had its turn
        pending = read_former_configuration(standing.before)
        former = {name: read_link(target, kind, None) for name, (target, kind) in pending.links.items()}
        before = replace(await _configured(work, standing, pending.version, pending.parameters), links=former)
        known.append(pending.parameters)
    removed = tuple(each.path for each in difference(before, after) if each.change is Change.STOPS)
    found = Ahead(
        instance_id=instance_id,
        organization_id=at.organization_id,
        environment_id=at.environment_id,
        view=at.view,
        before=before,
        after=after,
        state=standing.state,
        links=links,
        removed=removed,
        started=(),
        changed={},
        ends=(),
        stops=_destroying(before, removed),
        others=_destroying(after, reversed(after.manifest.order)),
        known=known,
        path=path,
        is_destroyed=True,
    )
    below = {name: before.links.get(name) for name in removed}
    below |= {name: links.get(name) for name in reversed(after.manifest.order) if name not in below}
    return await _with_ends(work, at, found, below)


async def _relaunched(work: Work, record: InstanceRecord) -> list[Ahead]:
    """Return what another launch of an instance runs, also in its own submodules.

    Components that never were launched are.
    """
    ahead = await look_at_present(work, record)
    others = every_launch(ahead)
    running = {path for path, _ in ahead.others}
    found = [replace(ahead, others=others, started=tuple(path for path, _ in others if path not in running))]
    for path, link in ahead.links.items():
        if link.kind is LinkKind.OWN:
            child = await instances.read_record(work.connection, instance_id=link.instance_id)
            below = [] if child is None else await _relaunched(work, child)
            found += [replace(each, path=(path, *each.path)) for each in below]
    return found


def every_launch(ahead: Ahead) -> tuple[tuple[str, str], ...]:
    """Return what another launch runs, also of components that never were launched."""
    manifest = ahead.after.manifest
    return tuple((path, LAUNCH) for path in manifest.order if LAUNCH in manifest.components[path].workflows)


async def look_at_present(work: Work, record: InstanceRecord, parameters: Mapping[str, Any] | None = None) -> Ahead:
    """Return an instance whose launched components launch again, perhaps with other parameters.

    Its submodules aren't part of that: each is an instance.
    """
    given = msgspec.json.decode(record.parameters) if parameters is None else dict(parameters)
    compiled = await work.manifest(record.application_id, record.version)
    state = InstanceState.from_text(record.state)
    configured = Configured(*scaled(compiled, configure(compiled, given), existing_quantity(state)))
    rows = await instances.list_linked(work.connection, instance_id=record.id)
    links = {row.component: read_link(row.target_id, row.kind, row.binding) for row in rows}
    after = replace(configured, links=links)
    return Ahead(
        instance_id=record.id,
        organization_id=record.organization_id,
        environment_id=record.environment_id,
        view=read_environment_view(record.environment_view),
        before=after,
        after=after,
        state=record.state,
        links=links,
        removed=(),
        started=(),
        changed={},
        ends=(),
        stops=(),
        others=tuple(
            (path, LAUNCH)
            for path in after.manifest.order
            if state.is_launched(path) and LAUNCH in after.manifest.components[path].workflows
        ),
        known=[given, msgspec.json.decode(record.parameters)],
    )


async def look_for_drift(work: Work, record: InstanceRecord, parameters: Mapping[str, Any] | None = None) -> Ahead:
    """Return an instance as a check sees it.

    It has the launches and workflows that `checks` of its components name.
    """
    ahead = await look_at_present(work, record, parameters)
    components, state = ahead.after.manifest.components, InstanceState.from_text(record.state)
    plans = {path for path, each in components.items() if each.checks is None or PLAN in each.checks}
    return replace(
        ahead,
        others=tuple((path, workflow) for path, workflow in ahead.others if path in plans),
        checks=tuple(
            (path, name)
            for path in ahead.after.manifest.order
            if state.is_launched(path)
            for name in components[path].checks or ()
            if name != PLAN
        ),
    )


async def _configured(work: Work, standing: StatusRow, version: int, parameters: Mapping[str, Any]) -> Configured:
    compiled = await work.manifest(standing.application_id, version)
    present = existing_quantity(InstanceState.from_text(standing.state))
    return Configured(*scaled(compiled, configure(compiled, parameters), present))


def _destroying(configured: Configured, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((path, DESTROY) for path in paths if DESTROY in configured.manifest.components[path].workflows)


async def _with_ends(work: Work, at: _Place, ahead: Ahead, links: Mapping[str, Link | None]) -> list[Ahead]:
    """Return an instance with all own instances that its end destroys."""
    going = {path: link.instance_id for path, link in links.items() if link is not None and link.kind is LinkKind.OWN}
    spared = {link.instance_id for link in (*ahead.before.links.values(), *ahead.links.values())}
    orphans = await jobs.list_orphaned_instances(work.connection, instance_id=ahead.instance_id)
    going |= {orphan: orphan for orphan in orphans if orphan not in spared}
    below = {name: await _end(work, at, target, (*ahead.path, name)) for name, target in going.items()}
    ends = tuple(name for name, found in below.items() if found)
    return [replace(ahead, ends=ends), *(each for found in below.values() for each in found)]
