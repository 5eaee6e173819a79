"""Bulk runs (conformance.md, "Beyond the reference")."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest
from launchbay.features.bulk import usecases as bulk
from launchbay.features.bulk.rows import BulkInstanceRow, BulkRun
from launchbay.features.bulk.usecases import Act, BulkRequest, ChosenInstance, read_act
from launchbay.limits import BULK_INSTANCES, BULK_PARALLEL
from launchbay.usecases.fleet import InstanceFilter
from launchbay.web.api.failures import FailureFilter
from launchbay.web.api.selection import OutcomeQuery, Selection, page_of_outcomes, place_id
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import JSONResponse, Pages, Response, optional_ms, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Bulk", extension=True)
of_failures = Routes("Failures", extension=True)

_PREVIEWED = 1_000


class BulkBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do, and with which instances: either `ids` or `select`.

    `expiresIn` is in milliseconds from the turn of the instance; -1 is never. A label that is null is removed.
    """

    act: Literal["run", "resume", "reconfigure", "extend", "destroy", "label"]
    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=BULK_INSTANCES)] | None = None
    select: Selection | None = None
    workflow: Annotated[str | None, msgspec.Meta(description="The workflow that `run` runs.")] = None
    parameters: dict[str, Any] = {}
    version: Annotated[int | None, msgspec.Meta(description="The manifest version of `reconfigure`.")] = None
    expiresIn: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    labels: dict[str, str | None] = {}
    maxParallel: Annotated[int, msgspec.Meta(ge=1, le=BULK_PARALLEL, description="Jobs at the same time.")] = 10
    stopAfterFailures: (
        Annotated[
            int, msgspec.Meta(ge=1, le=BULK_INSTANCES, description="Begin no more after so many failures and refusals.")
        ]
        | None
    ) = None
    preview: Annotated[bool, msgspec.Meta(description="Only show which instances the bulk run would include.")] = False

    def request(self) -> BulkRequest:
        """Return what is asked for. Raises BadRequest."""
        if (self.ids is None) == (self.select is None):
            raise BadRequest("Give either ids or select.", code="InvalidAct")
        act = Act(
            act=self.act,
            workflow=self.workflow,
            parameters=self.parameters,
            version=self.version,
            expires_in_ms=self.expiresIn,
            labels=self.labels,
        )
        wanted = InstanceFilter() if self.select is None else self.select.filter()
        return BulkRequest(
            act=act,
            ids=self.ids,
            wanted=wanted,
            max_parallel=self.maxParallel,
            stop_after_failures=self.stopAfterFailures,
        )


class BulkCounts(msgspec.Struct):
    """How many instances have each status."""

    waiting: int
    running: int
    succeeded: int
    failed: int
    refused: int
    cancelled: int


class BulkInstance(msgspec.Struct, kw_only=True):
    """An instance of a bulk run. `message` is why it failed or waits."""

    id: Annotated[str, msgspec.Meta(description="The place in the order, written as an ID.")]
    instanceId: str
    instanceName: str
    status: str
    jobId: str | None = None
    message: str | None = None
    startedAt: int | None = None
    finishedAt: int | None = None


class BulkDocument(msgspec.Struct, kw_only=True):
    """A bulk run. A preview has `instances`, at most 1,000, and no `id`."""

    id: str | None
    act: str
    workflow: str | None
    status: Annotated[
        str, msgspec.Meta(description="Running, Paused, Cancelled, Stopped or Finished; Preview for a preview.")
    ]
    counts: BulkCounts
    maxParallel: int
    stopAfterFailures: int | None
    ownerId: str
    createdAt: int | None
    finishedAt: Annotated[int | None, msgspec.Meta(description="Null while jobs are under way.")]
    instances: list[BulkInstance] | None = None
    waitingFor: Annotated[str | None, msgspec.Meta(description="What it waits for, and what ends that.")] = None


class BulkItem(msgspec.Struct, kw_only=True):
    """A bulk run of the list."""

    id: str
    act: str
    workflow: str | None
    status: str
    counts: BulkCounts
    ownerId: str
    createdAt: int
    finishedAt: int | None


_EXAMPLE = {"act": "resume", "select": {"lastStatus": "Failed", "labels": "team=web"}, "stopAfterFailures": 3}


