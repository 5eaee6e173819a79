"""Rollouts: a manifest version for many instances, in waves."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest
from launchbay.features.rollouts import usecases as rollouts
from launchbay.features.rollouts.rows import Rollout, RolloutInstanceRow
from launchbay.features.rollouts.usecases import RolloutRequest
from launchbay.limits import (
    BULK_INSTANCES,
    BULK_PARALLEL,
    ROLLOUT_PAUSE_LONGEST_MS,
    ROLLOUT_WAVES,
)
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import InstanceFilter
from launchbay.web.api.selection import Selection, page_of_outcomes, place_id
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Pages, Response, optional_ms, page
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Changes", extension=True)


class RolloutBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which version, and for which instances of the application: all, `ids` or `select`."""

    applicationId: str
    version: Annotated[int, msgspec.Meta(ge=1, lt=2**31, description="The manifest version that the instances get.")]
    ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=BULK_INSTANCES)] | None = None
    select: Selection | None = None
    waves: Annotated[
        list[int | str],
        msgspec.Meta(
            max_length=ROLLOUT_WAVES,
            description="Numbers of instances, or percentages such as `10%`. The others are the last wave.",
        ),
    ] = []
    pause: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0,
                le=ROLLOUT_PAUSE_LONGEST_MS,
                description="Milliseconds between two waves. Null waits until somebody continues.",
            ),
        ]
        | None
    ) = 0
    healthWorkflow: Annotated[
        str | None, msgspec.Meta(description="A command that has to succeed on each instance with the version.")
    ] = None
    maxParallel: Annotated[int, msgspec.Meta(ge=1, le=BULK_PARALLEL, description="Jobs at the same time.")] = 10
    stopAfterFailures: Annotated[
        int, msgspec.Meta(ge=1, le=BULK_INSTANCES, description="Failed instances that end the rollout.")
    ] = 1
    onFailure: Annotated[
        Literal["stop", "takeBack"],
        msgspec.Meta(
            description="What happens after so many failures: `stop`, or `takeBack` to return to the version before."
        ),
    ] = "stop"
    comment: str = ""

    def request(self) -> RolloutRequest:
        """Return what is asked for. Raises BadRequest."""
        if self.ids is not None and self.select is not None:
            raise BadRequest("Give either ids or select.", code="InvalidAct")
        return RolloutRequest(
            application_id=self.applicationId,
            version=self.version,
            ids=self.ids,
            wanted=InstanceFilter() if self.select is None else self.select.filter(),
            waves=self.waves,
            pause_ms=self.pause,
            health_workflow=self.healthWorkflow,
            max_parallel=self.maxParallel,
            stop_after_failures=self.stopAfterFailures,
            on_failure=self.onFailure,
            comment=self.comment,
        )


class RolloutCounts(msgspec.Struct):
    """How many instances have each status."""

    waiting: int
    running: int
    unchecked: int
    checking: int
    succeeded: int
    failed: int
    refused: int
    returning: int
    returned: int
    lost: int
    skipped: int


class RolloutDocument(msgspec.Struct, kw_only=True):
    """A rollout. `waves` are numbers of instances, `wave` is the present one."""

    id: str
    applicationId: str
    version: int
    status: Annotated[str, msgspec.Meta(description="Running, Waiting, Stopped, Finished, Returning or Returned.")]
    counts: RolloutCounts
    waves: list[int]
    wave: int
    waveDoneAt: int | None
    pause: int | None
    healthWorkflow: str | None
    maxParallel: int
    stopAfterFailures: int
    onFailure: str
    comment: str
    ownerId: str
    createdAt: int
    finishedAt: int | None
    waitingFor: Annotated[
        str | None, msgspec.Meta(description="What it waits for, since when, and what ends that.")
    ] = None
    message: Annotated[
        str | None,
        msgspec.Meta(description="Which instance failed first and why. It stays when the rollout is taken back."),
    ] = None


class RolloutInstance(msgspec.Struct, kw_only=True):
    """An instance of a rollout. `generation` is the one that it goes back to."""

    id: Annotated[str, msgspec.Meta(description="The place in the order, written as an ID.")]
    wave: int
    instanceId: str
    instanceName: str
    formerVersion: int
    generation: int | None
    status: str
    jobId: str | None
    message: str | None
    startedAt: int | None
    finishedAt: int | None


_Status = Literal[  # as in migration 0056
    "Waiting", "Running", "Unchecked", "Checking", "Succeeded", "Failed", "Refused", "Returning", "Returned", "Lost",
    "Skipped",
]  # fmt: skip


class RolloutInstanceQuery(Pages, frozen=True):
    """Paging and filter of the instances of a rollout."""

    status: Annotated[_Status | None, msgspec.Meta(description="Only instances with this status.")] = None


