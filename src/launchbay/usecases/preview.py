"""Previews of launches and reconfigurations (conformance.md, "Beyond the reference")."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.concurrency import computed
from launchbay.errors import BadRequest
from launchbay.manifest.configuration import (
    STAYS,
    Change,
    ComponentChange,
    Configured,
    difference,
    restarting,
    triggered,
)
from launchbay.manifest.graph import APPROVAL, NOTHING_COMPILED, CompiledManifest, Step
from launchbay.model.changes import Allowed, Proposal, Refusal
from launchbay.model.code_change import CodeChange
from launchbay.model.expiry import IfExists
from launchbay.model.instance import (
    InstanceStatus,
    Link,
    LinkKind,
    Scale,
    read_former_configuration,
    read_link,
    scales_in,
)
from launchbay.model.job import workflow_path
from launchbay.model.redaction import Redactor
from launchbay.model.values import size_of
from launchbay.planning.acceptance import FORGETS
from launchbay.planning.names import DESTROY, LAUNCH, in_use
from launchbay.store import instances, jobs
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch import check_name, ignored_by_launch, nothing_launched, plan_launch_tree, proposal_of
from launchbay.usecases.launch_request import ignored_in_configuration
from launchbay.usecases.launch_tree import LaunchNode, configured_as
from launchbay.usecases.manifests import changed_code, manifest_text
from launchbay.usecases.reconfigure import plan_configuration
from launchbay.usecases.reconfigure import proposal_of as configured_proposal
from launchbay.usecases.submodule_shapes import same_configuration
from launchbay.usecases.workflows import describe_dependents, foresee_grace


class ParameterChange(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration pin whose value would change; `reset` says that it goes back to its default."""

    name: str
    before: Any = msgspec.field(name="from")
    after: Any = msgspec.field(name="to")
    reset: bool


class PreviewedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a component; `path` leads through the submodules.

    `link` says which kind of instance or service is behind it (`own`, `shared`, `service`, `service-instance`): the
    former one if it stops, otherwise the new one. The ID is that of an instance that exists. `code` says what differs
    in workflows and other parts of a component that stays: it applies from the next run on.
    """

    path: str
    change: str
    parameters: list[ParameterChange]
    code: CodeChange | None = None
    link: str | None = None
    instance_id: str | None = msgspec.field(default=None, name="instanceId")
    type: str | None = None


class _Part(msgspec.Struct, frozen=True):
    """What a preview needs to know of the state of a component."""

    launched: bool = False


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """How long the last successful launches of the application took.

    `usualDurationMs` is their median. Nine of ten took at most `slowDurationMs`.
    """

    launches: int
    usual_ms: int = msgspec.field(name="usualDurationMs")
    slow_ms: int = msgspec.field(name="slowDurationMs")


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen. With errors nothing would: they are the reasons for a refusal.

    `steps` are those of the workflows, and `approvals` how many of them ask people. Steps inside a step aren't counted.
    Of a launch, `destroyAfterMs` says how long the instance lives; null means without an end. `refused` says that a
    freeze, a policy or a rule refuses it now, as the first warning explains. It may still be proposed, or wait.
    """

    components: list[PreviewedComponent] = []
    workflows: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    steps: int = 0
    approvals: int = 0
    estimate: Estimate | None = None
    destroy_after_ms: int | None = msgspec.field(default=None, name="destroyAfterMs")
    refused: bool = False

    def answered(self, answer: Refusal | Allowed) -> "Preview":
        """Return it with what the rules say."""
        if isinstance(answer, Refusal):
            warnings = [f"This would be refused now. {' '.join(answer.sentences)}", *self.warnings]
        else:
            warnings = list(dict.fromkeys([*answer.warnings, *self.warnings]))
        return msgspec.structs.replace(self, warnings=warnings, refused=isinstance(answer, Refusal))


