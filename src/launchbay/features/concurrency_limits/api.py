"""Limits of how many jobs run at a time."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.auth.lookup import RuleOwner
from launchbay.clock import to_ms
from launchbay.features.concurrency_limits import usecases as usecase
from launchbay.features.concurrency_limits.rows import PlaceRow
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_EXAMPLE: dict[str, Any] = {"limits": [{"key": "lock:database", "limit": 1, "when": "queue"}]}


class ConcurrencyLimitBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """At most `limit` jobs at a time.

    `when` says what happens to a job that finds no place.
    """

    limit: int
    key: Annotated[
        str | None,
        msgspec.Meta(
            description="Which jobs count together: those of an `application` or `environment`, with the same value of "
            "`label:NAME`, or all that use `lock:NAME`. Default: the object of the setting."
        ),
    ] = None
    when: Literal["queue", "refuse", "cancel-older"] = "queue"


class ConcurrencyBody(msgspec.Struct, forbid_unknown_fields=True):
    """The limits of an application or environment."""

    limits: list[ConcurrencyLimitBody]


class ConcurrencyPlace(msgspec.Struct, kw_only=True):
    """A job that has a place in the group, or waits for one."""

    jobId: str
    number: int
    workflow: str
    instanceId: str
    instance: str
    hasPlace: bool
    since: int


class ConcurrencyGroup(msgspec.Struct, kw_only=True):
    """A group of jobs with a limit.

    `jobs` are those that the caller may read; the counts are of all.
    """

    title: str
    limit: int
    started: int
    waiting: int
    jobs: list[ConcurrencyPlace]


@routes.get(
    "/applications/{appId}/concurrency",
    command="application concurrency",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The limits.", _EXAMPLE),
)
async def read_application_concurrency(request: Request[None, None]) -> ConcurrencyBody:
    """Show how many jobs of an application may run at a time."""
    return await _read(request, "application", request.path["appId"])


@routes.put(
    "/applications/{appId}/concurrency",
    command="application set-concurrency",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_application_concurrency(request: Request[ConcurrencyBody, None]) -> None:
    """Set how many jobs of an application may run at a time."""
    await usecase.replace_concurrency(request.ctx, "application", request.path["appId"], _given(request.body))


@routes.get(
    "/environments/{envId}/concurrency",
    command="environment concurrency",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The limits.", _EXAMPLE),
)
async def read_environment_concurrency(request: Request[None, None]) -> ConcurrencyBody:
    """Show how many jobs may run in an environment at a time."""
    return await _read(request, "environment", request.path["envId"])


@routes.put(
    "/environments/{envId}/concurrency",
    command="environment set-concurrency",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_environment_concurrency(request: Request[ConcurrencyBody, None]) -> None:
    """Set how many jobs may run in an environment at a time."""
    await usecase.replace_concurrency(request.ctx, "environment", request.path["envId"], _given(request.body))


@routes.get(
    "/organizations/{orgId}/concurrency",
    command="organization concurrency",
    tags=("Organizations",),
    permission="membership; Read on the instances",
    returns=Returns("The groups.", type=list[ConcurrencyGroup]),
)
async def list_concurrency_groups(request: Request[None, None]) -> Response:
    """List groups of jobs with a limit: which have started, and which wait."""
    found = await usecase.list_groups(request.ctx, request.path["orgId"])
    return JSONResponse(
        [
            ConcurrencyGroup(
                title=each.title,
                limit=each.most,
                started=each.held,
                waiting=each.waiting,
                jobs=[_place(row) for row in each.places],
            )
            for each in found
        ]
    )


async def _read(request: Request[None, None], kind: RuleOwner, owner_id: str) -> ConcurrencyBody:
    found = await usecase.read_concurrency(request.ctx, kind, owner_id)
    return ConcurrencyBody([ConcurrencyLimitBody(key=each.key, limit=each.limit, when=each.when) for each in found])


def _given(body: ConcurrencyBody) -> list[dict[str, Any]]:
    return [
        {"limit": each.limit, "when": each.when, **({} if each.key is None else {"key": each.key})}
        for each in body.limits
    ]


def _place(row: PlaceRow) -> ConcurrencyPlace:
    return ConcurrencyPlace(
        jobId=row.job_id,
        number=row.number,
        workflow=row.workflow,
        instanceId=row.instance_id,
        instance=row.instance,
        hasPlace=row.is_held,
        since=to_ms(row.created_at),
    )
