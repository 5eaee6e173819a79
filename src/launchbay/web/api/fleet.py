"""Instances of an organization, and labels (conformance.md, "Beyond the reference")."""

from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from launchbay.clock import from_ms, to_ms
from launchbay.errors import BadRequest
from launchbay.ids import is_id
from launchbay.limits import FILTER_VALUES, PAGE_ROWS, PAGE_ROWS_MAX
from launchbay.model import component_state
from launchbay.model.changes import FrozenKind
from launchbay.model.freezes import FreezeState, shown_freeze
from launchbay.model.instance import InstanceStatus, health_of
from launchbay.model.job import JobOutcome, JobStatus, Origin, is_cancellation
from launchbay.store.fleet import FleetJobRow, FleetRow
from launchbay.store.schedules import FleetScheduleRow
from launchbay.usecases import fleet
from launchbay.usecases.fleet import InstanceFilter, JobFilter, JobSort, SavedView, Sort
from launchbay.web.api.jobs import Beginning, beginning
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import MOMENT_LATEST_MS, Headers, JSONResponse, MomentMs, Response, next_link, optional_ms
from launchbay.web.routing import Returns, Routes

routes = Routes("Fleet", extension=True)
labels_routes = Routes("Labels", extension=True)

T = TypeVar("T")
TOTAL = "Launchbay-Total-Count"
_SCHEDULED = timedelta(days=31)


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


_Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ROWS_MAX, description="Maximum number of items.")]
_Version = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_After = Annotated[str | None, _about("Where the page begins: from the `Link` of the page before.")]
_Count = Annotated[bool, _about("Return the number of all items in the header `Launchbay-Total-Count`.")]


class FleetFilter(msgspec.Struct, frozen=True):
    """Which instances to choose. Lists are separated by commas."""

    status: Annotated[str | None, _about("Only instances in one of these statuses.")] = None
    lastStatus: Annotated[str | None, _about("Only instances whose last job ended so: Succeeded or Failed.")] = None
    degraded: Annotated[bool, _about("Only instances that run, but whose `health` is Degraded.")] = False
    drifted: Annotated[bool, _about("Only instances that somebody changed, by a check of their drift.")] = False
    observed: Annotated[bool, _about("Only instances that were adopted and aren't taken over yet.")] = False
    secretsChanged: Annotated[
        bool, _about("Only instances that read a secret of a provider which has changed since.")
    ] = False
    lastWorkflow: Annotated[str | None, _about("Only instances whose last job was one of these workflows.")] = None
    application: Annotated[str | None, _about("Only instances of applications with these IDs.")] = None
    environment: Annotated[str | None, _about("Only instances in environments with these IDs.")] = None
    owner: Annotated[str | None, _about("Only instances of the user with this ID.")] = None
    version: Annotated[_Version | None, _about("Only instances with this manifest version.")] = None
    labels: Annotated[str | None, _about("A selector of labels, such as `team=web,tier!=db`.")] = None
    expiresBefore: Annotated[
        MomentMs | None,
        _about("Only instances that are destroyed before this time, in milliseconds since the Unix epoch."),
    ] = None
    name: Annotated[str | None, _about("Only instances with exactly this name.")] = None
    namePart: Annotated[str | None, _about("Only instances whose name contains this text, in any case.")] = None
    q: Annotated[
        str | None,
        _about("Only instances with each of these words in the name, a label's value or at the start of the ID."),
    ] = None

    def filter(self) -> InstanceFilter:
        """Return what to look for. Raises BadRequest."""
        return InstanceFilter(
            statuses=text_values("status", self.status, known=list(InstanceStatus)),
            job_statuses=text_values("lastStatus", self.lastStatus, known=[JobStatus.SUCCEEDED, JobStatus.FAILED]),
            is_degraded=self.degraded,
            is_drifted=self.drifted,
            is_observed=self.observed,
            has_changed_secrets=self.secretsChanged,
            workflows=text_values("lastWorkflow", self.lastWorkflow),
            application_ids=id_values("application", self.application),
            environment_ids=id_values("environment", self.environment),
            owner_id=self.owner,
            version=self.version,
            expires_before=None if self.expiresBefore is None else from_ms(self.expiresBefore),
            name=self.name,
            name_part=self.namePart,
            search=self.q,
            labels=self.labels,
        )


