"""Accepting work: the one statement that claims the instance, writes the job with its plan, and queues it."""

from typing import Any

import msgspec

from launchbay.ids import new_id
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceEvent, InstanceStatus, move, sources
from launchbay.model.job import JobStatus, Plan
from launchbay.planning.commands import planned_steps
from launchbay.store import jobs
from launchbay.store.database import Connection
from launchbay.telemetry.tracing import trace_parent


def accepting_event(plan: Plan) -> InstanceEvent:
    """Return what accepting the plan means for the instance."""
    return InstanceEvent.DESTROY_ACCEPTED if plan.kind == "destroy" else InstanceEvent.WORK_ACCEPTED


def may_accept(plan: Plan) -> bool:
    """Tell whether an instance in the plan's prior status can take it."""
    return InstanceStatus(plan.prior_status) in sources(accepting_event(plan))


async def accept(
    connection: Connection, instance_id: str, owner_id: str, plan: Plan, manifest: CompiledManifest
) -> str | None:
    """Claim the instance for a job and return the job's id; None when another job or status came first.

    Linearizable: the conditional UPDATE decides, with the unique index on jobs under way (architecture, rule 6).
    """
    job_id = new_id()
    queued = await jobs.accept_work(
        connection,
        instance_id=instance_id,
        job_id=job_id,
        name=plan.workflow,
        owner_id=owner_id,
        prior_status=plan.prior_status,
        status=move(InstanceStatus(plan.prior_status), accepting_event(plan)),
        **job_columns(plan, manifest),
    )
    return None if queued is None else job_id


def traced(plan: Plan) -> Plan:
    """Return the plan with the trace that the running code belongs to."""
    parent = trace_parent.get()
    return msgspec.structs.replace(plan, trace=parent) if parent else plan


def job_columns(plan: Plan, manifest: CompiledManifest) -> dict[str, Any]:
    """Return the columns of a new job that follow from its plan."""
    return {
        "job_status": JobStatus.EXECUTING.value,
        "plan": traced(plan).to_text(),
        "steps": msgspec.json.encode(planned_steps(manifest, plan)).decode(),
    }
