"""What the components of instances do, read from plan and journal (`model/component_state.py`)."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from launchbay.auth.permissions import Permission
from launchbay.errors import Conflict, InvalidManifest
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest, required_components
from launchbay.manifest.scaling import component_at, scaled
from launchbay.model.component_state import (
    ComponentCounts,
    ComponentState,
    Part,
    Run,
    Step,
    StepState,
    component_states,
    counted,
    planned_state,
    status_behind,
    step_state,
)
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import (
    INTERRUPTED_STEP,
    JobStatus,
    StepStatus,
    component_of,
    is_own_step,
    outer_paths,
    step_name,
    step_path,
    unescaped,
    workflow_path,
)
from launchbay.store import instances as store
from launchbay.store.fleet import FleetRow
from launchbay.store.instances import ComponentFactsRow
from launchbay.usecases.context import Context, Work


@dataclass(frozen=True, slots=True)
class ComponentView:
    """A component of an instance.

    `instance_id` and `instance` are set if it stands for a submodule. One that `is_declared` no more belongs to an
    earlier version, and is not removed yet.
    """

    path: str
    type: str
    state: ComponentState
    instance_id: str | None = None
    instance: str | None = None
    is_declared: bool = True


async def list_components(ctx: Context, instance_id: str) -> list[ComponentView]:
    """Return the components of an instance in launch order, then those not removed yet."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        manifest = await work.manifest(record.application_id, record.version)
        facts = await _facts(work, [record.id])
    return _views(facts[0], manifest) if facts else []


async def count_components(work: Work, rows: Sequence[FleetRow]) -> dict[str, ComponentCounts]:
    """Return how many components of each instance do what.

    The caller may read the instances. Of an instance at rest, the counts that its last job left are enough. One without
    counts is left out: nothing has launched its version, and its manifest compiles no more.
    """
    unsettled = await _facts(work, [row.id for row in rows if row.id is not None], unsettled=True)
    found: dict[str, ComponentCounts] = {}
    for facts in unsettled:
        with suppress(InvalidManifest, Conflict):
            manifest = await work.manifest(facts.application_id, facts.version)
            found[facts.id] = counted(each.state.status for each in _views(facts, manifest) if each.is_declared)
    for row in rows:
        if row.id is not None and row.id not in found and row.component_count is not None:
            found[row.id] = _settled(row, row.component_count)
    return found


def _settled(row: FleetRow, total: int) -> ComponentCounts:
    launched = min(row.running_count or 0, total)
    parts = {"launched": Part(is_launched=True), "": Part()}
    states = component_states(parts, None, InstanceStatus(row.status), is_asleep=row.is_asleep)
    return counted((*[states["launched"].status] * launched, *[states[""].status] * (total - launched)))


async def _facts(work: Work, instance_ids: Sequence[str], *, unsettled: bool = False) -> list[ComponentFactsRow]:
    return await store.list_component_facts(
        work.connection, instance_ids=list(instance_ids), unsettled=unsettled, interrupted=INTERRUPTED_STEP
    )


def _views(facts: ComponentFactsRow, manifest: CompiledManifest) -> list[ComponentView]:
    manifest = _expanded(facts, manifest)
    parts = _parts(facts, manifest)
    run = None
    if facts.job_name is not None:
        run = Run(facts.job_name, facts.is_started, is_over=facts.job_status != JobStatus.EXECUTING)
    states = component_states(parts, run, InstanceStatus(facts.status), is_asleep=facts.is_asleep)
    behind = {path: (target, name) for path, target, name, *_ in _submodules.decode(facts.submodules)}
    views: list[ComponentView] = []
    for path, part in parts.items():
        component = component_at(manifest, path)
        target, name = behind.get(path, (None, None))
        kind = "" if component is None else component.type
        views.append(ComponentView(path, kind, states[path], target, name, part.is_declared))
    return views


def _expanded(facts: ComponentFactsRow, manifest: CompiledManifest) -> CompiledManifest:
    """Return the manifest with the members of its Scalers."""
    if not any(component.scaler for component in manifest.components.values()):
        return manifest
    scales = _scales.decode(facts.scales)
    values = configure(manifest, msgspec.json.decode(facts.parameters))
    return scaled(manifest, values, scales.get)[0]


