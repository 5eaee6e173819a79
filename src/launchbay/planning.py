"""Accepting work: the compiled manifest, the frozen plan, and the statement that accepts a run of an instance.

`accept` is for runs of instances that exist. A launch is accepted by `accept_launch`, which also writes the instance
(`usecases/launch_tree.py`), and a child job by `begin_child`; both take their plan and columns from here.
Requests and the engine's stager must accept work in the same way. They share this module because they can't import
each other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from launchbay import limits
from launchbay.errors import BadRequest, Conflict, WorkflowFailed
from launchbay.ids import new_id
from launchbay.manifest.configuration import query_hint
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import (
    COMPUTE,
    SCALER,
    SERVICE,
    SUBMODULE,
    WORKFLOW_INSTANCE,
    CompiledManifest,
    Component,
    Step,
    Target,
)
from launchbay.manifest.scaling import component_at, template_path
from launchbay.manifest.v1 import inner_name
from launchbay.model.concurrency_limits import ConcurrencyLimit, JobScope, Place, places
from launchbay.model.environment import EnvironmentView
from launchbay.model.findings import Hints
from launchbay.model.instance import InstanceEvent, InstanceStatus, Link, remembered_in, sources, transition
from launchbay.model.job import JobStatus, Origin, Plan, step_path, unescaped, workflow_path
from launchbay.model.scalars import settled
from launchbay.model.types import UNIT, Type
from launchbay.model.values import CoercionError, coerce, coerce_text, size_of
from launchbay.store import applications, concurrency_limits, jobs
from launchbay.store.database import Connection, on_transaction_end
from launchbay.store.environments import Environment
from launchbay.store.events import Waiter
from launchbay.telemetry.tracing import trace_parent

LAUNCH = "launch"
DESTROY = "destroy"
FORCE = "force"  # parameter of `destroy`: destroy an instance although others use it
RECONFIGURE = "reconfigure"  # the job's name in the history; no workflow of a manifest runs under it
_NAMES_SHOWN = 20


class StartedJob(NamedTuple):
    """A job that a request began or queued, with its instance.

    With `is_new` false, a launch found a living instance with its name instead; `job_id` is then what runs on it.
    """

    instance_id: str
    job_id: str
    is_new: bool = True


def available_workflows(manifest: CompiledManifest) -> list[str]:
    """Return the names that can be run: `launch`, `destroy` and the application's commands."""
    return list(dict.fromkeys([LAUNCH, *manifest.commands, DESTROY]))


def plan_launch(arguments: Mapping[str, Any], prior_status: InstanceStatus) -> Plan:
    """Return the plan of a launch, the first one or a repeated one."""
    return Plan(kind="launch", workflow=LAUNCH, prior_status=prior_status, arguments=dict(arguments))


def plan_destroy(prior_status: InstanceStatus) -> Plan:
    return Plan(kind="destroy", workflow=DESTROY, prior_status=prior_status)


def plan_deletion(prior_status: InstanceStatus, *, recalls: str | None = None) -> Plan:
    """Return the plan of a forced deletion; `recalls` is the job that it cancelled."""
    plan = plan_destroy(prior_status)
    return msgspec.structs.replace(plan, deletes_instance=True, recalls=recalls)


def plan_reconfigure(prior_status: InstanceStatus) -> Plan:
    """Return the plan of a reconfiguration; the instance stores its former configuration."""
    return Plan(kind="reconfigure", workflow=RECONFIGURE, prior_status=prior_status)


def plan_trigger(manifest: CompiledManifest, component: str, workflow: str, prior_status: InstanceStatus) -> Plan:
    """Return the plan of a workflow that a trigger or the manifest's own schedule asks for (manifest-language §5).

    Raises BadRequest if the manifest no longer has the component or workflow.
    """
    found = component_at(manifest, component)
    if found is None or workflow not in found.workflows:
        raise BadRequest(f"Component {component!r} no longer has workflow {workflow!r}.", code="UnknownWorkflow")
    return Plan(
        kind="trigger",
        workflow=workflow,
        prior_status=prior_status,
        propagates=workflow in found.propagate_status,
        component=component,
        component_workflow=workflow,
    )


