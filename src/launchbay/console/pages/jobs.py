"""One job: its steps, what they left, and its log; cancelling and resuming it."""

from starlette.responses import Response

from launchbay.console.instance_view import job_steps, view_instance
from launchbay.console.page import Page
from launchbay.console.pages.instances import LOG_LINES
from launchbay.console.people import names_of_people
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, Conflict, LaunchbayError
from launchbay.usecases import jobs
from launchbay.usecases.browsing import read_log_tail


async def show(visit: Visit) -> Response:
    """Show a job."""
    return await _show(visit, None)


async def cancel(visit: Visit) -> Response:
    """Have a job end as failed."""
    try:
        await jobs.cancel_job(visit.desk, visit.actor, visit.path("id"), visit.path("job"))
    except Conflict as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/instances/{visit.path('id')}", "The job ends as soon as its running steps let it.")


async def resume(visit: Visit) -> Response:
    """Run a failed job again from where it failed."""
    try:
        await jobs.resume_job(visit.desk, visit.actor, visit.path("id"), visit.path("job"), {})
    except (BadRequest, Conflict) as error:
        return await _show(visit, error)
    said = "The job goes on from its failed step; what was done stays done."
    return visit.go(f"{HOME}/instances/{visit.path('id')}", said)


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    instance_id, job_id = visit.path("id"), visit.path("job")
    view = await view_instance(visit, instance_id)
    job = await jobs.read_job(visit.desk, visit.actor, instance_id, job_id)
    return await visit.page(
        "job.html",
        section="instances",
        organization_id=view.record.organization_id,
        problem=problem,
        view=view,
        job=job.view,
        error=job.masking.text(job.view.error_message or ""),
        arguments=job.masking.value(job.plan.arguments),
        resumes=job.plan.resumes[-1] if job.plan.resumes else "",
        steps=job_steps(job),
        lines=await read_log_tail(visit.desk, visit.actor, instance_id, job_id, LOG_LINES),
        people=await names_of_people(visit, view.record.organization_id),
        can_resume=view.can_resume and view.jobs[0].id == job_id,
    )


PAGES = (
    Page("GET", "/console/instances/{id}/jobs/{job}", show),
    Page("POST", "/console/instances/{id}/jobs/{job}/cancel", cancel),
    Page("POST", "/console/instances/{id}/jobs/{job}/resume", resume),
)