class FleetQuery(FleetFilter, frozen=True):
    """Paging, filters and order of a list of instances."""

    limit: _Limit = PAGE_ROWS
    after: _After = None
    count: _Count = False
    sort: Annotated[str, _about("The order: name, created, lastJob or expiry; `-` before it reverses it.")] = "-created"


def _order(sort: str, orders: tuple[T, ...]) -> T:
    for order in orders:
        if order == sort:
            return order
    raise BadRequest(f"sort: {sort[:40]!r} is invalid. Use {', '.join(map(str, orders))}.", code="InvalidFilter")


def text_values(name: str, text: str | None, *, known: list[Any] | None = None) -> list[str] | None:
    if text is None:
        return None
    values = [each for part in text.split(",") if (each := part.strip())]
    if len(values) > FILTER_VALUES:
        raise BadRequest(f"{name} has {len(values)} values; at most {FILTER_VALUES} are allowed.", code="InvalidFilter")
    for value in values:
        if known is not None and value not in known:
            raise BadRequest(f"{name}: {value[:40]!r} is invalid. Use {', '.join(known)}.", code="InvalidFilter")
    return values


def id_values(name: str, text: str | None) -> list[str] | None:
    values = text_values(name, text)
    for value in values or ():
        if not is_id(value):
            raise BadRequest(f"{name}: {value[:40]!r} isn't an ID.", code="InvalidFilter")
    return values


class LastJob(msgspec.Struct):
    """The job that ended last. Times are in milliseconds since the Unix epoch.

    `cancelled` is true if somebody cancelled it: its status is Failed, but nothing went wrong.
    """

    id: str
    number: int | None
    workflow: str
    status: str
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    cancelled: bool


class ComponentCounts(msgspec.Struct):
    """How many components there are, and how many of them do what.

    The numbers add up to `total`. `busy` ones are in progress or being destroyed, `waiting` ones need an approval.
    `failed` and `interrupted` ones are so since the newest job.
    """

    total: int
    running: int
    failed: int
    busy: int
    waiting: int
    sleeping: int
    interrupted: int
    destroyed: int
    notStarted: int


class ComingDestroy(msgspec.Struct):
    """A destroy within its grace time, and what it changes to take it back.

    Of a submodule it is that of the instance that it goes with.
    """

    at: int
    text: str


class FreezeNote(msgspec.Struct):
    """Why nothing changes, or will change."""

    kind: Annotated[FrozenKind, _about("What is frozen.")]
    reason: str
    until: Annotated[int | None, _about("When the window ends. Null: until somebody lifts the freeze.")]
    beginsAt: Annotated[int | None, _about("When the window begins. Null: it has begun.")]


def freeze_note(freeze: FreezeState) -> FreezeNote:
    """Return a freeze as lists show it."""
    return FreezeNote(freeze.kind, freeze.reason, optional_ms(freeze.until), optional_ms(freeze.begins_at))


class FleetInstance(msgspec.Struct, kw_only=True):
    """An instance of the organization's list. Times are in milliseconds since the Unix epoch.

    `health` is Healthy, Degraded, Failed, Busy or Gone. A job that somebody cancelled doesn't make an instance Degraded
    that runs. `components` is null if it is
    unknown: no job of this version has ended, and its manifest compiles no more.
    """

    id: str
    name: str
    status: str
    health: str
    applicationId: str
    applicationName: str
    environmentId: str
    environmentName: str
    version: int
    ownerId: str
    parentId: str | None
    labels: dict[str, str]
    components: ComponentCounts | None
    createdAt: int | None
    destroyAt: Annotated[
        int | None,
        _about(
            "The nearest end: that of its lifetime, a scheduled destroy, or one that can be taken back. The field of "
            "the same name of `GET /instances/{id}` is only the end of its lifetime."
        ),
    ]
    lastJob: LastJob | None
    waitingDestroy: Annotated[
        ComingDestroy | None,
        _about("A destroy that can be taken back. Of a submodule, that of the instance that it goes with."),
    ] = None
    isAsleep: Annotated[bool, _about("Whether a sleep window has stopped it; its status stays Running.")] = False
    isDrifted: Annotated[bool, _about("Whether a check found that somebody changed it; its status stays.")] = False
    isObserved: Annotated[bool, _about("Whether it was adopted, and isn't taken over yet; its status stays.")] = False
    secretsChanged: Annotated[
        bool, _about("Whether it read a secret of a provider which has changed since; its status stays.")
    ] = False
    isFrozen: Annotated[
        bool, _about("Whether its environment or application is frozen, so that nothing on it changes.")
    ] = False
    freeze: Annotated[FreezeNote | None, _about("The freeze, or one that begins within 24 hours.")] = None