def require_workflow(manifest: CompiledManifest, workflow: str) -> None:
    """Raise BadRequest if an instance of the manifest has no such workflow."""
    if workflow not in manifest.commands and workflow not in {LAUNCH, DESTROY}:
        names = ", ".join(available_workflows(manifest))
        named = [each for each in manifest.commands if each.rpartition(".")[2] == workflow]
        meant = f" Did you mean '{named[0]}'?" if named else Hints().nearest(workflow, manifest.commands)
        raise BadRequest(f"Command is not supported: {workflow}.{meant} Available: {names}.", code="UnknownWorkflow")


def plan_run(
    manifest: CompiledManifest, workflow: str, parameters: Mapping[str, Any], prior_status: InstanceStatus
) -> Plan:
    """Return the plan of a workflow that a client or a schedule asks for.

    Parameter values are strings or other JSON values, coerced to the declared types. Raises BadRequest for an unknown
    workflow, an undeclared parameter of a component manifest, or a value that doesn't match its type.
    """
    if workflow == LAUNCH:
        return plan_launch({}, prior_status)
    if workflow == DESTROY:
        return plan_destroy(prior_status)
    require_workflow(manifest, workflow)
    pin = manifest.commands[workflow]
    target = pin.targets[0]
    component = manifest.components[target.component]
    interface, _, name = target.pin.partition(".")
    return Plan(
        kind="command",
        workflow=workflow,
        prior_status=prior_status,
        propagates=name in component.propagate_status,
        component=target.component,
        interface=interface,
        component_workflow=name,
        arguments=_arguments(manifest, component, target.pin, workflow, parameters),
    )


def plan_call(
    manifest: CompiledManifest,
    instance_name: str,
    workflow: str,
    arguments: Mapping[str, Any],
    prior_status: InstanceStatus,
    resumes: Sequence[str] = (),
) -> Plan:
    """Return the plan of a workflow that another instance calls, with arguments that already have their types.

    Arguments that the command doesn't declare are passed on, as between components of one application. `resumes` are
    the failed jobs that this one continues. Raises WorkflowFailed if the instance can't run the workflow.
    """
    if workflow == RECONFIGURE:
        plan = plan_reconfigure(prior_status)
    else:
        try:
            plan = plan_run(manifest, inner_name(manifest, workflow), {}, prior_status)
        except BadRequest as error:
            raise WorkflowFailed(f"instance {instance_name!r}: {error}") from error
    is_first_launch = workflow == LAUNCH and prior_status is InstanceStatus.REQUESTED
    if not is_first_launch and not may_accept(plan):
        raise WorkflowFailed(f"can't run {workflow!r} on instance {instance_name!r} in status {prior_status}.")
    called = dict(arguments) if plan.kind == "command" else plan.arguments
    return msgspec.structs.replace(plan, arguments=called, resumes=list(resumes))


def plan_passed(
    manifest: CompiledManifest,
    component: str,
    need: str,
    arguments: Mapping[str, Any],
    prior_status: InstanceStatus,
    resumes: Sequence[str] = (),
) -> Plan:
    """Return the plan of a command that a submodule passes up (manifest-language §7).

    Raises WorkflowFailed if the component doesn't have the pin, `interface.pin`.
    """
    found = component_at(manifest, component)
    pin = None if found is None else found.pins.get(need)
    if found is None or pin is None:
        raise WorkflowFailed(f"the submodule {component!r} of the parent has no pin {need!r}. Declare it.")
    receivers = [peer.pins[pin.name] for peer in found.peers.get(pin.interface, ()) if pin.name in peer.pins]
    plan = Plan(
        kind="command",
        workflow=need,
        prior_status=prior_status,
        propagates=any(
            target.pin.partition(".")[2] in manifest.components[target.component].propagate_status
            for target in receivers
        ),
        component=component,
        interface=pin.interface,
        component_workflow=pin.name,
        arguments=dict(arguments),
        resumes=list(resumes),
    )
    if not may_accept(plan):
        raise WorkflowFailed(f"can't run {need!r} on the parent in status {prior_status}.")
    return plan


