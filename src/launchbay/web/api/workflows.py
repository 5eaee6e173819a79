"""Running, scheduling and rescheduling workflows (reference §4, Application instances)."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import workflows
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Created, Empty, Json
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Workflows",)
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


async def run_workflow(call: Call[dict[str, Any], None]) -> Answer:
    """Run a workflow."""
    ran_on = await workflows.run_workflow(
        call.services.desk, call.actor, call.path["id"], call.path["workflow"], call.body
    )
    return Json(Created(ran_on))


async def schedule_workflow(call: Call[ScheduleBody, None]) -> Answer:
    """Schedule a workflow."""
    return _scheduled(
        await workflows.schedule_workflow(
            call.services.desk,
            call.actor,
            call.path["id"],
            call.path["workflow"],
            call.body.interval,
            call.body.parameters or {},
        )
    )


async def reschedule_workflow(call: Call[ScheduleBody, None]) -> Answer:
    """Move or cancel a schedule."""
    return _scheduled(
        await workflows.reschedule_workflow(
            call.services.desk,
            call.actor,
            call.path["id"],
            call.path["workflow"],
            call.body.interval,
            call.body.parameters,
        )
    )


async def list_schedules(call: Call[None, None]) -> Answer:
    """List pending schedules."""
    rows = await workflows.list_schedules(call.services.desk, call.actor, call.path["id"])
    return Json(Schedules([ScheduleEntry(row.id, row.workflow, to_ms(row.due_at)) for row in rows]))


def _scheduled(schedule_id: str | None) -> Answer:
    """Answer without an id when the workflow was started at once, or the schedule cancelled (reference §4)."""
    return Empty() if schedule_id is None else Json(Scheduled(schedule_id))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/api/1/instances/{id}/{workflow}",
        operation_id="run_workflow",
        handler=run_workflow,
        summary="Runs a workflow on the instance.",
        tags=_TAGS,
        permission="RunInstanceWorkflow; EditInstance for destroy",
        body=JsonBody(dict[str, Any], required=False, media_optional=True, example={"input.size": "3"}),
        returns=Returns(Created, "The id of the instance.", {"id": _ID}),
        statuses=(403, 409),
        idempotency_key=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/instances/{id}/{workflow}/schedule",
        operation_id="schedule_workflow",
        handler=schedule_workflow,
        summary="Schedules a workflow; interval 0 runs it at once.",
        tags=_TAGS,
        permission="ScheduleInstanceWorkflow; EditInstance for destroy",
        body=JsonBody(ScheduleBody, example={"interval": "60000", "parameters": {}}),
        returns=Returns(
            Scheduled, "The id of the schedule; the empty object when the workflow was started.", {"id": _ID}
        ),
        statuses=(403, 409),
        idempotency_key=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/instances/{id}/{workflow}/reschedule",
        operation_id="reschedule_workflow",
        handler=reschedule_workflow,
        summary="Moves a schedule, named by its id or workflow; interval 0 cancels it.",
        tags=_TAGS,
        permission="ScheduleInstanceWorkflow; EditInstance for destroy",
        body=JsonBody(ScheduleBody, example={"interval": "0"}),
        returns=Returns(Scheduled, "The id of the schedule; the empty object when it was cancelled.", {"id": _ID}),
        statuses=(403,),
    ),
    Endpoint(
        method="GET",
        path="/api/1/instances/{id}/schedules",
        operation_id="list_schedules",
        handler=list_schedules,
        summary="Lists the pending schedules of the instance.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(
            Schedules,
            "The schedules, the next one first.",
            {"schedules": [{"id": _ID, "name": "destroy", "timestamp": 1_767_225_600_000}]},
        ),
        statuses=(403,),
    ),
)
