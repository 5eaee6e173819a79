"""Jobs of an instance (conformance.md, "Beyond the reference")."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LONGEST_WAIT_S
from launchbay.model.job import StepStatus, raise_percent
from launchbay.model.redaction import Redactor
from launchbay.store.instances import JobRow
from launchbay.store.jobs import StepView
from launchbay.usecases import jobs
from launchbay.usecases.jobs import JobDetails
from launchbay.web.api.instances import JobDocument, job_document
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import (
    Created,
    JSONResponse,
    Paging,
    Response,
    job_headers,
    list_of_chunks,
    optional_ms,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Jobs", extension=True)


class StepDetail(msgspec.Struct, kw_only=True):
    """A step. `path` is its place in the plan; times are in milliseconds since the Unix epoch.

    `outputsOmitted` is true if the outputs are too large to show.
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
    """A job. `parameters` and `results` are those of a command; `resumes` is the failed job that this one continues."""

    id: str
    instanceId: str
    name: str
    status: str
    ownerId: str
    createdAt: int
    startedAt: int | None
    finishedAt: int | None
    errorMessage: str | None
    parameters: dict[str, Any]
    results: dict[str, Any]
    resumes: str | None
    steps: list[StepDetail]


def job_item(row: JobRow, redactor: Redactor) -> dict[str, Any]:
    document = job_document(row)
    if row.error_message is not None:
        document["errorMessage"] = redactor.text(row.error_message)
    return document


def _job_items(rows: Sequence[JobRow], redactor: Redactor) -> list[dict[str, Any]]:
    return [job_item(row, redactor) for row in rows]


def job_detail(job: JobDetails) -> JobDetail:
    """Return a job: the planned steps in the manifest's order, each followed by the steps inside it."""
    view, plan, redactor = job.view, job.plan, job.redactor
    return JobDetail(
        id=view.id,
        instanceId=view.instance_id,
        name=view.name,
        status=view.status,
        ownerId=view.owner_id,
        createdAt=to_ms(view.created_at),
        startedAt=optional_ms(view.started_at),
        finishedAt=optional_ms(view.finished_at),
        errorMessage=None if view.error_message is None else redactor.text(view.error_message),
        parameters=redactor.value(plan.arguments),
        results=job.results(),
        resumes=plan.resumes[-1] if plan.resumes else None,
        steps=_steps(job),
    )


def _steps(job: JobDetails) -> list[StepDetail]:
    planned = {path: number for number, (path, *_) in enumerate(job.view.planned())}
    groups: dict[int, list[StepDetail]] = {number: [] for number in planned.values()}
    for view in job.view.recorded():
        if "/" not in view.path:
            continue  # the failed launch of a component; the step that failed in it reports the same
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
    """Return the number of the planned step that a step runs inside; other steps come last."""
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


class ResumeBody(msgspec.Struct):
    """What to change before a job resumes: arguments of its command, or parameters of the instance."""

    parameters: dict[str, Any] | None = None


@routes.get(
    "/instances/{id}/jobs",
    permission="Read",
    returns=Returns("The jobs, newest first, with a summary of their planned steps.", type=list[JobDocument]),
)
async def list_jobs(request: Request[None, Paging]) -> Response:
    """List the jobs of an instance."""
    query = request.query
    limit = None if query.limit is None else query.limit + 1
    found = jobs.list_jobs(request.ctx, request.path["id"], after=query.after, limit=limit)
    return await list_of_chunks(
        request, (await asyncio.to_thread(_job_items, chunk, redactor) async for chunk, redactor in found)
    )


class JobQuery(msgspec.Struct, frozen=True):
    """How long to wait for the end of the job."""

    wait: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=LONGEST_WAIT_S,
            description="Respond as soon as the job has ended, or after this many seconds.",
        ),
    ] = 0


_SHOWN = Returns("The job; its planned steps in order, each followed by the steps inside it.")


@routes.get("/instances/{id}/jobs/{jobId}", permission="Read", returns=_SHOWN)
async def read_job(request: Request[None, JobQuery]) -> JobDetail:
    """Show a job with all its steps: attempts, times, outputs, errors. Secrets are masked."""
    path = request.path
    job = await jobs.read_job(request.ctx, path["id"], path["jobId"], wait_s=request.query.wait)
    # Masking secrets in large outputs takes a while; other requests must not wait for it.
    return await asyncio.to_thread(job_detail, job)


@routes.get("/jobs/{jobId}", permission="Read", returns=_SHOWN)
async def find_job(request: Request[None, JobQuery]) -> JobDetail:
    """Show a job by its ID alone, with all its steps. With wait, respond when it has ended."""
    job = await jobs.find_job(request.ctx, request.path["jobId"], wait_s=request.query.wait)
    return await asyncio.to_thread(job_detail, job)


@routes.delete(
    "/instances/{id}/jobs/{jobId}", permission="RunInstanceWorkflow; EditInstance for destroy", statuses=(409,)
)
async def cancel_job(request: Request[None, None]) -> None:
    """Cancel a running job. Interrupts its steps; the job ends as failed."""
    await jobs.cancel_job(request.ctx, request.path["id"], request.path["jobId"])


@routes.post(
    "/instances/{id}/jobs/{jobId}/resume",
    permission="RunInstanceWorkflow; EditInstance for destroy",
    body=JsonBody(media_optional=True, example={"parameters": {"input.size": "3"}}),
    returns=Returns("The ID of the new job.", {"id": EXAMPLE_ID}, type=Created),
    statuses=(409,),
    idempotency_key=True,
    starts_job=True,
)
async def resume_job(request: Request[ResumeBody, None]) -> Response:
    """Resume the newest job from the step that failed. Completed steps don't run again."""
    resumed = await jobs.resume_job(
        request.ctx, request.path["id"], request.path["jobId"], request.body.parameters or {}
    )
    return JSONResponse(Created(resumed.job_id), job_headers(resumed))