async def preview_launch(
    ctx: Context, application_id: str, body: Mapping[str, Any], if_exists: IfExists | None = None
) -> Preview:
    """Return what a launch would do, and how long that usually takes."""
    async with ctx.begin() as work:
        try:
            planned = await plan_launch_tree(work, application_id, body, if_exists)
            existing = await check_name(work, planned)
        except BadRequest as error:
            return Preview(errors=list(error.messages))
        if existing is not None:
            return Preview(warnings=[nothing_launched(planned, existing)])
        preview = await preview_tree(work, planned.root, planned.environment.organization_id)
        estimate = await _estimate(work, application_id)
        preview = msgspec.structs.replace(
            preview,
            warnings=list(dict.fromkeys([*preview.warnings, *ignored_by_launch(planned)])),
            estimate=estimate,
            destroy_after_ms=planned.destroy_after_ms,
        )
        if planned.may_be_ruled:
            answer = await work.foresee(
                "launch_application",
                planned.application,
                kind="launch",
                environment_id=planned.environment.id,
                proposed=proposal_of(planned),
            )
            return preview.answered(answer)
        return preview


async def estimate_launch(ctx: Context, application_id: str) -> Estimate | None:
    """Return how long launches usually take; None without a successful one."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        return await _estimate(work, application.id)


async def _estimate(work: Work, application_id: str) -> Estimate | None:
    durations_ms = await jobs.list_launch_durations_ms(
        work.connection, application_id=application_id, instances=limits.USUAL_INSTANCES, runs=limits.USUAL_RUNS
    )
    if not durations_ms:
        return None
    ordered = sorted(durations_ms)
    slow = ordered[(len(ordered) * 9 - 1) // 10]
    return Estimate(launches=len(ordered), usual_ms=int(median(ordered)), slow_ms=slow)


async def preview_configuration(ctx: Context, instance_id: str, body: Mapping[str, Any]) -> Preview:
    """Return what a reconfiguration with this body would do."""
    async with ctx.begin() as work:
        try:
            planned = await plan_configuration(work, instance_id, body)
        except BadRequest as error:
            return Preview(errors=list(error.messages))
        preview = await preview_tree(work, planned.root, planned.environment.organization_id)
        proposed = configured_proposal(planned)
        answer = await work.foresee("reconfigure_instance", planned.record, kind="reconfigure", proposed=proposed)
        warnings = [*preview.warnings, *ignored_in_configuration(body)]
        return msgspec.structs.replace(preview, warnings=warnings).answered(answer)


async def preview_version(ctx: Context, instance_id: str, version: int | None) -> Preview:
    """Return what another manifest version would do if all else stays.

    The default is the newest one.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if version is None:
            application = await work.lookup.application(record.application_id, Permission.READ)
            version = application.latest_version
        body = await same_configuration(work, record, version=version, parameters={})
        with ctx.app.database.joined(work.connection):
            return await preview_configuration(ctx, record.id, body)