def fleet_instance(row: FleetRow, counts: component_state.ComponentCounts | None, now: datetime) -> FleetInstance:
    """Return an instance as the list shows it."""
    freeze = shown_freeze(row.freezes, now)
    assert row.id is not None, "rows without an instance are left out before"
    return FleetInstance(
        id=row.id,
        name=row.name,
        status=row.status,
        health=health_of(InstanceStatus(row.status), row.job_outcome, is_incomplete=row.is_incomplete),
        applicationId=row.application_id,
        applicationName=row.application,
        environmentId=row.environment_id,
        environmentName=row.environment,
        version=row.version,
        ownerId=row.owner_id,
        parentId=row.parent_id,
        labels=msgspec.json.decode(row.labels),
        components=None if counts is None else ComponentCounts(*counts),
        createdAt=optional_ms(row.created_at),
        destroyAt=optional_ms(row.destroy_at),
        lastJob=None if row.job_id is None else _last_job(row, row.job_id),
        waitingDestroy=None
        if row.destroy_due_at is None
        else ComingDestroy(to_ms(row.destroy_due_at), row.destruction or ""),
        isAsleep=row.is_asleep,
        isDrifted=row.is_drifted,
        isObserved=row.is_observed,
        secretsChanged=row.has_changed_secrets,
        isFrozen=freeze is not None and freeze.begins_at is None,
        freeze=None if freeze is None else freeze_note(freeze),
    )


def _last_job(row: FleetRow, job_id: str) -> LastJob:
    return LastJob(
        id=job_id,
        number=row.job_number,
        workflow=row.job_name or "",
        status=row.job_status or "",
        startedAt=row.job_started_at_ms,
        finishedAt=row.job_ended_at_ms,
        errorMessage=row.job_error,
        cancelled=is_cancellation(row.job_error),
    )


@routes.get(
    "/organizations/{orgId}/instances",
    command="organization instances",
    permission="Read on each instance returned",
    returns=Returns("The instances.", type=list[FleetInstance]),
)
async def list_organization_instances(request: Request[None, FleetQuery]) -> Response:
    """List the instances of an organization, by filters."""
    query = request.query
    page = await fleet.list_instances(
        request.ctx,
        request.path["orgId"],
        query.filter(),
        sort=_order(query.sort, get_args(Sort)),
        after=query.after,
        count=query.limit,
        counts=query.count,
        counts_components=True,
    )
    link: Headers = () if page.next_after is None else next_link(request, page.next_after.to_text())
    total: Headers = () if page.total is None else ((TOTAL, str(page.total)),)
    now = request.ctx.app.clock.now()
    shown = [fleet_instance(row, page.components.get(row.id or ""), now) for row in page.rows]
    return JSONResponse(shown, (*link, *total))