@routes.post(
    "/organizations/{orgId}/bulk",
    permission="What the act needs on each instance",
    body=JsonBody(example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("The bulk run, or its preview.", type=BulkDocument),
    idempotency_key=True,
)
async def create_bulk(request: Request[BulkBody, None]) -> Response:
    """Run an act on many instances."""
    organization_id, wanted = request.path["orgId"], request.body.request()
    if request.body.preview:
        chosen = await bulk.preview_bulk(request.ctx, organization_id, wanted)
        return JSONResponse(_preview(request.actor.user_id, wanted, chosen))
    bulk_id = await bulk.create_bulk(request.ctx, organization_id, wanted)
    return JSONResponse(bulk_document(await bulk.read_bulk(request.ctx, bulk_id)))


@routes.get(
    "/organizations/{orgId}/bulk",
    permission="Read",
    returns=Returns("The bulk runs, newest first.", type=list[BulkItem]),
)
async def list_bulks(request: Request[None, Pages]) -> Response:
    """List the bulk runs of an organization."""
    limit = request.query.most_items
    rows = await bulk.list_bulk_runs(request.ctx, request.path["orgId"], after=request.query.after, count=limit + 1)
    return page(request, [_item(row) for row in rows], limit)


@routes.get("/bulk/{bulkId}", permission="Read", returns=Returns("The bulk run."))
async def read_bulk(request: Request[None, None]) -> BulkDocument:
    """Show a bulk run."""
    return bulk_document(await bulk.read_bulk(request.ctx, request.path["bulkId"]))


@routes.get(
    "/bulk/{bulkId}/instances",
    command="bulk instances",
    permission="Read on each instance returned",
    returns=Returns("The instances in their order, with their outcomes.", type=list[BulkInstance]),
)
async def list_bulk_instances(request: Request[None, OutcomeQuery]) -> Response:
    """List the instances of a bulk run."""
    read = partial(bulk.list_bulk_instances, request.ctx, request.path["bulkId"], status=request.query.status)
    return await page_of_outcomes(request, read, _outcome)


_CONTROL = "None for who began it, else EditInstance"


@routes.post("/bulk/{bulkId}/pause", permission=_CONTROL, statuses=(403, 409))
async def pause_bulk(request: Request[None, None]) -> None:
    """Pause a bulk run.

    Jobs under way continue. Others than who began it need the permission for all instances.
    """
    await bulk.control_bulk(request.ctx, request.path["bulkId"], "Paused")


@routes.post("/bulk/{bulkId}/continue", permission=_CONTROL, statuses=(403, 409))
async def continue_bulk(request: Request[None, None]) -> None:
    """Continue a paused bulk run."""
    await bulk.control_bulk(request.ctx, request.path["bulkId"], "Running")


@routes.post("/bulk/{bulkId}/cancel", permission=_CONTROL, statuses=(403, 409))
async def cancel_bulk(request: Request[None, None]) -> None:
    """Cancel a bulk run.

    Instances that wait get no turn. Jobs under way continue.
    """
    await bulk.control_bulk(request.ctx, request.path["bulkId"], "Cancelled")


def _counts(run: BulkRun) -> BulkCounts:
    counts = bulk.counts_of(run)
    return BulkCounts(*(counts[name.capitalize()] for name in BulkCounts.__struct_fields__))


def bulk_document(run: BulkRun) -> BulkDocument:
    return BulkDocument(
        **_fields(run),
        maxParallel=run.max_parallel,
        stopAfterFailures=run.stop_after_failures,
        waitingFor=bulk.waiting_for(run),
    )


def _item(run: BulkRun) -> BulkItem:
    return BulkItem(**_fields(run))


def _fields(run: BulkRun) -> dict[str, Any]:
    """Return the fields that a bulk run has everywhere."""
    act = read_act(run.act)
    return {
        "id": run.id,
        "act": act.act,
        "workflow": act.workflow,
        "status": run.status,
        "counts": _counts(run),
        "ownerId": run.owner_id,
        "createdAt": to_ms(run.created_at),
        "finishedAt": optional_ms(run.finished_at),
    }


def _preview(owner_id: str, wanted: BulkRequest, chosen: list[ChosenInstance]) -> BulkDocument:
    refused = sum(each.refusal is not None for each in chosen)
    return BulkDocument(
        id=None,
        act=wanted.act.act,
        workflow=wanted.act.workflow,
        status="Preview",
        counts=BulkCounts(len(chosen) - refused, 0, 0, 0, refused, 0),
        maxParallel=wanted.max_parallel,
        stopAfterFailures=wanted.stop_after_failures,
        ownerId=owner_id,
        createdAt=None,
        finishedAt=None,
        instances=[
            BulkInstance(
                id=place_id(place),
                instanceId=each.row.id or "",
                instanceName=each.row.name,
                status="Waiting" if each.refusal is None else "Refused",
                message=each.refusal,
            )
            for place, each in enumerate(chosen[:_PREVIEWED], 1)
        ],
    )


def _outcome(row: BulkInstanceRow) -> BulkInstance:
    return BulkInstance(
        id=place_id(row.place),
        instanceId=row.instance_id,
        instanceName=row.instance_name,
        status=row.status,
        jobId=row.job_id,
        message=row.message,
        startedAt=optional_ms(row.started_at),
        finishedAt=optional_ms(row.finished_at),
    )


@of_failures.post(
    "/organizations/{orgId}/failures/{failureId}/resume",
    command="organization resume-failure",
    permission="What resuming needs on each instance",
    returns=Returns("The bulk run."),
)
async def resume_failures(request: Request[None, FailureFilter]) -> BulkDocument:
    """Resume all instances with a failure, by a bulk run.

    It leaves out those on which another job has ended since, and says how many. It names those it refused, each with
    the reason. With `instance`, it resumes those of the given instances whose last job failed so, whatever made them
    Failed.
    """
    bulk_id = await bulk.resume_failures(
        request.ctx, request.path["orgId"], request.path["failureId"], request.query.filter()
    )
    return bulk_document(await bulk.read_bulk(request.ctx, bulk_id))
