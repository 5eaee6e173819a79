"""Recurring schedules (conformance.md, "Beyond the reference")."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from launchbay import limits
from launchbay.clock import from_ms, to_ms
from launchbay.errors import BadRequest
from launchbay.features.bulk.api import BulkBody
from launchbay.features.recurring import usecases as recurring
from launchbay.features.recurring.usecases import Doing, Firing, RecurringRequest, RecurringView, Timing
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import JSONResponse, Pages, Response, optional_ms, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Recurring schedules", extension=True)

_Cron = Annotated[
    str,
    msgspec.Meta(
        max_length=400,
        description="Five fields (minute, hour, day, month, weekday), or six or seven of Quartz with seconds first.",
    ),
]
_Zone = Annotated[str, msgspec.Meta(max_length=80, description="An IANA time zone, such as Europe/Berlin.")]
_Bound = Annotated[int, msgspec.Meta(ge=0, le=limits.TIME_LATEST_MS, description="Milliseconds since the Unix epoch.")]
_Jitter = Annotated[
    int,
    msgspec.Meta(
        ge=0, le=limits.RECURRING_JITTER_MS, description="Delay each firing by a random time up to this, in ms."
    ),
]


class TimingBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When a schedule fires, and its name."""

    name: str
    cron: _Cron
    zone: _Zone = "UTC"
    startsAt: _Bound | None = None
    endsAt: _Bound | None = None
    paused: bool = False
    whenBusy: Annotated[
        Literal["skip", "queue"],
        msgspec.Meta(description="While a job of the instance runs: `skip` leaves the time out, `queue` waits."),
    ] = "skip"
    jitterMs: _Jitter = 0

    def timing(self) -> Timing:
        """Return when it fires."""
        return Timing(
            cron=self.cron,
            zone=self.zone,
            starts_at=None if self.startsAt is None else from_ms(self.startsAt),
            ends_at=None if self.endsAt is None else from_ms(self.endsAt),
            is_paused=self.paused,
            when_busy=self.whenBusy,
            jitter_ms=self.jitterMs,
        )


class RecurringBody(TimingBody, kw_only=True, forbid_unknown_fields=True):
    """A recurring schedule: when it fires, and one of three things to do.

    With `instanceId`, a workflow with parameters. With `applicationId`, a launch, whose body is `launch`. With `bulk`,
    a bulk run.
    """

    instanceId: str | None = None
    workflow: str | None = None
    parameters: dict[str, Any] = {}
    applicationId: str | None = None
    launch: dict[str, Any] | None = None
    bulk: BulkBody | None = None
    preview: Annotated[bool, msgspec.Meta(description="Only show the next times.")] = False

    def request(self) -> RecurringRequest:
        """Return what is asked for. Raises BadRequest unless it is one thing."""
        given = [name for name in ("instanceId", "applicationId", "bulk") if getattr(self, name) is not None]
        if len(given) != 1:
            raise BadRequest("Give one of instanceId, applicationId and bulk.", code="InvalidSchedule")
        if (self.workflow is not None or self.parameters) and self.instanceId is None:
            raise BadRequest("workflow and parameters need instanceId.", code="InvalidSchedule")
        if self.instanceId is not None and not self.workflow:
            raise BadRequest("instanceId needs a workflow.", code="InvalidSchedule")
        if self.launch is not None and self.applicationId is None:
            raise BadRequest("launch needs applicationId.", code="InvalidSchedule")
        return RecurringRequest(
            name=self.name,
            timing=self.timing(),
            doing=self._doing(),
            instance_id=self.instanceId,
            application_id=self.applicationId,
        )

    def _doing(self) -> Doing:
        if self.bulk is None:
            return Doing(
                workflow=self.workflow,
                parameters=self.parameters,
                launch=self.launch or ({} if self.applicationId is not None else None),
            )
        if self.bulk.preview:
            raise BadRequest("bulk: a schedule can't repeat a preview.", code="InvalidSchedule")
        wanted = self.bulk.request()
        return Doing(
            bulk=wanted.act,
            ids=wanted.ids,
            wanted=wanted.wanted,
            max_parallel=wanted.max_parallel,
            stop_after_failures=wanted.stop_after_failures,
        )