class FleetJobQuery(msgspec.Struct, frozen=True):
    """Paging, filters and order of a list of jobs. Lists are separated by commas."""

    limit: _Limit = PAGE_ROWS
    after: _After = None
    count: Annotated[
        bool, _about("Return the number of all items, up to 100,000, in the header `Launchbay-Total-Count`.")
    ] = False
    status: Annotated[str | None, _about("Only jobs in one of these statuses: Executing, Succeeded, Failed.")] = None
    workflow: Annotated[str | None, _about("Only jobs of these workflows.")] = None
    application: Annotated[str | None, _about("Only jobs of applications with these IDs.")] = None
    environment: Annotated[str | None, _about("Only jobs in environments with these IDs.")] = None
    owner: Annotated[str | None, _about("Only jobs of the user with this ID.")] = None
    since: Annotated[
        MomentMs | None, _about("Only jobs accepted at this time or later, in milliseconds since the Unix epoch.")
    ] = None
    until: Annotated[
        MomentMs | None, _about("Only jobs accepted before this time, in milliseconds since the Unix epoch.")
    ] = None
    instance: Annotated[str | None, _about("Only jobs of instances with these IDs.")] = None
    number: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None,
        _about("Only the job with this number of each of these instances. Needs `instance`."),
    ] = None
    idPart: Annotated[
        Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F]{4,24}\Z")] | None,
        _about("Only jobs whose ID begins with these 4 or more characters."),
    ] = None
    longerThan: Annotated[
        MomentMs | None, _about("Only jobs that took this many milliseconds or more from their acceptance.")
    ] = None
    q: Annotated[
        str | None,
        _about(
            "Only jobs of instances with each of these words in the name, a label's value or at the start of the ID."
        ),
    ] = None
    sort: Annotated[str, _about("The order: created, or -created for the newest first.")] = "-created"

    def filter(self) -> JobFilter:
        """Return what to look for. Raises BadRequest."""
        if self.number is not None and self.instance is None:
            raise BadRequest("number: add instance, since jobs are numbered in their instance.", code="InvalidFilter")
        return JobFilter(
            number=self.number,
            id_part=None if self.idPart is None else self.idPart.lower(),
            statuses=text_values("status", self.status, known=list(JobStatus)),
            workflows=text_values("workflow", self.workflow),
            application_ids=id_values("application", self.application),
            environment_ids=id_values("environment", self.environment),
            owner_id=self.owner,
            since=None if self.since is None else from_ms(self.since),
            until=None if self.until is None else from_ms(self.until),
            instance_ids=id_values("instance", self.instance),
            longer_than=None if self.longerThan is None else timedelta(milliseconds=self.longerThan),
            search=self.q,
        )


class FleetJob(msgspec.Struct, kw_only=True):
    """A job of the organization's list. Times are in milliseconds since the Unix epoch.

    `currentStep` is the path of the step that began last, of a job under way. `cancelled` is true if somebody cancelled
    the job: its status is Failed, but nothing went wrong.
    """

    id: str
    number: int | None
    workflow: str
    status: str
    instanceId: str
    instanceName: str
    applicationId: str
    applicationName: str
    environmentId: str
    environmentName: str
    ownerId: str
    parentJobId: str | None
    createdAt: int
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    cancelled: bool
    currentStep: str | None
    beganBy: Beginning


@routes.get(
    "/organizations/{orgId}/jobs",
    command="organization jobs",
    permission="Read on the instance of each job",
    returns=Returns("The jobs.", type=list[FleetJob]),
)
async def list_organization_jobs(request: Request[None, FleetJobQuery]) -> Response:
    """List the jobs of an organization."""
    query = request.query
    page = await fleet.list_jobs(
        request.ctx,
        request.path["orgId"],
        query.filter(),
        sort=_order(query.sort, get_args(JobSort)),
        after=query.after,
        count=query.limit,
        counts=query.count,
    )
    link: Headers = () if page.next_after is None else next_link(request, page.next_after.to_text())
    total: Headers = () if page.total is None else ((TOTAL, str(page.total)),)
    return JSONResponse([_fleet_job(row) for row in page.rows], (*link, *total))


def _fleet_job(row: FleetJobRow) -> FleetJob:
    assert row.id is not None, "rows without a job are left out before"
    return FleetJob(
        id=row.id,
        number=row.number,
        workflow=row.name,
        status=row.status,
        instanceId=row.instance_id,
        instanceName=row.instance,
        applicationId=row.application_id,
        applicationName=row.application,
        environmentId=row.environment_id,
        environmentName=row.environment,
        ownerId=row.owner_id,
        parentJobId=row.parent_job_id,
        createdAt=row.created_at_ms,
        startedAt=row.started_at_ms,
        finishedAt=row.finished_at_ms,
        errorMessage=row.error,
        cancelled=is_cancellation(row.error),
        currentStep=row.current_step,
        beganBy=_beginning(row),
    )


