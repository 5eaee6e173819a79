"""Running, scheduling and rescheduling workflows (reference §4, Application instances)."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.planning.acceptance import StartedJob
from launchbay.planning.names import DESTROY
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases import workflows
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import (
    Created,
    EmptyResponse,
    IncludeQuery,
    JSONResponse,
    Response,
    includes,
    job_headers,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Workflows")


class ScheduleBody(msgspec.Struct):
    """When to run a workflow, and its parameters. `interval` is milliseconds, as a number or a string of digits."""

    interval: Annotated[
        Any, msgspec.Meta(extra_json_schema={"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]})
    ]
    parameters: dict[str, Any] | None = None


class Scheduled(msgspec.Struct):
    """The ID of the schedule, omitted if it no longer exists."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


class ScheduleEntry(msgspec.Struct, rename="camel"):
    """A schedule; times are in milliseconds since the Unix epoch.

    A schedule of the manifest has a `component`. If someone cancels it, it stays in the list.
    """

    id: str
    name: str
    timestamp: int
    component: str | msgspec.UnsetType = msgspec.UNSET
    cancelled_at: int | msgspec.UnsetType = msgspec.UNSET
    cancelled_by: str | msgspec.UnsetType = msgspec.UNSET


class Schedules(msgspec.Struct):
    """The schedules of an instance."""

    schedules: list[ScheduleEntry]


class RunAnswer(Created):
    """The ID of the instance. A destroy with a grace time is due at `destroyAt`."""

    destroyAt: int | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


_Force = Annotated[
    int, msgspec.Meta(ge=0, le=1, description="For `destroy`: destroy the instance although others use it.")
]


class ForcedDestroyQuery(msgspec.Struct, frozen=True):
    """Whether to destroy an instance that others use."""

    force: _Force = 0


class ScheduleQuery(IncludeQuery, frozen=True):
    """Whether to destroy an instance that others use, and additions to the answer."""

    force: _Force = 0


class RunQuery(ScheduleQuery, frozen=True):
    """Whether to destroy an instance that others use, and additions to the answer."""

    include: Annotated[
        str,
        msgspec.Meta(
            description="Additions to the answer, comma-separated: `warnings`, `destroyAt`. Default: none, because "
            "clients exist that refuse fields they don't know.",
        ),
    ] = ""


@routes.post(
    "/instances/{id}/{workflow}",
    command="instance run",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(required=False, media_optional=True, example={"input.size": "3"}, keeps_texts=frozenset("*")),
    returns=Returns("The ID of the instance.", {"id": EXAMPLE_ID}, type=RunAnswer),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def run_workflow(request: Request[dict[str, Any], RunQuery]) -> Response:
    """Run a workflow on an instance."""
    instance_id, workflow, force = request.path["id"], request.path["workflow"], request.query.force == 1
    if workflow != DESTROY:
        started = await workflows.run_workflow(request.ctx, instance_id, workflow, request.body, force=force)
        return JSONResponse(RunAnswer(started.instance_id), job_headers(started))
    destroyed = await workflows.destroy(request.ctx, instance_id, request.body, force=force)
    if isinstance(destroyed, StartedJob):
        return JSONResponse(RunAnswer(destroyed.instance_id), job_headers(destroyed))
    headers = () if destroyed.job_id is None else job_headers(StartedJob(instance_id, destroyed.job_id))
    at = to_ms(destroyed.at)
    shown_at = at if includes(request, "destroyAt") else msgspec.UNSET
    return JSONResponse(
        RunAnswer(destroyed.instance_id, destroyAt=shown_at), (*headers, ("Launchbay-Destroy-At", str(at)))
    )


@routes.post(
    "/instances/{id}/{workflow}/schedule",
    command="instance schedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "60000", "parameters": {}}, keeps_texts=TYPED),
    returns=Returns(
        "The ID of the schedule; an empty object if the workflow was started.", {"id": EXAMPLE_ID}, type=Scheduled
    ),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def schedule_workflow(request: Request[ScheduleBody, ScheduleQuery]) -> Response:
    """Schedule a workflow. Interval 0 runs it immediately."""
    scheduled = await workflows.schedule_workflow(
        request.ctx,
        request.path["id"],
        request.path["workflow"],
        request.body.interval,
        request.body.parameters or {},
        force=request.query.force == 1,
    )
    if isinstance(scheduled, StartedJob):
        return EmptyResponse(job_headers(scheduled))
    return JSONResponse(Scheduled(scheduled))


@routes.post(
    "/instances/{id}/{workflow}/reschedule",
    command="instance reschedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "0"}, keeps_texts=TYPED),
    returns=Returns("The ID of the schedule; an empty object if it was cancelled.", {"id": EXAMPLE_ID}, type=Scheduled),
)
async def reschedule_workflow(request: Request[ScheduleBody, IncludeQuery]) -> Response:
    """Reschedule a workflow, by schedule ID or workflow name. Interval 0 cancels the schedule.

    A schedule of the manifest stays cancelled until you launch or reconfigure the instance, or reschedule it.
    """
    done = await workflows.reschedule_workflow(
        request.ctx, request.path["id"], request.path["workflow"], request.body.interval, request.body.parameters
    )
    return EmptyResponse() if done.id is None else JSONResponse(Scheduled(done.id))


@routes.get(
    "/instances/{id}/schedules",
    command="instance schedules",
    permission="Read",
    returns=Returns(
        "The schedules, next one first. Cancelled ones of the manifest have `cancelledAt` and `cancelledBy`.",
        {"schedules": [{"id": EXAMPLE_ID, "name": "destroy", "timestamp": 1_767_225_600_000}]},
    ),
)
async def list_schedules(request: Request[None, None]) -> Schedules:
    """List the schedules of an instance."""
    rows = await workflows.list_schedules(request.ctx, request.path["id"])
    return Schedules([_entry(row) for row in rows])


def _entry(row: ScheduleRow) -> ScheduleEntry:
    return ScheduleEntry(
        row.id,
        row.workflow,
        to_ms(row.due_at),
        component=row.component or msgspec.UNSET,
        cancelled_at=msgspec.UNSET if row.cancelled_at is None else to_ms(row.cancelled_at),
        cancelled_by=row.cancelled_by or msgspec.UNSET,
    )