class FiringDocument(msgspec.Struct, kw_only=True):
    """A firing; times are in milliseconds since the Unix epoch.

    `jobStatus` is the present one.
    """

    dueAt: int
    at: int
    outcome: Annotated[str, msgspec.Meta(description="Started, Skipped (it was busy or frozen) or Refused.")]
    message: str | None = None
    jobId: str | None = None
    jobStatus: str | None = None
    instanceId: str | None = None
    bulkId: str | None = None


class RecurringDocument(msgspec.Struct, kw_only=True):
    """A recurring schedule; times are in milliseconds since the Unix epoch.

    `nextAt` are the next five times without jitter, before the end of the instance. `firings` are the last twenty, the
    newest first. A preview has no `id`.
    """

    id: str | None
    name: str
    kind: Annotated[str, msgspec.Meta(description="run, launch or bulk.")]
    status: Annotated[
        str,
        msgspec.Meta(
            description="Active, Paused, or Ended: no time is left, or its instance is deleted; Preview for a preview."
        ),
    ]
    cron: str
    zone: str
    startsAt: int | None
    endsAt: int | None
    whenBusy: str
    jitterMs: int
    instanceId: str | None
    applicationId: str | None
    workflow: str | None
    act: Annotated[str | None, msgspec.Meta(description="The act of a bulk run.")]
    nextAt: list[int]
    warnings: Annotated[
        list[str] | None,
        msgspec.Meta(description="What the author of `cron` may not expect. null in lists, which don't look for it."),
    ]
    instanceEndsAt: Annotated[
        int | None, msgspec.Meta(description="When the instance is destroyed: then the schedule runs no more.")
    ] = None
    waitingSince: Annotated[
        int | None, msgspec.Meta(description="Since when it waits for a busy or frozen instance.")
    ] = None
    waitingFor: Annotated[str | None, msgspec.Meta(description="What a time that is due waits for.")] = None
    fired: int
    firings: list[FiringDocument]
    ownerId: str | None
    ownerEmail: str | None
    createdAt: int | None


class RecurringQuery(Pages, frozen=True):
    """Paging and filters of recurring schedules."""

    instance: Annotated[str | None, msgspec.Meta(description="Only those of this instance.")] = None
    application: Annotated[
        str | None, msgspec.Meta(description="Only those of this application and its instances.")
    ] = None


_EXAMPLE = {
    "name": "Nightly backup",
    "cron": "0 2 * * MON-FRI",
    "zone": "Europe/Berlin",
    "instanceId": "0123456789abcdef01234567",
    "workflow": "actions.backup",
    "whenBusy": "queue",
}
_CONTROL = "None for who made it, else EditInstance"


