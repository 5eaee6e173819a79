"""Running, scheduling and rescheduling workflows (reference §4, Application instances)."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.planning import StartedJob
from launchbay.usecases import workflows
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Created, EmptyResponse, JSONResponse, Response, job_headers
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


class ScheduleEntry(msgspec.Struct):
    """A pending schedule; `timestamp` is in milliseconds since the Unix epoch."""

    id: str
    name: str
    timestamp: int


class Schedules(msgspec.Struct):
    """The pending schedules of an instance."""

    schedules: list[ScheduleEntry]


@routes.post(
    "/instances/{id}/{workflow}",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(required=False, media_optional=True, example={"input.size": "3"}),
    returns=Returns("The ID of the instance.", {"id": EXAMPLE_ID}, type=Created),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def run_workflow(request: Request[dict[str, Any], None]) -> Response:
    """Run a workflow on an instance."""
    started = await workflows.run_workflow(request.ctx, request.path["id"], request.path["workflow"], request.body)
    return JSONResponse(Created(started.instance_id), job_headers(started))


@routes.post(
    "/instances/{id}/{workflow}/schedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "60000", "parameters": {}}),
    returns=Returns(
        "The ID of the schedule; an empty object if the workflow was started.", {"id": EXAMPLE_ID}, type=Scheduled
    ),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def schedule_workflow(request: Request[ScheduleBody, None]) -> Response:
    """Schedule a workflow. Interval 0 runs it immediately."""
    scheduled = await workflows.schedule_workflow(
        request.ctx,
        request.path["id"],
        request.path["workflow"],
        request.body.interval,
        request.body.parameters or {},
    )
    if isinstance(scheduled, StartedJob):
        return EmptyResponse(job_headers(scheduled))
    return JSONResponse(Scheduled(scheduled))


@routes.post(
    "/instances/{id}/{workflow}/reschedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "0"}),
    returns=Returns("The ID of the schedule; an empty object if it was cancelled.", {"id": EXAMPLE_ID}, type=Scheduled),
)
async def reschedule_workflow(request: Request[ScheduleBody, None]) -> Response:
    """Reschedule a workflow, named by schedule ID or workflow name. Interval 0 cancels the schedule."""
    schedule_id = await workflows.reschedule_workflow(
        request.ctx, request.path["id"], request.path["workflow"], request.body.interval, request.body.parameters
    )
    return EmptyResponse() if schedule_id is None else JSONResponse(Scheduled(schedule_id))


@routes.get(
    "/instances/{id}/schedules",
    permission="Read",
    returns=Returns(
        "The schedules, next one first.",
        {"schedules": [{"id": EXAMPLE_ID, "name": "destroy", "timestamp": 1_767_225_600_000}]},
    ),
)
async def list_schedules(request: Request[None, None]) -> Schedules:
    """List the pending schedules of an instance."""
    rows = await workflows.list_schedules(request.ctx, request.path["id"])
    return Schedules([ScheduleEntry(row.id, row.workflow, to_ms(row.due_at)) for row in rows])