def _beginning(row: FleetJobRow) -> Beginning:
    owner = row.owner or ""
    if row.parent_job_id is not None:
        return Beginning("job", row.parent_job_id, row.parent_workflow or "", owner)
    origin = None if row.origin_kind is None else Origin(row.origin_kind, row.origin_id, row.origin_name or "")
    return beginning(origin, row.plan_kind, row.name, row.owner_id, owner)


class SummaryPart(msgspec.Struct, kw_only=True):
    """How many instances an application or environment has."""

    id: str
    name: str
    total: int
    byStatus: dict[str, int]
    byLastStatus: dict[str, int]


class FleetSummary(msgspec.Struct, kw_only=True):
    """How many instances there are, and what happens."""

    total: int
    byStatus: dict[str, int]
    byLastStatus: Annotated[dict[str, int], _about("By the status of the last job.")]
    running: Annotated[int, _about("Jobs under way.")]
    approvals: Annotated[int, _about("Approvals that wait.")]
    expiring: Annotated[int, _about("Instances that are destroyed within a day.")]
    failures: Annotated[int, _about("Jobs that failed within the last day, without cancelled ones.")]
    applications: list[SummaryPart]
    environments: list[SummaryPart]


@routes.get(
    "/organizations/{orgId}/summary",
    command="organization summary",
    permission="Read on each instance counted",
    returns=Returns("The summary."),
)
async def read_summary(request: Request[None, None]) -> FleetSummary:
    """Summarize the instances of an organization."""
    found = await fleet.summarize(request.ctx, request.path["orgId"])
    applications: dict[str, SummaryPart] = {}
    environments: dict[str, SummaryPart] = {}
    whole = _part("", "")
    for group in found.groups:
        for part in (
            whole,
            applications.setdefault(group.application_id, _part(group.application_id, group.application)),
            environments.setdefault(group.environment_id, _part(group.environment_id, group.environment)),
        ):
            part.total += group.instances
            part.byStatus[group.status] = part.byStatus.get(group.status, 0) + group.instances
            if group.job_status is not None:
                status = JobStatus.FAILED if group.job_status == JobOutcome.CANCELLED else group.job_status
                part.byLastStatus[status] = part.byLastStatus.get(status, 0) + group.instances
    return FleetSummary(
        total=whole.total,
        byStatus=whole.byStatus,
        byLastStatus=whole.byLastStatus,
        running=found.work.running,
        approvals=found.work.approvals,
        expiring=found.work.expiring,
        failures=found.work.failures,
        applications=list(applications.values()),
        environments=sorted(environments.values(), key=lambda part: (part.name, part.id)),
    )


def _part(part_id: str, name: str) -> SummaryPart:
    return SummaryPart(id=part_id, name=name, total=0, byStatus={}, byLastStatus={})


class FleetSchedulesQuery(msgspec.Struct, frozen=True):
    """The time to look at, in milliseconds since the Unix epoch, and the most schedules to return."""

    since: Annotated[MomentMs | None, _about("Only schedules from this time on; by default, from now on.")] = None
    until: Annotated[MomentMs | None, _about("Only schedules before this time; by default, within 31 days.")] = None
    limit: _Limit = PAGE_ROWS_MAX
    after: _After = None


class FleetSchedule(msgspec.Struct, kw_only=True):
    """A scheduled workflow. `component` is set for a schedule of the manifest, which recurs.

    A cancelled one would have run at `dueAt`.
    """

    id: str
    instanceId: str
    instanceName: str
    applicationId: str
    environmentId: str
    workflow: str
    dueAt: int
    ownerId: str
    component: str | None
    cancelledAt: int | None
    cancelledBy: str | None
    instanceEndsAt: Annotated[
        int | None, _about("When the instance is destroyed. A schedule that is due later doesn't run.")
    ] = None


