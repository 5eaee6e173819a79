"""Plans: what a job will do, frozen when it is accepted."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from launchbay.errors import BadRequest, WorkflowFailed
from launchbay.manifest.graph import (
    CompiledManifest,
    Step,
)
from launchbay.manifest.scaling import component_at
from launchbay.manifest.v1 import inner_name
from launchbay.model.instance import InstanceEvent, InstanceStatus, sources
from launchbay.model.job import Plan, step_path, unescaped, workflow_path
from launchbay.planning.arguments import typed_arguments
from launchbay.planning.names import DESTROY, LAUNCH, RECONFIGURE, require_workflow


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
        arguments=typed_arguments(manifest, component, target.pin, workflow, parameters),
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
    if plan.is_harmless or plan.kind == "reconfigure":
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