def plan_resumed(plan: Plan, job_id: str, arguments: Mapping[str, Any], prior_status: InstanceStatus) -> Plan:
    """Return the plan of a job that continues the failed job `job_id`, whose plan is given."""
    return msgspec.structs.replace(
        plan, prior_status=prior_status, arguments=dict(arguments), resumes=[*plan.resumes, job_id], key_seed=""
    )


def plan_refused(workflow: str, refusal: str, prior_status: InstanceStatus) -> Plan:
    """Return the plan of a job that only fails with `refusal`, so that the history shows what became of the work."""
    return Plan(kind="refused", workflow=workflow, prior_status=prior_status, propagates=False, refusal=refusal)


def planned_steps(manifest: CompiledManifest, plan: Plan) -> list[list[Any]]:
    """Return the steps of a plan as `[path, name, status, percent]`, all Requested, in the manifest's order."""
    if plan.kind in {"refused", "reconfigure"}:
        return []  # the steps of a reconfiguration depend on the former configuration
    if plan.kind in {"command", "trigger"}:
        assert plan.component is not None
        assert plan.component_workflow is not None
        runs = [(plan.component, plan.component_workflow)]
    else:
        order = manifest.order if plan.kind == "launch" else tuple(reversed(manifest.order))
        runs = [(path, plan.workflow) for path in order]
    # Members of Scalers show their steps in the job's detail: their number isn't known yet.
    return [
        [step_path(workflow, step.name), step.name, "Requested", 0]
        for path, name in runs
        if (component := component_at(manifest, path)) is not None and not (component.scaler and path == component.path)
        if name in component.workflows
        for workflow in (workflow_path(path, name),)
        for step in (*component.workflows[name].steps, *component.workflows[name].finally_)
    ]


