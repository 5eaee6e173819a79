"""The list of instances, and the page of one."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from launchbay.clock import to_ms
from launchbay.console import forms
from launchbay.console.fields import Field, fill_fields, string_values, with_errors, workflow_fields
from launchbay.console.forms import parsed_object, restore_hidden
from launchbay.console.graph import component_graph, component_lines, family_graph, statuses
from launchbay.console.instance_view import InstanceView, job_steps, view_instance
from launchbay.console.pages.approvals import approval_item
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS, redact
from launchbay.console.request import HOME, PageRequest, PageRoute, user_names
from launchbay.errors import BadRequest, Conflict, LaunchbayError, TooLarge
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus
from launchbay.model.schedule import CronError, due_times
from launchbay.planning import DESTROY
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases import environments, instances, jobs, workflows
from launchbay.usecases.applications import list_applications, read_application
from launchbay.usecases.browsing import (
    InstanceFilter,
    browse_instances,
    read_environment,
    read_instance_record,
    read_log_tail,
)
from launchbay.usecases.environments import list_environments, list_offers
from launchbay.usecases.events import read_log, watch_instance
from launchbay.usecases.sign_in import authenticate_session
from launchbay.usecases.workflows import list_schedules

LOG_LINES = 200
_NEXT_RUNS = 3
_RUNS_SEARCHED = timedelta(days=366)


class Workflow(NamedTuple):
    """A workflow that the instance offers, with the fields of its parameters."""

    name: str
    fields: list[Field]
    may_run: bool = True
    may_schedule: bool = True


class Offer(NamedTuple):
    """An environment on the form that offers the instance as a service."""

    environment_id: str
    name: str
    is_offered: bool
    may_change: bool


class RecurringRun(NamedTuple):
    """A schedule that the manifest itself has."""

    component: str
    workflow: str
    expression: str
    next_runs: list[datetime]


async def list_all(request: PageRequest) -> Response:
    """Show a page of the instances of an organization."""
    organization_id = request.path("id")
    application_id, environment_id, status = (request.query(name) for name in ("application", "environment", "status"))
    wanted = InstanceFilter(
        application_id=application_id, environment_id=environment_id, status=status, name=request.query("name")
    )
    before = request.query("before")
    found = await browse_instances(
        request.ctx,
        organization_id,
        wanted,
        before if before is not None and is_id(before) else None,
        CONSOLE_PAGE_ROWS,
    )
    query = {name: request.query(name) for name in ("name", "status", "application", "environment")}
    return await request.page(
        "instances.html",
        section="instances",
        organization_id=organization_id,
        found=found,
        query={name: value for name, value in query.items() if value},
        is_first=before is None,
        statuses=list(InstanceStatus),
        applications=await list_applications(request.ctx, organization_id),
        environments=await list_environments(request.ctx, organization_id),
    )


async def show(request: PageRequest) -> Response:
    """Show an instance."""
    return await show_instance(request, request.path("id"))


async def show_instance(
    request: PageRequest, instance_id: str, problem: LaunchbayError | None = None, refused: Workflow | None = None
) -> Response:
    """Return the page of an instance; `refused` is the form of a workflow with what is wrong in it."""
    ctx = request.ctx
    view = await view_instance(request, instance_id)
    record = view.record
    lines = await read_log_tail(ctx, record.id, None, LOG_LINES)
    repeated = recurring(view.manifest, request.now()) if not view.is_over else []
    may = await request.permissions(record.organization_id)
    return await request.page(
        "instance.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        refused=refused.name if refused else "",
        application=await read_application(ctx, record.application_id),
        environment=await read_environment(ctx, record.environment_id),
        people=await user_names(request, record.organization_id),
        workflows=_workflows(view, may, refused),
        offers=await _offers(request, view, may),
        user_data=redact(msgspec.json.decode(record.user_data)),
        user_data_text=request.form.raw("userData"),
        schedules=[row for row in await list_schedules(ctx, record.id) if not _is_of_manifest(row, repeated)],
        recurring=repeated,
        graph=family_graph(view.family),
        components=component_graph(view.manifest, view.children) if len(view.manifest.components) > 1 else "",
        component_lines=component_lines(view.manifest),
        lines=lines,
        last_line=lines[-1].id if lines else 0,
        **live_values(view),
    )


def _workflows(view: InstanceView, permissions: UiPermissions, refused: Workflow | None) -> list[Workflow]:
    """Return the workflows that the person may run or schedule; the refused one with its form as it was sent."""
    found: list[Workflow] = []
    for name in view.workflows:
        may_run, may_schedule = permissions.run(view.record, name), permissions.schedule(view.record, name)
        if name != DESTROY and (may_run or may_schedule):
            is_refused = refused is not None and refused.name == name
            fields = refused.fields if refused and is_refused else workflow_fields(view.manifest, name)
            found.append(Workflow(name, fields, may_run, may_schedule))
    return found


async def _offers(request: PageRequest, view: InstanceView, permissions: UiPermissions) -> list[Offer]:
    """Return the environments that offer the instance, or may; those that the person may not read are there by id."""
    record = view.record
    offered = await list_offers(request.ctx, record.id)
    known = await list_environments(request.ctx, record.organization_id)
    names = {row.id: row.name for row in known} | {
        each: each for each in offered if each not in {row.id for row in known}
    }
    return [Offer(each, name, each in offered, permissions.offer(record, each)) for each, name in names.items()]


def live_values(view: InstanceView) -> dict[str, Any]:
    """Return what the live part of the page is filled with."""
    approvals = [approval_item(row) for row in view.pending]
    return {"view": view, "approvals": approvals, "statuses": statuses(view.family, view.component_statuses)}


def recurring(manifest: CompiledManifest, now: datetime) -> list[RecurringRun]:
    """Return the schedules of the manifest with the times when they are due next."""
    found: list[RecurringRun] = []
    for path, component in manifest.components.items():
        for workflow, expression in component.schedule.items():
            found.append(RecurringRun(path, workflow, expression, _next_runs(expression, now)))
    return found


def _is_of_manifest(row: ScheduleRow, repeated: list[RecurringRun]) -> bool:
    """Tell whether a pending schedule is the next run of one that the manifest has; those cannot be moved."""
    return any(each.workflow == row.workflow and row.due_at in each.next_runs for each in repeated)


def _next_runs(expression: str, now: datetime) -> list[datetime]:
    runs: list[datetime] = []
    try:
        for at in due_times(expression, now):
            if len(runs) == _NEXT_RUNS or at > now + _RUNS_SEARCHED:
                break
            runs.append(at)
    except CronError:
        return []  # the engine says so in the log
    return runs


ROUTES = (
    PageRoute("GET", "/console/organizations/{id}/instances", list_all),
    PageRoute("GET", "/console/instances/{id}", show),
)

ARGUMENT = "argument:"


async def run(request: PageRequest) -> Response:
    """Run a workflow now, or put it on the schedule."""
    instance_id, name = request.path("id"), request.form.text("workflow")
    _, manifest = await read_instance_record(request.ctx, instance_id)
    fields = fill_fields(workflow_fields(manifest, name), request.form, f"{ARGUMENT}{name}:")
    problem: LaunchbayError | None = None
    try:
        if not any(field.error for field in fields):
            return request.redirect(_path(request), await _started(request, instance_id, name, string_values(fields)))
        problem = BadRequest("Mend the fields that are marked below.")
    except (BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.messages)
        problem = error if rest else BadRequest("Mend the fields that are marked below.")
    return await show_instance(request, instance_id, problem, Workflow(name, fields))


async def _started(request: PageRequest, instance_id: str, name: str, arguments: dict[str, str]) -> str:
    """Do what was asked, and return what to say of it."""
    if request.form.text("do") == "schedule":
        interval = forms.minutes_ms(request.form.text("minutes"))
        await workflows.schedule_workflow(request.ctx, instance_id, name, interval, arguments)
        return f"{name} is on the schedule."
    await workflows.run_workflow(request.ctx, instance_id, name, arguments)
    return f"{name} has begun."


async def reschedule(request: PageRequest) -> Response:
    """Move a schedule, or take it away."""
    instance_id, schedule = request.path("id"), request.form.text("schedule")
    try:
        cancels = request.form.text("do") == "cancel"
        interval = 0 if cancels else forms.minutes_ms(request.form.text("minutes"))
        await workflows.reschedule_workflow(request.ctx, instance_id, schedule, interval, None)
    except BadRequest as error:
        return await show_instance(request, instance_id, error)
    return request.redirect(
        f"{_path(request)}#schedules", "The schedule is taken away." if cancels else "The schedule is moved."
    )


async def offer(request: PageRequest) -> Response:
    """Offer the instance as a service in the environments that are ticked, and in no other."""
    try:
        await environments.replace_offers(request.ctx, request.path("id"), request.form.all("environment"))
    except (BadRequest, Conflict) as error:
        return await show_instance(request, request.path("id"), error)
    return request.redirect(f"{_path(request)}#offers", "The environments are kept.")


async def put_user_data(request: PageRequest) -> Response:
    """Replace the user data; what is shown covered and comes back so stays."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    try:
        sent = parsed_object("User data", request.form.raw("userData"))
        data = restore_hidden(sent, msgspec.json.decode(record.user_data))
        await instances.put_user_data(request.ctx, record.id, data)
    except (BadRequest, TooLarge) as error:
        return await show_instance(request, record.id, error)
    return request.redirect(f"{_path(request)}#user-data", "The user data is kept.")


