"""Running, scheduling and rescheduling workflows (reference §4, Application instances)."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import workflows
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Created, EmptyResponse, JSONResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Workflows")

_ID = "5f" * 12


class ScheduleBody(msgspec.Struct):
    """When to run a workflow, and with what. `interval` is milliseconds, as a number or as digits."""

    interval: Annotated[
        Any,
        msgspec.Meta(extra_json_schema={"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]}),
    ]
    parameters: dict[str, Any] | None = None


class Scheduled(msgspec.Struct):
    """The id of a schedule, unless there is none any longer."""

    id: str | msgspec.UnsetType = msgspec.UNSET


class ScheduleEntry(msgspec.Struct):
    """A pending schedule; `timestamp` is milliseconds since the Unix epoch."""

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
    returns=Returns("The id of the instance.", {"id": _ID}),
    statuses=(403, 409),
    idempotency_key=True,
)
async def run_workflow(request: Request[dict[str, Any], None]) -> Created:
    """Runs a workflow on the instance."""
    ran_on = await workflows.run_workflow(request.ctx, request.path["id"], request.path["workflow"], request.body)
    return Created(ran_on)


@routes.post(
    "/instances/{id}/{workflow}/schedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "60000", "parameters": {}}),
    returns=Returns(
        "The id of the schedule; the empty object when the workflow was started.", {"id": _ID}, type=Scheduled
    ),
    statuses=(403, 409),
    idempotency_key=True,
)
async def schedule_workflow(request: Request[ScheduleBody, None]) -> Response:
    """Schedules a workflow; interval 0 runs it at once."""
    return _scheduled(
        await workflows.schedule_workflow(
            request.ctx,
            request.path["id"],
            request.path["workflow"],
            request.body.interval,
            request.body.parameters or {},
        )
    )


@routes.post(
    "/instances/{id}/{workflow}/reschedule",
    permission="ScheduleInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(example={"interval": "0"}),
    returns=Returns("The id of the schedule; the empty object when it was cancelled.", {"id": _ID}, type=Scheduled),
    statuses=(403,),
)
async def reschedule_workflow(request: Request[ScheduleBody, None]) -> Response:
    """Moves a schedule, named by its id or workflow; interval 0 cancels it."""
    return _scheduled(
        await workflows.reschedule_workflow(
            request.ctx,
            request.path["id"],
            request.path["workflow"],
            request.body.interval,
            request.body.parameters,
        )
    )


@routes.get(
    "/instances/{id}/schedules",
    permission="Read",
    returns=Returns(
        "The schedules, the next one first.",
        {"schedules": [{"id": _ID, "name": "destroy", "timestamp": 1_767_225_600_000}]},
    ),
    statuses=(403,),
)
async def list_schedules(request: Request[None, None]) -> Schedules:
    """Lists the pending schedules of the instance."""
    rows = await workflows.list_schedules(request.ctx, request.path["id"])
    return Schedules([ScheduleEntry(row.id, row.workflow, to_ms(row.due_at)) for row in rows])


def _scheduled(schedule_id: str | None) -> Response:
    """Answer without an id when the workflow was started at once, or the schedule cancelled (reference §4)."""
    return EmptyResponse() if schedule_id is None else JSONResponse(Scheduled(schedule_id))
