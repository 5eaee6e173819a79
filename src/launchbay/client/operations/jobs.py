"""Operations of the API: jobs.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.events import Event
from launchbay.client.operation import event_operation, list_operation, operation
from launchbay.client.types import Created, JobDetail, JobDocument, LogLine


@list_operation(
    Row(
        id="list_jobs",
        method="GET",
        path="/api/1/instances/{id}/jobs",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_jobs(instance_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[JobDocument]]:
    """Lists the jobs of the instance.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[JobDocument], (instance_id,), query={"limit": limit, "after": after})


@operation(Row(id="read_job", method="GET", path="/api/1/instances/{id}/jobs/{jobId}"))
def read_job(instance_id: str, job_id: str) -> Call[JobDetail]:
    """Reads a job with all its steps: attempts, times, outputs, errors; secrets are covered.

    Needs: Read.
    """
    return Call(
        JobDetail,
        (
            instance_id,
            job_id,
        ),
    )


@operation(Row(id="cancel_job", method="DELETE", path="/api/1/instances/{id}/jobs/{jobId}"))
def cancel_job(instance_id: str, job_id: str) -> Call[None]:
    """Cancels a job under way: its running steps are interrupted, and it ends as failed soon.

    Needs: RunInstanceWorkflow; EditInstance for destroy.
    """
    return Call(
        NoneType,
        (
            instance_id,
            job_id,
        ),
    )


@operation(
    Row(
        id="resume_job",
        method="POST",
        path="/api/1/instances/{id}/jobs/{jobId}/resume",
        media_type="application/json",
        keyed=True,
    )
)
def resume_job(
    instance_id: str, job_id: str, *, parameters: Mapping[str, Any] | None = None, idempotency_key: str | None = None
) -> Call[Created]:
    """Runs the newest job again from where it failed; the steps that are done stay done.

    Needs: RunInstanceWorkflow; EditInstance for destroy.
    """
    return Call(
        Created,
        (
            instance_id,
            job_id,
        ),
        body=given({"parameters": parameters}),
        idempotency_key=idempotency_key,
    )


@list_operation(
    Row(
        id="read_log",
        method="GET",
        path="/api/1/instances/{id}/log",
        about={
            "job": "Only lines of the job with this id.",
            "step": "Only lines of the step with this path.",
            "after": "Only lines after the one with this id.",
            "limit": "At most so many lines; without it, all.",
        },
    )
)
def read_log(
    instance_id: str,
    *,
    job: str | None = None,
    step: str | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> Call[list[LogLine]]:
    """Reads the log of the instance, of one job or of one step; secrets are covered.

    Needs: Read.

    `job`: Only lines of the job with this id.

    `step`: Only lines of the step with this path.

    `after`: Only lines after the one with this id.

    `limit`: At most so many lines; without it, all.
    """
    return Call(list[LogLine], (instance_id,), query={"job": job, "step": step, "after": after, "limit": limit})


@event_operation(
    Row(
        id="watch_instance",
        method="GET",
        path="/api/1/instances/{id}/events",
        answer="text/event-stream",
        about={"after": "Like the header Last-Event-ID, which wins."},
    )
)
def watch_instance(instance_id: str, *, after: int | None = None) -> Call[Event]:
    """Streams what happens to the instance as server-sent events: status, job, step, log, signal, approval.

    Needs: Read.

    `after`: Like the header Last-Event-ID, which wins.
    """
    return Call(Event, (instance_id,), query={"after": after})