async def destroy_page(request: PageRequest) -> Response:
    """Ask how the life of the instance goes on, or ends."""
    return await _destroy_page(request, None)


async def destroy(request: PageRequest) -> Response:
    """Run `destroy`; by force, whatever runs is cancelled, and the records go too."""
    form = request.form
    try:
        if form.text("do") == "delete":
            forced = form.has("force")
            record, _ = await read_instance_record(request.ctx, request.path("id"))
            await instances.delete_instance(request.ctx, record.id, force=forced)
            target = f"{HOME}/organizations/{record.organization_id}/instances"
            return request.redirect(
                target, f"{record.name} is deleted." if not forced else f"{record.name} is being deleted."
            )
        await workflows.run_workflow(request.ctx, request.path("id"), DESTROY, {})
    except (BadRequest, Conflict) as error:
        return await _destroy_page(request, error)
    return request.redirect(_path(request), "The instance is being destroyed.")


async def extend(request: PageRequest) -> Response:
    """Set when the instance is destroyed by itself."""
    try:
        interval = forms.interval_ms(request.form.text("lifetime"), request.form.text("minutes"))
        at = instances.NEVER if interval == instances.NEVER else to_ms(request.now()) + interval
        await instances.set_destroy_at(request.ctx, request.path("id"), at)
    except BadRequest as error:
        return await _destroy_page(request, error)
    return request.redirect(_path(request), "The instance lives as long as you said.")


