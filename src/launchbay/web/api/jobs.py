"""Jobs of an instance (api-decisions, "Beyond the reference")."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from launchbay.clock import to_ms
from launchbay.model.job import StepStatus, raise_percent
from launchbay.model.redaction import Redactor
from launchbay.store.instances import JobRow
from launchbay.store.jobs import StepView
from launchbay.usecases import jobs
from launchbay.usecases.jobs import JobDetails
from launchbay.web.api.instances import JobDocument, job_document
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Created, JSONStream, Paging, Response, page, rows
from launchbay.web.routing import Returns, Routes

routes = Routes("Jobs")


class StepDetail(msgspec.Struct, kw_only=True):
    """A step. `path` is its place in the plan; times are milliseconds since the Unix epoch.

    `outputsOmitted` says that there are outputs, but too many to be shown.
    """

    path: str
    name: str
    status: str
    percentComplete: int
    attempt: int
    startedAt: int | None = None
    finishedAt: int | None = None
    outputs: dict[str, Any] | None = None
    outputsOmitted: bool = False
    errorMessage: str | None = None


class JobDetail(msgspec.Struct, kw_only=True):
    """A job. `parameters` are a command's; `resumes` is the failed job that this one goes on with."""

    id: str
    name: str
    status: str
    ownerId: str
    createdAt: int
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    parameters: dict[str, Any]
    resumes: str | None
    steps: list[StepDetail]


def job_item(row: JobRow, redactor: Redactor) -> dict[str, Any]:
    """Return a job as lists show it, in the form of the workflow history."""
    document = job_document(row)
    if row.error_message is not None:
        document["errorMessage"] = redactor.text(row.error_message)
    return document


def job_detail(job: JobDetails) -> JobDetail:
    """Return a job in detail: the planned steps in the manifest's order, each followed by those inside of it."""
    view, plan, redactor = job.view, job.plan, job.redactor
    return JobDetail(
        id=view.id,
        name=view.name,
        status=view.status,
        ownerId=view.owner_id,
        createdAt=to_ms(view.created_at),
        startedAt=None if view.started_at is None else to_ms(view.started_at),
        finishedAt=None if view.finished_at is None else to_ms(view.finished_at),
        errorMessage=None if view.error_message is None else redactor.text(view.error_message),
        parameters=redactor.value(plan.arguments),
        resumes=plan.resumes[-1] if plan.resumes else None,
        steps=_steps(job),
    )


def _steps(job: JobDetails) -> list[StepDetail]:
    planned = {path: number for number, (path, *_) in enumerate(job.view.planned())}
    groups: dict[int, list[StepDetail]] = {number: [] for number in planned.values()}
    for view in job.view.recorded():
        if "/" not in view.path:
            continue  # the failed launch of a whole component: the step that failed in it says the same
        number = planned.get(view.path, _outermost(view.path, planned))
        groups.setdefault(number, []).append(_recorded(view, job.redactor))
    for path, name, status, percent in job.view.planned():
        group = groups[planned[path]]
        own = next((step for step in group if step.path == path), None)
        if own is None:
            group.insert(0, StepDetail(path=path, name=name, status=status, percentComplete=percent, attempt=0))
        else:
            own.percentComplete = raise_percent(own.percentComplete, percent)
            group.remove(own)
            group.insert(0, own)
    return [step for number in sorted(groups) for step in groups[number]]


def _outermost(path: str, planned: dict[str, int]) -> int:
    """Return the number of the planned step that a step runs inside of; what is inside of none comes last."""
    for position, character in enumerate(path):
        if character in "/>~" and path[:position] in planned:
            return planned[path[:position]]
    return len(planned)


def _recorded(view: StepView, redactor: Redactor) -> StepDetail:
    outputs = None if view.outputs is None else redactor.value(msgspec.json.decode(view.outputs))
    return StepDetail(
        path=view.path,
        name=view.name,
        status=view.status,
        percentComplete=100 if view.status == StepStatus.SUCCEEDED else view.percent,
        attempt=view.attempt,
        startedAt=view.started_at_ms,
        finishedAt=view.finished_at_ms,
        outputs=outputs,
        outputsOmitted=view.has_outputs and view.outputs is None,
        errorMessage=None if view.error_message is None else redactor.text(view.error_message),
    )


_ID = "5f" * 12


class ResumeBody(msgspec.Struct):
    """What to change before a failed job goes on: arguments of its command, or parameters of the instance."""

    parameters: dict[str, Any] | None = None


@routes.get(
    "/instances/{id}/jobs",
    permission="Read",
    returns=Returns("The jobs, the newest first, with their planned steps in brief.", type=list[JobDocument]),
    statuses=(403,),
    extension=True,
)
async def list_jobs(request: Request[None, Paging]) -> Response:
    """Lists the jobs of the instance."""
    query = request.query
    limit = None if query.limit is None else query.limit + 1
    found = jobs.list_jobs(request.ctx, request.path["id"], after=query.after, limit=limit)
    if query.limit is not None:
        shown = [job_item(row, redactor) async for chunk, redactor in found for row in chunk]
        return page(request, shown, query.limit)
    return JSONStream(_encoded(found))


@routes.get(
    "/instances/{id}/jobs/{jobId}",
    permission="Read",
    returns=Returns("The job; the planned steps in order, each followed by those inside of it."),
    statuses=(403,),
    extension=True,
)
async def read_job(request: Request[None, None]) -> JobDetail:
    """Reads a job with all its steps: attempts, times, outputs, errors; secrets are covered."""
    job = await jobs.read_job(request.ctx, request.path["id"], request.path["jobId"])
    # Covering the secrets of large outputs takes a while, and nobody else's request should wait for that.
    return await asyncio.to_thread(job_detail, job)


@routes.delete(
    "/instances/{id}/jobs/{jobId}",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    statuses=(403, 409),
    extension=True,
)
async def cancel_job(request: Request[None, None]) -> None:
    """Cancels a job under way: its running steps are interrupted, and it ends as failed soon."""
    await jobs.cancel_job(request.ctx, request.path["id"], request.path["jobId"])


@routes.post(
    "/instances/{id}/jobs/{jobId}/resume",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(media_optional=True, example={"parameters": {"input.size": "3"}}),
    returns=Returns("The id of the new job.", {"id": _ID}),
    statuses=(403, 409),
    extension=True,
    idempotency_key=True,
)
async def resume_job(request: Request[ResumeBody, None]) -> Created:
    """Runs the newest job again from where it failed; the steps that are done stay done."""
    resumed = await jobs.resume_job(
        request.ctx, request.path["id"], request.path["jobId"], request.body.parameters or {}
    )
    return Created(resumed)


async def _encoded(chunks: AsyncIterator[tuple[list[JobRow], Redactor]]) -> AsyncIterator[bytes]:
    async for chunk, redactor in chunks:
        yield rows([job_item(row, redactor) for row in chunk])