def _parts(facts: ComponentFactsRow, manifest: CompiledManifest) -> dict[str, Part]:
    launched = frozenset(_names.decode(facts.launched))
    order = [path for path in manifest.order if path in manifest.components]
    parts = {
        path: Part(needs=required_components(manifest.components[path]), is_launched=path in launched)
        for path in dict.fromkeys((*order, *manifest.components))
    }
    for path in launched.difference(parts):
        parts[path] = Part(is_launched=True, is_declared=False)
    steps, failed = _steps(facts, manifest)
    is_over = facts.job_status != JobStatus.EXECUTING
    for path, own in steps.items():
        if path not in parts and not is_over:
            parts[path] = Part(is_declared=False)
        if path in parts:
            parts[path] = replace(parts[path], steps=own)
    for path in failed & parts.keys():
        parts[path] = replace(parts[path], has_failed=True)
    for path, _, _, status, last_job, is_asking, is_incomplete in _submodules.decode(facts.submodules):
        if path in parts:
            behind = status_behind(InstanceStatus(status), last_job, is_asking=is_asking, is_incomplete=is_incomplete)
            parts[path] = replace(parts[path], behind=behind)
    return parts


def _steps(facts: ComponentFactsRow, manifest: CompiledManifest) -> tuple[dict[str, dict[str, list[Step]]], set[str]]:
    """Return the steps of the newest job by component and workflow.

    Also returns the components that it could not launch. Steps are those that the job planned, those that it recorded,
    and the rest of each workflow that has begun: a reconfiguration and members of Scalers have no plan of steps.
    """
    asking = {_own(path) for path in _names.decode(facts.asking)}
    recorded: dict[str, Step] = {}
    planned: dict[str, None] = {path: None for path, *_ in _planned.decode(facts.planned or "[]")}
    failed: set[str] = set()
    for path, status, percent, is_skipped, is_ignored, is_interrupted in _recorded.decode(facts.recorded):
        if "/" not in path:
            failed |= {unescaped(component_of(path))} if status == StepStatus.FAILED else set()
            continue
        state = step_state(
            status,
            is_skipped=is_skipped,
            is_ignored=is_ignored,
            is_interrupted=is_interrupted,
            is_asking=path in asking,
        )
        recorded[path] = Step(step_name(path), state, 100 if status == StepStatus.SUCCEEDED else percent)
    paths = dict.fromkeys((*planned, *recorded))
    for place in dict.fromkeys(path.rpartition("/")[0] for path in recorded):
        paths |= dict.fromkeys(_declared(manifest, place))
    is_over = facts.job_status != JobStatus.EXECUTING
    left = {path: status for path, _, status, _ in _planned.decode(facts.planned or "[]")}
    found: dict[str, dict[str, list[Step]]] = {}
    for path in paths:
        component, _, workflow = path.rpartition("/")[0].partition("#")
        state = planned_state(left.get(path, StepStatus.REQUESTED), is_over=is_over)
        step = recorded.get(path) or Step(step_name(path), state, 100 if state is StepState.DONE else 0)
        found.setdefault(unescaped(component), {}).setdefault(unescaped(workflow), []).append(step)
    return found, failed


def _own(path: str) -> str:
    """Return the path of the job's own step around another one."""
    return next((each for each in (path, *outer_paths(path)) if is_own_step(each)), path)


def _declared(manifest: CompiledManifest, place: str) -> Iterable[str]:
    """Return the paths of the steps that a workflow has in any case."""
    path, _, name = place.partition("#")
    component = component_at(manifest, unescaped(path))
    workflow = None if component is None else component.workflows.get(unescaped(name))
    if component is None or workflow is None:
        return ()
    whole = workflow_path(unescaped(path), workflow.name)
    return (step_path(whole, step.name) for step in (*workflow.steps, *workflow.finally_))


_names = msgspec.json.Decoder(list[str])
_scales = msgspec.json.Decoder(dict[str, int])
_planned = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_recorded = msgspec.json.Decoder(list[tuple[str, str, int, bool, bool, bool]])
_submodules = msgspec.json.Decoder(list[tuple[str, str, str, str, str | None, bool, bool]])