async def _destroy_page(request: PageRequest, problem: LaunchbayError | None) -> Response:
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    values: dict[str, Any] = {"lifetimes": forms.CHOICES, "lifetime": request.form.text("lifetime")}
    return await request.page(
        "instance_end.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        record=record,
        minutes=request.form.text("minutes"),
        **values,
    )


def _path(request: PageRequest) -> str:
    return f"{HOME}/instances/{request.path('id')}"


INSTANCE_ACTION_ROUTES = (
    PageRoute("POST", "/console/instances/{id}/run", run),
    PageRoute("POST", "/console/instances/{id}/reschedule", reschedule),
    PageRoute("POST", "/console/instances/{id}/offers", offer),
    PageRoute("POST", "/console/instances/{id}/userData", put_user_data),
    PageRoute("GET", "/console/instances/{id}/end", destroy_page),
    PageRoute("POST", "/console/instances/{id}/end", destroy),
    PageRoute("POST", "/console/instances/{id}/lifetime", extend),
)


async def show_job(request: PageRequest) -> Response:
    """Show a job."""
    return await _show_job(request, None)


async def cancel(request: PageRequest) -> Response:
    """Have a job end as failed."""
    try:
        await jobs.cancel_job(request.ctx, request.path("id"), request.path("job"))
    except Conflict as error:
        return await _show_job(request, error)
    return request.redirect(
        f"{HOME}/instances/{request.path('id')}", "The job ends as soon as its running steps let it."
    )