@routes.post(
    "/organizations/{orgId}/recurring-schedules",
    permission="ScheduleInstanceWorkflow; CreateInstance for a launch",
    body=JsonBody(example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("The recurring schedule, or its preview.", type=RecurringDocument),
    idempotency_key=True,
)
async def create_recurring_schedule(request: Request[RecurringBody, None]) -> Response:
    """Run a workflow, launch an application or begin a bulk run at the times of a cron expression."""
    wanted = request.body.request()
    if request.body.preview:
        preview = await recurring.preview_recurring_schedule(request.ctx, request.path["orgId"], wanted)
        return JSONResponse(_preview(wanted, preview))
    made = await recurring.create_recurring_schedule(request.ctx, request.path["orgId"], wanted)
    return JSONResponse(_document(made, now := request.ctx.app.clock.now(), made.warnings(now)))


@routes.get(
    "/organizations/{orgId}/recurring-schedules",
    permission="Read on the instance or application of each one returned",
    returns=Returns("The recurring schedules, newest first.", type=list[RecurringDocument]),
)
async def list_recurring_schedules(request: Request[None, RecurringQuery]) -> Response:
    """List the recurring schedules of an organization."""
    query = request.query
    limit = query.most_items
    rows = await recurring.list_recurring_schedules(
        request.ctx,
        request.path["orgId"],
        instance_id=query.instance,
        application_id=query.application,
        after=query.after,
        count=limit + 1,
    )
    return page(request, [_document(row, request.ctx.app.clock.now()) for row in rows], limit)


@routes.get(
    "/recurring-schedules/{scheduleId}",
    permission="Read on its instance or application",
    returns=Returns("The recurring schedule."),
)
async def read_recurring_schedule(request: Request[None, None]) -> RecurringDocument:
    """Show a recurring schedule with its next times and last firings."""
    view = await recurring.read_recurring_schedule(request.ctx, request.path["scheduleId"])
    return _document(view, now := request.ctx.app.clock.now(), view.warnings(now))


@routes.put(
    "/recurring-schedules/{scheduleId}",
    permission=_CONTROL,
    body=JsonBody(example={"name": "Nightly backup", "cron": "30 2 * * *", "zone": "Europe/Berlin"}, keeps_texts=TYPED),
    statuses=(403,),
)
async def update_recurring_schedule(request: Request[TimingBody, None]) -> None:
    """Replace the name and the times of a recurring schedule."""
    await recurring.update_recurring_schedule(
        request.ctx, request.path["scheduleId"], request.body.name, request.body.timing()
    )


@routes.post("/recurring-schedules/{scheduleId}/pause", permission=_CONTROL, statuses=(403,))
async def pause_recurring_schedule(request: Request[None, None]) -> None:
    """Pause a recurring schedule."""
    await recurring.pause_recurring_schedule(request.ctx, request.path["scheduleId"], paused=True)


@routes.post("/recurring-schedules/{scheduleId}/resume", permission=_CONTROL, statuses=(403,))
async def resume_recurring_schedule(request: Request[None, None]) -> None:
    """Resume a paused recurring schedule with its next time."""
    await recurring.pause_recurring_schedule(request.ctx, request.path["scheduleId"], paused=False)


@routes.delete("/recurring-schedules/{scheduleId}", permission=_CONTROL, statuses=(403,))
async def delete_recurring_schedule(request: Request[None, None]) -> None:
    """Delete a recurring schedule. What it has begun continues."""
    await recurring.delete_recurring_schedule(request.ctx, request.path["scheduleId"])


def _preview(wanted: RecurringRequest, preview: recurring.TimingPreview) -> RecurringDocument:
    timing, doing = wanted.timing, wanted.doing
    return RecurringDocument(
        id=None,
        name=wanted.name,
        kind=wanted.kind,
        status="Preview",
        cron=timing.cron,
        zone=timing.zone,
        startsAt=optional_ms(timing.starts_at),
        endsAt=optional_ms(timing.ends_at),
        whenBusy=timing.when_busy,
        jitterMs=timing.jitter_ms,
        instanceId=wanted.instance_id,
        applicationId=wanted.application_id,
        workflow=doing.workflow,
        act=None if doing.bulk is None else doing.bulk.act,
        nextAt=[to_ms(each) for each in preview.times],
        warnings=preview.warnings,
        instanceEndsAt=optional_ms(preview.instance_ends_at),
        fired=0,
        firings=[],
        ownerId=None,
        ownerEmail=None,
        createdAt=None,
    )


def _document(view: RecurringView, now: datetime, warnings: list[str] | None = None) -> RecurringDocument:
    schedule, doing = view.schedule, view.doing
    is_late = schedule.due_at is not None and schedule.fires_at is not None and schedule.jitter_ms == 0
    return RecurringDocument(
        id=schedule.id,
        name=schedule.name,
        kind=schedule.kind,
        status=schedule.status,
        cron=schedule.cron,
        zone=schedule.zone,
        startsAt=optional_ms(schedule.starts_at),
        endsAt=optional_ms(schedule.ends_at),
        whenBusy=schedule.when_busy,
        jitterMs=schedule.jitter_ms,
        instanceId=schedule.instance_id,
        applicationId=schedule.application_id,
        workflow=doing.workflow,
        act=None if doing.bulk is None else doing.bulk.act,
        nextAt=[to_ms(each) for each in view.next_at],
        warnings=warnings,
        instanceEndsAt=optional_ms(schedule.instance_ends_at),
        waitingSince=optional_ms(schedule.due_at) if is_late and schedule.fires_at != schedule.due_at else None,
        waitingFor=recurring.waiting_for(schedule, now),
        fired=schedule.fired,
        firings=[_firing(each, view) for each in view.firings],
        ownerId=schedule.owner_id,
        ownerEmail=schedule.owner_email,
        createdAt=to_ms(schedule.created_at),
    )


def _firing(firing: Firing, view: RecurringView) -> FiringDocument:
    return FiringDocument(
        dueAt=firing.due_at,
        at=firing.at,
        outcome=firing.outcome,
        message=firing.message,
        jobId=firing.job_id,
        jobStatus=view.statuses.get(firing.job_id or ""),
        instanceId=firing.instance_id,
        bulkId=firing.bulk_id,
    )