async def preview_destroy(ctx: Context, instance_id: str, *, force: bool) -> Preview:
    """Return what `destroy` would do, and that it would wait.

    Users are errors, with `force` warnings. So is a destroy that waits already, unless one is forced.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        found = await preview_end(work, record, force=force)
        if found.errors:
            return found
        answer = await work.foresee("run_workflow", record, kind="destroy", proposed=Proposal(workflow=DESTROY))
        found = found.answered(answer)
        if force:
            return found
        refusal, wait = await foresee_grace(work, record)
        if refusal is not None:
            return Preview(errors=[refusal])
        return found if wait is None else msgspec.structs.replace(found, warnings=[wait, *found.warnings])


async def preview_end(work: Work, record: InstanceRecord, *, force: bool) -> Preview:
    """Return what the destruction of an instance would do."""
    if record.status is InstanceStatus.DESTROYED:
        return Preview(errors=[f"The instance {record.name!r} is destroyed."])
    users = await describe_dependents(work, record)
    messages = [in_use(record.name, users)] if users else []
    if messages and not force:
        return Preview(errors=messages)
    if record.is_observed:
        return Preview(warnings=[*messages, FORGETS])
    components, workflows, steps = await _below(work, Link(record.id, LinkKind.OWN), ())
    return Preview(
        components=components, workflows=workflows, warnings=messages, steps=len(steps), approvals=_approvals(steps)
    )


async def preview_tree(work: Work, root: LaunchNode, shows_sources_in: str | None = None) -> Preview:
    """Return what a planned launch or reconfiguration would do.

    With an organization's ID, steps that differ have the source lines that the caller may read.
    """
    components: list[PreviewedComponent] = []
    workflows: list[str] = []
    warnings: list[str] = []
    steps: list[Step] = []
    for node in root.walk():
        before, launched, scales, version = await _before(work, node)
        after = configured_as(node.manifest, node.parameters, node.links, scales)
        changes = restarting(difference(before, after), launched.__contains__)
        code: Mapping[str, CodeChange] = {}
        if version != node.version:
            application = permissions.application(node.application_id)
            text = None
            if shows_sources_in and work.lookup.allows(shows_sources_in, Permission.READ, application):
                text = await manifest_text(work, node.application_id, node.version)
            code = await changed_code(work, node.application_id, version, before.manifest, after.manifest, text)
        given = [node.parameters, *(() if node.former is None else (node.former.parameters,))]
        described = partial(_components, node, before, after, changes, given, code)
        components += await computed(size_of(given, limits.INLINE_BYTES), described)
        for manifest, component, workflow in _runs(before, after, changes):
            workflows.append(".".join((*node.path, workflow_path(component, workflow))))
            steps += manifest.components[component].workflows[workflow].steps
        for change in changes:
            if change.change is Change.STOPS:
                below, runs, inside = await _below(work, before.links.get(change.path), (*node.path, change.path))
                components += below
                workflows += runs
                steps += inside
        if before.owed:
            warnings.append(_OWED)
        warnings += [_message_for(node, finding.message) for finding in node.manifest.warnings]
    warnings += root.ignored_parameters()
    return Preview(
        components=components,
        workflows=workflows,
        warnings=list(dict.fromkeys(warnings)),
        steps=len(steps),
        approvals=_approvals(steps),
    )


_OWED = "The last reconfiguration failed. What its changes trigger runs now, too."


def _approvals(steps: Iterable[Step]) -> int:
    return sum(step.action == APPROVAL for step in steps)


class Runs(NamedTuple):
    """The workflows that a planned launch or reconfiguration of one instance runs.

    `stops` are those of components that go, in `before`; `others` are in `after`. Both are pairs of component and name.
    `removed` and `started` are components, with and without workflows, and `changed` those that stay with other pins.
    """

    before: Configured
    after: Configured
    removed: tuple[str, ...]
    started: tuple[str, ...]
    changed: Mapping[str, Collection[str]]
    stops: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]


async def runs_of(work: Work, node: LaunchNode) -> Runs:
    """Return what would run on the instance of a node."""
    before, launched, scales, _ = await _before(work, node)
    after = configured_as(node.manifest, node.parameters, node.links, scales)
    changes = restarting(difference(before, after), launched.__contains__)
    removed = tuple(change.path for change in changes if change.change is Change.STOPS)
    started = tuple(change.path for change in changes if change.change is Change.STARTS)
    changed = {change.path: change.changed_pins for change in changes if change.change is Change.CHANGES}
    found = [(component, name) for _, component, name in _runs(before, after, changes)]
    stops = tuple((component, name) for component, name in found if component in removed and name == DESTROY)
    others = tuple(each for each in found if each not in stops)
    return Runs(before, after, removed, started, changed, stops, others)


async def _before(work: Work, node: LaunchNode) -> tuple[Configured, set[str], Mapping[str, Scale], int]:
    """Return the node's instance, which components are up, its Scalers, and its version.

    There is nothing of one that is to be launched.
    """
    former = node.former
    if former is None:
        return Configured(NOTHING_COMPILED, {}), set(), {}, node.version
    standing = await instances.get_status(work.connection, instance_id=node.instance_id)
    state = "{}" if standing is None else standing.state
    launched = {path for path, part in msgspec.json.decode(state, type=dict[str, _Part]).items() if part.launched}
    version, parameters, owed = former.version, former.parameters, former.owed
    links = {path: link for path in former.links if (link := former.link(path)) is not None}
    if standing is not None and standing.before is not None:
        pending = read_former_configuration(standing.before)
        version, parameters, owed = pending.version, pending.parameters, pending.owed
        links = {path: read_link(target, kind, None) for path, (target, kind) in pending.links.items()}
    manifest = await work.manifest(node.application_id, version)
    scales = scales_in(state)
    return configured_as(manifest, parameters, links, scales, owed), launched, scales, version


async def _below(
    work: Work, link: Link | None, module_path: tuple[str, ...]
) -> tuple[list[PreviewedComponent], list[str], list[Step]]:
    """Return components, workflows and steps destroyed with a component."""
    components: list[PreviewedComponent] = []
    workflows: list[str] = []
    steps: list[Step] = []
    if link is None or link.kind is not LinkKind.OWN:
        return components, workflows, steps
    standing = await instances.get_status(work.connection, instance_id=link.instance_id)
    if standing is None or standing.status == InstanceStatus.DESTROYED:
        return components, workflows, steps
    compiled = await work.manifest(standing.application_id, standing.version)
    rows = await instances.list_linked(work.connection, instance_id=link.instance_id)
    links = {row.component: read_link(row.target_id, row.kind, row.binding) for row in rows}
    manifest = configured_as(
        compiled, msgspec.json.decode(standing.parameters), links, scales_in(standing.state)
    ).manifest
    for path in reversed(manifest.order):
        components.append(
            PreviewedComponent(
                path=".".join((*module_path, path)),
                change=Change.STOPS.value,
                parameters=[],
                type=manifest.components[path].type,
            )
        )
        if DESTROY in manifest.components[path].workflows:
            workflows.append(".".join((*module_path, workflow_path(path, DESTROY))))
            steps += manifest.components[path].workflows[DESTROY].steps
        inside, runs, their_steps = await _below(work, links.get(path), (*module_path, path))
        components += inside
        workflows += runs
        steps += their_steps
    return components, workflows, steps


def _components(
    node: LaunchNode,
    before: Configured,
    after: Configured,
    changes: Sequence[ComponentChange],
    given: Sequence[Mapping[str, Any]],
    code: Mapping[str, CodeChange],
) -> list[PreviewedComponent]:
    """Return the changes, without the secrets in the given parameters."""
    redactor = Redactor(given)
    return [_component(node, before, after, change, redactor, code) for change in changes]


def _component(
    node: LaunchNode,
    before: Configured,
    after: Configured,
    change: ComponentChange,
    redactor: Redactor,
    code: Mapping[str, CodeChange],
) -> PreviewedComponent:
    changed_code = code.get(change.path) if change.change in STAYS else None
    parameters = [
        ParameterChange(
            name=pin.pin,
            before=redactor.named(pin.pin, pin.before),
            after=redactor.named(pin.pin, pin.after),
            reset=pin.reset,
        )
        for pin in change.pins
        if pin.before != pin.after or pin.reset  # or its workflow is owed
    ]
    link = (before.links if change.change is Change.STOPS else node.links).get(change.path)
    child = node.children.get(change.path)
    is_new = change.change is not Change.STOPS and child is not None and child.former is None
    return PreviewedComponent(
        path=".".join((*node.path, change.path)),
        change=(change.change if changed_code is None else Change.CHANGES).value,
        parameters=parameters,
        code=changed_code,
        link=None if link is None else link.kind.value,
        instance_id=None if link is None or is_new or not link.is_instance else link.instance_id,
        type=(before if change.change is Change.STOPS else after).manifest.components[change.path].type,
    )


def _runs(
    before: Configured, after: Configured, changes: list[ComponentChange]
) -> Iterator[tuple[CompiledManifest, str, str]]:
    """Yield the workflows that would run: manifest, path of the component, name."""
    for change in changes:
        if change.change is Change.STOPS and DESTROY in before.manifest.components[change.path].workflows:
            yield before.manifest, change.path, DESTROY
        if change.change is Change.STARTS and LAUNCH in after.manifest.components[change.path].workflows:
            yield after.manifest, change.path, LAUNCH
    for component, workflow in triggered(after.manifest, changes):
        yield after.manifest, component, workflow


def _message_for(node: LaunchNode, message: str) -> str:
    return f"Submodule {'.'.join(node.path)}: {message}" if node.path else message