async def resume(request: PageRequest) -> Response:
    """Run a failed job again from where it failed."""
    try:
        await jobs.resume_job(request.ctx, request.path("id"), request.path("job"), {})
    except (BadRequest, Conflict) as error:
        return await _show_job(request, error)
    said = "The job goes on from its failed step; what was done stays done."
    return request.redirect(f"{HOME}/instances/{request.path('id')}", said)


async def _show_job(request: PageRequest, problem: LaunchbayError | None) -> Response:
    instance_id, job_id = request.path("id"), request.path("job")
    view = await view_instance(request, instance_id)
    job = await jobs.read_job(request.ctx, instance_id, job_id)
    return await request.page(
        "job.html",
        section="instances",
        organization_id=view.record.organization_id,
        problem=problem,
        view=view,
        job=job.view,
        error=job.redactor.text(job.view.error_message or ""),
        arguments=job.redactor.value(job.plan.arguments),
        resumes=job.plan.resumes[-1] if job.plan.resumes else "",
        steps=job_steps(job),
        lines=await read_log_tail(request.ctx, instance_id, job_id, LOG_LINES),
        people=await user_names(request, view.record.organization_id),
        can_resume=view.can_resume and view.jobs[0].id == job_id,
    )


JOB_ROUTES = (
    PageRoute("GET", "/console/instances/{id}/jobs/{job}", show_job),
    PageRoute("POST", "/console/instances/{id}/jobs/{job}/cancel", cancel),
    PageRoute("POST", "/console/instances/{id}/jobs/{job}/resume", resume),
)

_PAUSE_S = 0.2  # between two renewals: nobody reads faster
_LINES_AT_ONCE = 500
_RETRY_MS = 2_000


async def watch(request: PageRequest) -> Response:
    """Stream the live part and new lines of the log, for as long as the browser listens."""
    await read_instance_record(request.ctx, request.path("id"))  # refusals are answers, not streams
    return StreamingResponse(
        _events(request), media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"}
    )


async def _events(request: PageRequest) -> AsyncGenerator[str, None]:
    instance_id = request.path("id")
    first = request.query("line") or "0"
    line = int(first) if first.isascii() and first.isdecimal() and len(first) < 19 else 0
    people: Mapping[str, str] | None = None
    told: dict[str, str] = {}
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async with aclosing(watch_instance(request.ctx, instance_id, None)) as happenings:
            async for _ in happenings:
                # The session may have ended meanwhile; the permission is looked at by every look.
                await authenticate_session(request.app, request.session, request.actor.address)
                view = await view_instance(request, instance_id)
                if people is None:
                    people = await user_names(request, view.record.organization_id)
                may = await request.permissions(view.record.organization_id)
                shown = {"people": people, "may": may, "caller": request.actor, **live_values(view)}
                for name in ("state", "approvals", "live"):
                    # Only what differs: whoever writes a comment to an approval is not to lose it.
                    text = request.text(f"instance_{name}.html", **shown)
                    if told.get(name) != text:
                        told[name] = text
                        yield _event(name, text)
                async for rows in read_log(
                    request.ctx, instance_id, job_id=None, step=None, after=line, limit=_LINES_AT_ONCE
                ):
                    if rows:
                        line = rows[-1].id
                        yield _event("log", request.text("log_lines.html", lines=rows))
                await asyncio.sleep(_PAUSE_S)
    except LaunchbayError as error:
        yield _event("over", request.text("live_over.html", sentences=error.messages))


def _event(name: str, text: str) -> str:
    """Return an event; every line of its text is a line of data, whatever ends it."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n" + (lines or "data:\n") + "\n"


LIVE_ROUTES = (PageRoute("GET", "/console/instances/{id}/events", watch),)