def _arguments(
    manifest: CompiledManifest, component: Component, pin: str, workflow: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    check_size(parameters)
    types = _declared_types(component, pin)
    unknown = sorted(name for name in parameters if name not in types)
    if unknown and manifest.is_component_manifest:
        declared = ", ".join(types) or "none"
        raise BadRequest(
            f"Workflow {workflow} has no parameter {_shown(unknown)}. Parameters: {declared}.", code="UnknownParameter"
        )
    arguments: dict[str, Any] = {}
    for name, value in parameters.items():
        wanted = types.get(name)
        if wanted is None:
            arguments[name] = settled(value)
            continue
        try:
            arguments[name] = coerce_text(wanted, value) if isinstance(value, str) else coerce(wanted, value)
        except CoercionError as error:
            raise BadRequest(f"Parameter {name} of workflow {workflow}: {error}", code="WrongParameterType") from error
    return arguments


def check_size(parameters: Mapping[str, Any]) -> None:
    """Raise BadRequest for parameters with too many values: they would hold up others.

    JSON in a string counts as many values as it can have.
    """
    most = limits.PARAMETERS_BYTES
    texts = [text for text in parameters.values() if isinstance(text, str) and text.lstrip()[:1] in ("[", "{")]
    if size_of(parameters, most) + limits.VALUE_BYTES * sum(text.count(",") for text in texts) > most:
        raise BadRequest(
            f"The parameters exceed {most // limits.MIB} MiB ({limits.VALUE_BYTES} bytes for each value, and its "
            "characters). Pass less, such as the address of the data.",
            code="InvalidParameters",
        )


def declared_parameters(manifest: CompiledManifest, workflow: str) -> Collection[str]:
    """Return the parameters that a launch or a command declares; other workflows have none."""
    target = command_target(manifest, workflow)
    if target is not None:
        return _declared_types(manifest.components[target.component], target.pin)
    return manifest.parameters if workflow == LAUNCH else ()


def ignored_parameters(manifest: CompiledManifest, workflow: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a warning for each parameter of a launch or command that has no effect.

    A workflow manifest takes parameters that it doesn't declare as variables, which expressions may read. Component
    manifests refuse them.
    """
    if manifest.is_component_manifest or (workflow != LAUNCH and command_target(manifest, workflow) is None):
        return ()
    declared = declared_parameters(manifest, workflow)
    unknown = [name for name in parameters if name not in declared]
    if not unknown:
        return ()
    read = {name.rpartition("~")[2] for template in _templates(manifest) for name in template.variables}
    known = _shown(list(declared)) or "none"
    return tuple(
        f"Workflow {workflow} has no parameter {_shown([name])}, so it is ignored. "
        f"{(workflow == LAUNCH and query_hint(name)) or f'Parameters: {known}.'}"
        for name in unknown
        if name not in read
    )[:_NAMES_SHOWN]


def _templates(manifest: CompiledManifest) -> Iterator[Template]:
    """Yield everything with expressions in the workflows of a manifest."""
    for component in manifest.components.values():
        for workflow in component.workflows.values():
            yield from workflow.returns.values()
            for step in workflow.all_steps:
                yield step.parameters
                yield from step.control.templates.values()
                yield from (each for each in (step.retry_count, step.ignore_fail) if each is not None)
            if workflow.timeout is not None:
                yield workflow.timeout


# Component types whose required arguments are known, with their optional ones. Other types check arguments themselves.
_OPTIONAL_ARGUMENTS: Mapping[str, frozenset[str]] = {
    WORKFLOW_INSTANCE: frozenset(),
    SCALER: frozenset(),
    COMPUTE: frozenset({"timeout"}),
    SUBMODULE: frozenset(),
    SERVICE: frozenset(),
}


def required_arguments(
    manifest: CompiledManifest, workflow: str, state: str, parameters: Mapping[str, Any]
) -> dict[str, Type | None]:
    """Return the arguments that a command's caller must provide, with their types.

    The workflow has no default for them, its component no configuration pin with this name and, in the instance's
    `state`, no earlier return value. `parameters` are those that the instance was given. For a component that is linked
    to an instance, these are all arguments: what the instance has is not known here.
    """
    target = command_target(manifest, workflow)
    if target is None:
        return {}
    component = manifest.components[target.component]
    optional = _OPTIONAL_ARGUMENTS.get(component.type)
    if optional is None or component.scaler is not None:  # each member of a Scaler has its own values
        return {}
    known = set(optional)
    if component.type == WORKFLOW_INSTANCE:
        known |= remembered_in(state, component.path)
        known |= {
            key.rpartition(".")[2]
            for key, pin in manifest.configuration_pins.get(component.path, {}).items()
            if pin.has_default or pin.parameter is not None
        }
        if not manifest.is_component_manifest:
            known |= set(parameters)  # undeclared ones are variables
        called = component.workflows.get(target.pin.partition(".")[2])
        if called is not None:
            known |= {name for name, parameter in called.parameters.items() if parameter.has_default}
    types = _declared_types(component, target.pin)
    return {name: wanted for name, wanted in types.items() if name not in known and wanted != UNIT}


def command_target(manifest: CompiledManifest, workflow: str) -> Target | None:
    """Return the pin that runs a command of the application, or None."""
    pin = manifest.commands.get(workflow)
    return None if pin is None else pin.targets[0]


def _shown(names: list[str]) -> str:
    """Return names that a caller sent, clipped in number and length."""
    shown = [name if len(name) <= 100 else f"{name[:100]}…" for name in names[:_NAMES_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _declared_types(component: Component, pin: str) -> dict[str, Type | None]:
    """Return the parameters of a command by name: its pin's arguments and its workflow's parameters."""
    types: dict[str, Type | None] = {}
    workflow = component.workflows.get(pin.partition(".")[2])
    if workflow is not None:
        types.update({name: parameter.type for name, parameter in workflow.parameters.items()})
    signature = component.pins[pin].type.signature
    if signature is not None:
        types.update(signature.arguments)
    return types


def is_forced(parameters: Mapping[str, Any]) -> bool:
    """Return whether parameters of `destroy` force it; older clients send strings."""
    return parameters.get(FORCE) in (True, "true", "1")


def in_use(name: str, users: Sequence[str]) -> str:
    """Return why an instance isn't destroyed; `users` describe the instances that use it."""
    more = f" and {len(users) - _NAMES_SHOWN} more" if len(users) > _NAMES_SHOWN else ""
    return (
        f"Other instances use {name!r}: {', '.join(users[:_NAMES_SHOWN])}{more}. Destroy or reconfigure them first, or "
        "force the destruction."
    )


def step_at(manifest: CompiledManifest, path: str) -> Step | None:
    """Return the step at a path of a plan, if the manifest has it."""
    call = path.rpartition(">")[2]
    place, *names = call.split("/")
    name, _, workflow_name = place.partition("#")
    component = component_at(manifest, unescaped(name))
    workflow_name = unescaped(workflow_name)
    if ">" in path:  # a pin of the receiver, `interface.pin`, and not a workflow
        workflow_name = workflow_name.partition(".")[2]
    found = None
    for each in names:
        if found is not None and found.control.each is not None and found.name == unescaped(each.partition("~")[0]):
            continue  # the step of one item
        workflow = None if component is None else component.workflows.get(workflow_name)
        wanted = unescaped(each.partition("~")[0])
        found = None if workflow is None else next((step for step in workflow.all_steps if step.name == wanted), None)
        if found is None:
            return None
        workflow_name = found.action or ""
    return found


def accepting_event(plan: Plan) -> InstanceEvent:
    """Return the instance's event when the plan is accepted."""
    return InstanceEvent.DESTROY_ACCEPTED if plan.kind == "destroy" else InstanceEvent.WORK_ACCEPTED


def may_accept(plan: Plan) -> bool:
    """Return whether an instance in the plan's prior status can accept it."""
    return InstanceStatus(plan.prior_status) in sources(accepting_event(plan))


class Dispatch(Protocol):
    """Finds a worker for a job that is being accepted; `engine.dispatch.Dispatcher` implements it."""

    def hold(self, connection: Connection, organization_id: str, job_id: str, *, here: bool = True) -> int | None:
        """Return the worker of this process that will run the job after the commit.

        None leaves it to any worker; so does `here=False`.
        """

    def let_go(self, job_id: str) -> None:
        """Don't run a job that was held and then not accepted."""

    async def turn(self, tenant: str) -> None:
        """Wait while this process accepts jobs faster than it starts them.

        Call it outside of transactions. Tenants take turns, however many requests each has.
        """

    def accepting(self) -> AbstractContextManager[None]:
        """Count a request that may start a job, after its turn.

        Many of them have precedence over jobs.
        """

    def watch_ends(self, instance_id: str) -> AbstractContextManager[Waiter]:
        """Wake the waiter whenever a job of the instance has ended in this process."""


async def accept(
    connection: Connection,
    dispatch: Dispatch,
    organization_id: str,
    instance_id: str,
    owner_id: str,
    plan: Plan,
    manifest: CompiledManifest,
    *,
    version: int,
    origin: Origin | None = None,
    here: bool = True,
    may_refuse: bool = True,
) -> str | None:
    """Claim the instance for a job and return the job's ID; None if another job or status came first.

    `version` is the manifest's, and `origin` what asks for the job, if not a person. Raises Conflict, having written
    nothing, if a limit of how many jobs run at a time refuses it; without `may_refuse` the job waits instead.

    Linearizable: the conditional UPDATE decides, with the unique index on running jobs (architecture, rule 6).
    """
    job_id = new_id()
    columns = {
        "instance_id": instance_id,
        "name": plan.workflow,
        "owner_id": owner_id,
        "prior_status": plan.prior_status,
        "status": transition(InstanceStatus(plan.prior_status), accepting_event(plan)),
        "is_for_person": origin is None or origin.kind in {"person", "token"},
        **job_columns(plan, manifest, version, origin),
    }
    is_exempt = plan.kind == "refused" or plan.deletes_instance
    of_workflows = {} if is_exempt else workflow_limits(manifest, plan)
    if is_exempt or not (manifest.concurrency or of_workflows):
        worker_id = dispatch.hold(connection, organization_id, job_id, here=here)
        queued = await jobs.accept_work(
            connection, job_id=job_id, worker_id=worker_id, is_limited=False, knows_limits=is_exempt, **columns
        )
        if queued is not None or is_exempt:
            return queued
        if worker_id is not None:
            dispatch.let_go(job_id)
    # Locked before the places of the organization, as the end of a job does it (migration 0062).
    locked = await jobs.lock_instance(connection, instance_id=instance_id)
    if locked is None or locked.job_id is not None:
        return None
    needed = await _places_of_job(connection, instance_id, manifest, of_workflows)
    if not may_refuse:
        needed = [replace(each, when="queue") if each.when == "refuse" else each for each in needed]
    if needed:
        await check_places(connection, organization_id, needed)
    dispatch.hold(connection, organization_id, job_id, here=False)
    queued = await jobs.accept_work(
        connection, job_id=job_id, worker_id=None, is_limited=bool(needed), knows_limits=True, **columns
    )
    if queued is not None and needed:
        await take_places(connection, organization_id, job_id, plan, needed)
    return queued


def workflow_limits(manifest: CompiledManifest, plan: Plan) -> dict[str, Sequence[ConcurrencyLimit]]:
    """Return the limits of the workflows that a job runs directly, by name."""
    if plan.kind in {"command", "trigger"}:
        found = None if plan.component is None else component_at(manifest, plan.component)
        runs = [] if found is None else [(found, plan.component_workflow or "")]
    elif plan.kind in {"launch", "destroy"}:
        runs = [(component, plan.workflow) for component in manifest.components.values()]
    else:
        runs = []
    return {
        f"{component.path}.{name}" if manifest.is_component_manifest else name: component.workflows[name].concurrency
        for component, name in runs
        if name in component.workflows and component.workflows[name].concurrency
    }


async def _places_of_job(
    connection: Connection,
    instance_id: str,
    manifest: CompiledManifest,
    of_workflows: Mapping[str, Sequence[ConcurrencyLimit]],
) -> list[Place]:
    row = await concurrency_limits.get_scope_of_instance(connection, instance_id=instance_id)
    if row is None:
        return []
    scope = JobScope(**{**row._asdict(), "labels": msgspec.json.decode(row.labels)})
    return places(scope, manifest.concurrency, of_workflows)


async def places_of_launch(
    connection: Connection,
    manifest: CompiledManifest,
    plan: Plan,
    scope: JobScope,
    *,
    may_be_limited: bool,
) -> list[Place]:
    """Return the places that a launch needs.

    The scope has no settings yet; `may_be_limited` says that some exist.
    """
    of_workflows = workflow_limits(manifest, plan)
    if not (may_be_limited or manifest.concurrency or of_workflows):
        return []
    row = await concurrency_limits.get_settings(
        connection, application_id=scope.application_id, environment_id=scope.environment_id
    )
    assert row is not None, "a statement without FROM gives a row"
    settled = replace(scope, application_limits=row.application_limits, environment_limits=row.environment_limits)
    return places(settled, manifest.concurrency, of_workflows)


async def check_places(connection: Connection, organization_id: str, needed: Sequence[Place]) -> None:
    """Raise Conflict if one of the groups is full and refuses jobs.

    Until the commit, no other job frees or takes a place.
    """
    if not any(each.when == "refuse" for each in needed):
        return
    refusing = await concurrency_limits.get_refusal(
        connection, organization_id=organization_id, **concurrency_limits.refusal_columns(needed)
    )
    if refusing is not None:
        most = next(each.most for each in needed if each.title == refusing)
        raise Conflict(
            f"At most {most} {'job' if most == 1 else 'jobs'} at a time for {refusing}; try again when one has ended.",
            code="ConcurrencyLimit",
        )


async def take_places(
    connection: Connection, organization_id: str, job_id: str, plan: Plan, needed: Sequence[Place]
) -> None:
    """Make an accepted job ready, or let it wait for its places.

    It may ask older jobs to end.
    """
    await concurrency_limits.take_places(
        connection,
        organization_id=organization_id,
        job_id=job_id,
        destroys=plan.kind == "destroy",
        **concurrency_limits.place_columns(needed),
    )


def job_columns(plan: Plan, manifest: CompiledManifest, version: int, origin: Origin | None) -> dict[str, Any]:
    """Return the columns of a new job that its plan determines."""
    trace = trace_parent.get() or plan.trace
    frozen = msgspec.structs.replace(plan, trace=trace, manifest_version=version, origin=origin)
    return {
        "job_status": JobStatus.EXECUTING.value,
        "plan": frozen.to_text(),
        "steps": msgspec.json.encode(planned_steps(manifest, plan)).decode(),
    }


def environment_view(environment: Environment) -> EnvironmentView:
    """Return a copy of the environment, to be stored with the instance."""
    offered = msgspec.json.decode(environment.properties)
    return EnvironmentView(
        policies=msgspec.json.decode(environment.policies),
        markers=[marker["name"] for marker in msgspec.json.decode(environment.markers)],
        properties={entry["name"]: entry["value"] for entry in offered},
    )


def components_document(manifest: CompiledManifest, links: Mapping[str, Link]) -> str:
    """Return the components of an instance as the API shows them (reference §2).

    A workflow manifest has none. Submodules inside of Scalers appear member by member, as linked.
    """
    if not manifest.is_component_manifest:
        return "[]"
    shown: list[dict[str, str]] = []
    for path, component in manifest.components.items():
        is_scaled = component.scaler is not None and component.type == SUBMODULE
        for each in [linked for linked in links if template_path(linked) == path] if is_scaled else [path]:
            link = links.get(each)
            is_instance = link is not None and link.is_instance
            shown.append({"name": each, "instanceId": link.instance_id} if link and is_instance else {"name": each})
    return msgspec.json.encode(shown).decode()


CACHED_MANIFESTS = 256  # a compiled manifest of 500 lines takes about 1 MB
INLINE_CHARS = 16 * limits.KIB  # compiles in a few milliseconds
T = TypeVar("T")


class CompiledManifests:
    """The most recently used compiled manifests of a process."""

    def __init__(self, compile_manifest: Callable[[bytes], CompiledManifest], capacity: int = CACHED_MANIFESTS) -> None:
        self._compile = compile_manifest
        self._capacity = capacity
        self._by_version: OrderedDict[tuple[str, int], CompiledManifest] = OrderedDict()

    async def get(self, connection: Connection, application_id: str, version: int) -> CompiledManifest:
        """Return a stored manifest version, compiled.

        Raises InvalidManifest for one that this program no longer accepts, and Conflict if the application was deleted
        after the caller looked up the version.
        """
        compiled = self.cached(application_id, version)
        if compiled is None:
            key = (application_id, version)
            content = await applications.get_manifest(connection, application_id=application_id, version=version)
            if content is None:
                raise Conflict("Another request deleted the application.")
            compiled = self._by_version[key] = await off_loop_if_large(self._compile, content)
            if connection.in_transaction:
                on_transaction_end(connection, partial(self._forget_unless_committed, key, compiled))
            if len(self._by_version) > self._capacity:
                self._by_version.popitem(last=False)
        return compiled

    def cached(self, application_id: str, version: int) -> CompiledManifest | None:
        """Return a stored manifest version if it is in memory, which needs no connection."""
        key = (application_id, version)
        compiled = self._by_version.get(key)
        if compiled is not None:
            self._by_version.move_to_end(key)
        return compiled

    def forget(self, application_ids: Collection[str]) -> None:
        """Forget all versions of applications, before a savepoint takes newer ones back."""
        for key in [each for each in self._by_version if each[0] in application_ids]:
            del self._by_version[key]

    def _forget_unless_committed(self, key: tuple[str, int], compiled: CompiledManifest, committed: bool) -> None:  # noqa: FBT001 - a callback's
        """Forget a version that the transaction itself may have made.

        After a rollback, its number gets another text.
        """
        if not committed and self._by_version.get(key) is compiled:
            del self._by_version[key]

    async def compile(self, text: str) -> CompiledManifest:
        """Return a manifest that isn't stored, compiled. Raises InvalidManifest."""
        return await off_loop_if_large(self._compile, text)


async def off_loop_if_large(read: Callable[[bytes], T], text: str) -> T:
    """Return `read(text)`; a long text is read in a thread, so that it doesn't block the event loop."""
    return read(text.encode()) if len(text) <= INLINE_CHARS else await asyncio.to_thread(read, text.encode())
