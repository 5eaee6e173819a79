"""Jobs of an instance (api-decisions, "Beyond the reference")."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from launchbay.model.redaction import Masking
from launchbay.store.instances import JobRow
from launchbay.usecases import jobs
from launchbay.web.answers import Answer, Empty, Json, JsonList
from launchbay.web.call import Call
from launchbay.web.encode import Paging, page, rows
from launchbay.web.endpoint import Endpoint, JsonBody, Returns
from launchbay.web.handlers.shapes import Created
from launchbay.web.instance_document import JobDocument
from launchbay.web.job_document import JobDetail, job_detail, job_item

_TAGS = ("Jobs",)
_ID = "5f" * 12


class ResumeBody(msgspec.Struct):
    """What to change before a failed job goes on: arguments of its command, or parameters of the instance."""

    parameters: dict[str, Any] | None = None


async def list_jobs(call: Call[None, Paging]) -> Answer:
    """List the jobs of an instance."""
    query = call.query
    limit = None if query.limit is None else query.limit + 1
    found = jobs.jobs_of(call.services.desk, call.actor, call.path["id"], after=query.after, limit=limit)
    if query.limit is not None:
        shown = [job_item(row, masking) async for chunk, masking in found for row in chunk]
        return page(call, shown, query.limit)
    return JsonList(_encoded(found))


async def read_job(call: Call[None, None]) -> Answer:
    """Read a job with its steps."""
    job = await jobs.read_job(call.services.desk, call.actor, call.path["id"], call.path["jobId"])
    # Covering the secrets of large outputs takes a while, and nobody else's request should wait for that.
    return Json(await asyncio.to_thread(job_detail, job))


async def cancel_job(call: Call[None, None]) -> Answer:
    """Cancel a job."""
    await jobs.cancel_job(call.services.desk, call.actor, call.path["id"], call.path["jobId"])
    return Empty()


async def resume_job(call: Call[ResumeBody, None]) -> Answer:
    """Resume a failed job."""
    resumed = await jobs.resume_job(
        call.services.desk, call.actor, call.path["id"], call.path["jobId"], call.body.parameters or {}
    )
    return Json(Created(resumed))


async def _encoded(chunks: AsyncIterator[tuple[list[JobRow], Masking]]) -> AsyncIterator[bytes]:
    async for chunk, masking in chunks:
        yield rows([job_item(row, masking) for row in chunk])


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/instances/{id}/jobs",
        operation_id="list_jobs",
        handler=list_jobs,
        summary="Lists the jobs of the instance.",
        tags=_TAGS,
        permission="Read",
        query=Paging,
        returns=Returns(list[JobDocument], "The jobs, the newest first, with their planned steps in brief."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/instances/{id}/jobs/{jobId}",
        operation_id="read_job",
        handler=read_job,
        summary="Reads a job with all its steps: attempts, times, outputs, errors; secrets are covered.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(JobDetail, "The job; the planned steps in order, each followed by those inside of it."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/instances/{id}/jobs/{jobId}",
        operation_id="cancel_job",
        handler=cancel_job,
        summary="Cancels a job under way: its running steps are interrupted, and it ends as failed soon.",
        tags=_TAGS,
        permission="RunInstanceWorkflow; EditInstance for destroy",
        statuses=(403, 409),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/instances/{id}/jobs/{jobId}/resume",
        operation_id="resume_job",
        handler=resume_job,
        summary="Runs the newest job again from where it failed; the steps that are done stay done.",
        tags=_TAGS,
        permission="RunInstanceWorkflow; EditInstance for destroy",
        body=JsonBody(ResumeBody, media_optional=True, example={"parameters": {"input.size": "3"}}),
        returns=Returns(Created, "The id of the new job.", {"id": _ID}),
        statuses=(403, 409),
        addition=True,
        idempotency_key=True,
    ),
)