@routes.get(
    "/organizations/{orgId}/schedules",
    command="organization schedules",
    permission="Read on each instance returned",
    returns=Returns("The schedules, next one first.", type=list[FleetSchedule]),
)
async def list_organization_schedules(request: Request[None, FleetSchedulesQuery]) -> Response:
    """List what is scheduled on the instances of an organization."""
    query = request.query
    since = request.ctx.app.clock.now() if query.since is None else from_ms(query.since)
    until = from_ms(MOMENT_LATEST_MS if query.until is None else query.until)
    if query.until is None and until - since > _SCHEDULED:
        until = since + _SCHEDULED
    rows = await fleet.list_schedules(
        request.ctx, request.path["orgId"], since=since, until=until, count=query.limit + 1, after=query.after
    )
    link = next_link(request, fleet.schedule_cursor(rows[query.limit - 1])) if len(rows) > query.limit else ()
    return JSONResponse([_schedule(row) for row in rows[: query.limit]], link)


def _schedule(row: FleetScheduleRow) -> FleetSchedule:
    return FleetSchedule(
        id=row.id,
        instanceId=row.instance_id,
        instanceName=row.instance,
        applicationId=row.application_id,
        environmentId=row.environment_id,
        workflow=row.workflow,
        dueAt=to_ms(row.due_at),
        ownerId=row.owner_id,
        component=row.component or None,
        cancelledAt=optional_ms(row.cancelled_at),
        cancelledBy=row.cancelled_by,
        instanceEndsAt=optional_ms(row.ends_at),
    )


class SavedViews(msgspec.Struct, forbid_unknown_fields=True):
    """Queries of lists that a person keeps; `of` names the list."""

    views: list[SavedView]


_VIEWS = {"views": [{"name": "Failed of team Quay", "query": "status:failed label:team=quay", "of": "instances"}]}


@routes.get(
    "/organizations/{orgId}/views",
    command="organization views",
    permission="None: every member",
    returns=Returns("Your views.", _VIEWS),
    statuses=(403,),
)
async def read_views(request: Request[None, None]) -> SavedViews:
    """Show your own saved views of lists."""
    return SavedViews(await fleet.read_views(request.ctx, request.path["orgId"]))


@routes.put(
    "/organizations/{orgId}/views",
    command="organization set-views",
    permission="None: every member",
    body=JsonBody(required=True, example=_VIEWS),
    statuses=(403,),
)
async def replace_views(request: Request[SavedViews, None]) -> None:
    """Replace your own saved views of lists."""
    await fleet.replace_views(request.ctx, request.path["orgId"], request.body.views)


_LABELS = JsonBody(required=True, example={"team": "web", "tier": "db"})
_SHOWN = Returns("The labels.", {"team": "web"}, type=dict[str, str])


@labels_routes.get("/instances/{id}/labels", command="instance labels", permission="Read", returns=_SHOWN)
async def read_instance_labels(request: Request[None, None]) -> Response:
    """Show the labels of an instance."""
    return JSONResponse(await fleet.read_object_labels(request.ctx, "instance", request.path["id"]))


@labels_routes.put("/instances/{id}/labels", command="instance set-labels", permission="EditInstance", body=_LABELS)
async def put_instance_labels(request: Request[dict[str, Any], None]) -> None:
    """Replace the labels of an instance."""
    await fleet.put_labels(request.ctx, "instance", request.path["id"], request.body)


@labels_routes.get("/applications/{appId}/labels", command="application labels", permission="Read", returns=_SHOWN)
async def read_application_labels(request: Request[None, None]) -> Response:
    """Show the labels of an application."""
    return JSONResponse(await fleet.read_object_labels(request.ctx, "application", request.path["appId"]))


@labels_routes.put(
    "/applications/{appId}/labels", command="application set-labels", permission="EditApplication", body=_LABELS
)
async def put_application_labels(request: Request[dict[str, Any], None]) -> None:
    """Replace the labels of an application."""
    await fleet.put_labels(request.ctx, "application", request.path["appId"], request.body)


@labels_routes.get("/environments/{envId}/labels", command="environment labels", permission="Read", returns=_SHOWN)
async def read_environment_labels(request: Request[None, None]) -> Response:
    """Show the labels of an environment."""
    return JSONResponse(await fleet.read_object_labels(request.ctx, "environment", request.path["envId"]))


@labels_routes.put(
    "/environments/{envId}/labels", command="environment set-labels", permission="EditEnvironment", body=_LABELS
)
async def put_environment_labels(request: Request[dict[str, Any], None]) -> None:
    """Replace the labels of an environment."""
    await fleet.put_labels(request.ctx, "environment", request.path["envId"], request.body)