_EXAMPLE = {
    "applicationId": EXAMPLE_ID,
    "version": 4,
    "waves": [1, "10%"],
    "pause": 600_000,
    "healthWorkflow": "check",
    "onFailure": "takeBack",
}
_SHOWN = Returns("The rollout.", type=RolloutDocument)


@routes.post(
    "/organizations/{orgId}/rollouts",
    permission="EditInstance",
    body=JsonBody(example=_EXAMPLE),
    returns=_SHOWN,
    idempotency_key=True,
)
async def create_rollout(request: Request[RolloutBody, None]) -> RolloutDocument:
    """Bring a manifest version to instances in waves."""
    made = await rollouts.create_rollout(request.ctx, request.path["orgId"], request.body.request())
    return await _read(request.ctx, made)


@routes.get(
    "/organizations/{orgId}/rollouts",
    permission="Read",
    returns=Returns("The rollouts, newest first.", type=list[RolloutDocument]),
)
async def list_rollouts(request: Request[None, Pages]) -> Response:
    """List the rollouts of an organization."""
    limit = request.query.most_items
    rows = await rollouts.list_rollouts(request.ctx, request.path["orgId"], after=request.query.after, count=limit + 1)
    failures = await rollouts.read_failures(request.ctx, request.path["orgId"], [row.id for row in rows])
    return page(request, [_document(row, failures) for row in rows], limit)


@routes.get("/rollouts/{rolloutId}", permission="Read", returns=_SHOWN)
async def read_rollout(request: Request[None, None]) -> RolloutDocument:
    """Show a rollout."""
    return await _read(request.ctx, request.path["rolloutId"])


@routes.get(
    "/rollouts/{rolloutId}/instances",
    command="rollout instances",
    permission="Read on each instance returned",
    returns=Returns("The instances in their order, with their outcomes.", type=list[RolloutInstance]),
)
async def list_rollout_instances(request: Request[None, RolloutInstanceQuery]) -> Response:
    """List the instances of a rollout."""
    status = request.query.status
    read = partial(rollouts.list_rollout_instances, request.ctx, request.path["rolloutId"], status=status)
    return await page_of_outcomes(request, read, _outcome)


_CONTROL = "EditInstance, or to have begun it"


@routes.post("/rollouts/{rolloutId}/stop", permission=_CONTROL, statuses=(409,))
async def stop_rollout(request: Request[None, None]) -> None:
    """Stop a rollout. Its jobs continue."""
    await rollouts.control_rollout(request.ctx, request.path["rolloutId"], "stop")


@routes.post("/rollouts/{rolloutId}/continue", permission=_CONTROL, statuses=(409,))
async def continue_rollout(request: Request[None, None]) -> None:
    """Continue a stopped or waiting rollout."""
    await rollouts.control_rollout(request.ctx, request.path["rolloutId"], "continue")


@routes.post("/rollouts/{rolloutId}/take-back", command="rollout take-back", permission=_CONTROL, statuses=(409,))
async def take_back_rollout(request: Request[None, None]) -> None:
    """Take the changes of a rollout back."""
    await rollouts.control_rollout(request.ctx, request.path["rolloutId"], "take-back")


async def _read(ctx: Context, rollout_id: str) -> RolloutDocument:
    found = await rollouts.read_rollout(ctx, rollout_id)
    return _document(found, await rollouts.read_failures(ctx, found.organization_id, [found.id]))


def _document(row: Rollout, failures: Mapping[str, str]) -> RolloutDocument:
    counts = rollouts.counts_of(row)
    return RolloutDocument(
        id=row.id,
        applicationId=row.application_id,
        version=row.version,
        status=row.status,
        counts=RolloutCounts(*(counts[name[0].upper() + name[1:]] for name in RolloutCounts.__struct_fields__)),
        waves=row.waves,
        wave=row.wave,
        waveDoneAt=optional_ms(row.wave_done_at),
        pause=row.pause_ms,
        healthWorkflow=row.health_workflow,
        maxParallel=row.max_parallel,
        stopAfterFailures=row.stop_after_failures,
        onFailure=row.on_failure,
        comment=row.comment,
        ownerId=row.owner_id,
        createdAt=to_ms(row.created_at),
        finishedAt=optional_ms(row.finished_at),
        waitingFor=rollouts.waiting_for(row),
        message=failures.get(row.id),
    )


def _outcome(row: RolloutInstanceRow) -> RolloutInstance:
    return RolloutInstance(
        id=place_id(row.place),
        wave=row.wave,
        instanceId=row.instance_id,
        instanceName=row.instance_name,
        formerVersion=row.former_version,
        generation=row.generation,
        status=row.status,
        jobId=row.job_id,
        message=row.message,
        startedAt=optional_ms(row.started_at),
        finishedAt=optional_ms(row.finished_at),
    )
