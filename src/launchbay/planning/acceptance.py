"""Acceptance: the statement that makes a job of a plan, and the worker that is found for it.

`accept` is for runs of instances that exist. A launch is accepted by `accept_launch`, which also writes the instance
(`usecases/launch_tree.py`), and a child job by `begin_child`; both take their plan and columns from this package.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import msgspec

from launchbay.errors import Conflict
from launchbay.ids import new_id
from launchbay.manifest.graph import (
    SUBMODULE,
    CompiledManifest,
)
from launchbay.manifest.scaling import template_path
from launchbay.model.environment import EnvironmentView
from launchbay.model.instance import InstanceStatus, Link, transition
from launchbay.model.job import JobStatus, Origin, Plan
from launchbay.planning.places import check_places, places_of_job, take_places, workflow_limits
from launchbay.planning.plans import accepting_event, planned_steps
from launchbay.store import jobs
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.events import Waiter
from launchbay.store.jobs import ClaimRow
from launchbay.telemetry.tracing import trace_parent

OBSERVED = "The instance is only observed: Launchbay reads what it adopted, and runs nothing on it."
FORGETS = "The instance is only observed. It is forgotten, and all that it describes stays as it is."
TAKE_OVER = "Apply a change set with the act manage. It takes the instance over, and shows before what that changes."


class StartedJob(NamedTuple):
    """A job that a request began or queued, with its instance.

    With `is_new` false, a launch found a living instance with its name instead; `job_id` is then what runs on it.
    """

    instance_id: str
    job_id: str
    is_new: bool = True


class Dispatch(Protocol):
    """Finds a worker for a job that is being accepted; `engine.dispatch.Dispatcher` implements it."""

    def hold(self, connection: Connection, organization_id: str, job_id: str, *, here: bool = True) -> int | None:
        """Return the worker of this process that will run the job after the commit.

        None leaves it to any worker; so does `here=False`.
        """

    def begin(self, job_id: str, claim: ClaimRow) -> bool:
        """Let a held job begin with its acceptance, and return whether it does.

        The claim has what its acceptance writes.
        """

    def release(self, job_id: str) -> None:
        """Don't run a job that was held and then not accepted."""

    async def turn(self, tenant: str) -> None:
        """Wait while this process accepts jobs faster than it starts them.

        Call it outside of transactions. Tenants take turns, however many requests each has.
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
    nothing, if a limit of how many jobs run at a time refuses it; without `may_refuse` the job waits instead. A destroy
    of an instance that is only observed forgets it; anything else on it raises Conflict.

    Linearizable: the conditional UPDATE decides, with the unique index on running jobs (architecture, rule 6).
    """
    if plan.kind == "destroy" and await jobs.is_observed(connection, instance_id=instance_id):
        plan = plan.forgetting()
    job_id = new_id()
    columns = {
        "is_harmless": plan.is_harmless,
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
        if queued is not None:
            return queued
        if worker_id is not None:
            dispatch.release(job_id)
        await _refuse_observed(connection, instance_id, plan)
        if is_exempt:
            return None
    # Locked before the places of the organization, as the end of a job does it (migration 0062).
    locked = await jobs.lock_instance(connection, instance_id=instance_id)
    if locked is None or locked.job_id is not None:
        return None
    await _refuse_observed(connection, instance_id, plan)
    needed = await places_of_job(connection, instance_id, manifest, of_workflows)
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


async def _refuse_observed(connection: Connection, instance_id: str, plan: Plan) -> None:
    if not plan.is_harmless and await jobs.is_observed(connection, instance_id=instance_id):
        raise Conflict(OBSERVED, TAKE_OVER, code="InstanceObserved")


def job_columns(plan: Plan, manifest: CompiledManifest, version: int, origin: Origin | None) -> dict[str, Any]:
    """Return the columns of a new job that its plan determines."""
    trace = trace_parent.get() or plan.trace
    frozen = msgspec.structs.replace(plan, trace=trace, manifest_version=version, origin=origin)
    if origin is not None and origin.cause is not None and origin.cause.is_planned:
        frozen = frozen.holding()
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
