"""The list of instances, the page of one with its actions and live part, and the page of a job."""

import asyncio
from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response, StreamingResponse

from launchbay.clock import to_ms
from launchbay.console import forms
from launchbay.console.assets import shown_status
from launchbay.console.fields import FIX_FIELDS, Field, fill_fields, string_values, with_errors, workflow_fields
from launchbay.console.forms import parse_object, restore_hidden
from launchbay.console.graph import component_lines
from launchbay.console.instance_view import InstanceView, view_instance
from launchbay.console.list_query import INSTANCE_STATUSES, RUN_STATUSES, STANDARD, read_instance_query, term
from launchbay.console.pages.approvals import approval_item
from launchbay.console.pages.bulk import ACTS
from launchbay.console.pages.components import live_events, read_components, read_graph_query, shown_graph
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS, live_event, redact
from launchbay.console.request import HOME, PageRequest, Routes, safe_path, user_names
from launchbay.errors import BadRequest, Conflict, LaunchbayError, TooLarge
from launchbay.limits import CONSOLE_PAGE_ROWS, VIEW_NAME_CHARS, VIEW_QUERY_CHARS
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import template_path
from launchbay.model.schedule import due_times
from launchbay.planning import DESTROY
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases import environments, fleet, instances, workflows
from launchbay.usecases.applications import list_applications, read_application
from launchbay.usecases.browsing import (
    read_environment,
    read_instance_record,
    read_log_tail,
)
from launchbay.usecases.environments import list_environments, list_offers
from launchbay.usecases.events import LogFilter, read_log, watch_instance
from launchbay.usecases.fleet import SavedView, Sort
from launchbay.usecases.sign_in import authenticate_session
from launchbay.usecases.workflows import list_schedules, read_required_arguments

ARGUMENT = "argument:"  # prefix of the names of a workflow's fields
LOG_LINES = 200
_UPDATE_INTERVAL_S = 0.2  # people read no faster
_LINES_AT_ONCE = 500
_RETRY_MS = 2_000
_NEXT_RUNS = 3
_RUNS_SEARCHED = timedelta(days=366)


class Workflow(NamedTuple):
    """A workflow of the instance, with the fields of its parameters."""

    name: str
    fields: list[Field]
    can_run: bool = True
    can_schedule: bool = True


class Offer(NamedTuple):
    """An environment on the form that offers the instance as a service."""

    environment_id: str
    name: str
    is_offered: bool
    can_change: bool


class RecurringRun(NamedTuple):
    """A schedule in the manifest. `schedule` is its row, if the launch has ended."""

    component: str
    workflow: str
    expression: str
    next_runs: list[datetime]
    schedule: ScheduleRow | None = None


routes = Routes()


SORTS: dict[str, Sort] = {each: each for each in get_args(Sort)}


@routes.get("/console/organizations/{id}/instances")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the instances that fit a query. Links of earlier versions name one object for each field."""
    ctx, organization_id = request.ctx, request.path("id")
    applications = {row.id: row.name for row in await list_applications(ctx, organization_id)}
    environment_names = {row.id: row.name for row in await list_environments(ctx, organization_id)}
    asked = "q" in request.http.query_params
    text = (
        request.query("q")
        or request.form.text("q")
        or _earlier_query(request, applications, environment_names)
        or ("" if asked else STANDARD)
    )
    query = read_instance_query(text, applications, environment_names, request.now())
    sort = SORTS.get(request.query("sort") or "", "-created")
    after = request.query("after")
    try:
        found = await fleet.list_instances(
            ctx, organization_id, query.wanted, sort=sort, after=after, count=CONSOLE_PAGE_ROWS, counts=True
        )
    except BadRequest as error:  # a cursor of another order, or made up
        problem, after = error, None
        found = await fleet.list_instances(
            ctx, organization_id, query.wanted, sort=sort, after=None, count=CONSOLE_PAGE_ROWS, counts=True
        )
    return await request.page(
        "instances.html",
        section="instances",
        organization_id=organization_id,
        problem=problem,
        found=found,
        labels=[msgspec.json.decode(row.labels, type=dict[str, str]) for row in found.rows],
        query=query,
        sort=sort,
        is_first=after is None,
        acts=ACTS,
        views=[view for view in await fleet.read_views(ctx, organization_id) if view.of == "instances"],
        facets=[
            (
                "Status",
                [
                    ("Not destroyed", STANDARD),
                    *((shown_status(value)[1], f"status:{key}") for key, value in INSTANCE_STATUSES.items()),
                ],
            ),
            ("Environment", [(name, term("env", name)) for name in environment_names.values()]),
            ("Application", [(name, term("app", name)) for name in applications.values()]),
            ("Last run", [(shown_status(value)[1], f"last-run:{key}") for key, value in RUN_STATUSES.items()]),
            ("Expires", [("Within 24 hours", "expires:<24h"), ("Within 7 days", "expires:<7d")]),
        ],
    )


@routes.post("/console/organizations/{id}/views", again=list_all)
async def change_views(request: PageRequest) -> Response:
    """Save the query under a name, or remove the view of this name."""
    form, organization_id = request.form, request.path("id")
    name = form.text("name")
    saves = form.text("do") == "save"
    if saves and not 0 < len(name) <= VIEW_NAME_CHARS:
        raise BadRequest(f"The name of a view has 1 to {VIEW_NAME_CHARS} characters.")
    views = [
        view
        for view in await fleet.read_views(request.ctx, organization_id)
        if (view.of, view.name) != ("instances", name)
    ]
    if saves:
        sort = SORTS.get(form.text("sort"), "")
        views.append(SavedView(name, form.text("q")[:VIEW_QUERY_CHARS], "instances", sort))
    await fleet.replace_views(request.ctx, organization_id, views)
    query = urlencode({"q": form.text("q"), "sort": form.text("sort")})
    target = f"{HOME}/organizations/{organization_id}/instances?{query}"
    return request.redirect(target, f"View {name} {'saved' if saves else 'removed'}.")


def _earlier_query(request: PageRequest, applications: Mapping[str, str], environments: Mapping[str, str]) -> str:
    """Return the query for the fields that the page had before it had a query."""
    status = (request.query("status") or "").lower()
    statuses = {value.lower(): key for key, value in INSTANCE_STATUSES.items()}
    terms = [
        term("app", applications[each]) if (each := request.query("application") or "") in applications else "",
        term("env", environments[each]) if (each := request.query("environment") or "") in environments else "",
        f"status:{statuses[status]}" if status in statuses else "",
        request.query("name") or "",
    ]
    return " ".join(filter(None, terms))


@routes.get("/console/instances/{id}")
async def show(
    request: PageRequest, problem: LaunchbayError | None = None, *, refused: Workflow | None = None
) -> Response:
    """Show an instance; `refused` is a workflow whose form has errors."""
    ctx = request.ctx
    view = await view_instance(request, request.path("id"))
    record = view.record
    lines = await read_log_tail(ctx, record.id, None, LOG_LINES)
    schedules = await list_schedules(ctx, record.id)
    recurring = recurring_runs(view.manifest, request.now(), schedules) if not view.is_over else []
    permissions = await request.permissions(record.organization_id)
    return await request.page(
        "instance.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        refused=refused.name if refused else "",
        application=await read_application(ctx, record.application_id),
        environment=await read_environment(ctx, record.environment_id),
        people=await user_names(request, record.organization_id),
        workflows=_workflows(view, permissions, refused, await read_required_arguments(ctx, record.id)),
        offers=await _offers(request, view, permissions),
        user_data=redact(msgspec.json.decode(record.user_data)),
        user_data_text=request.form.raw("userData"),
        schedules=[row for row in schedules if not row.is_of_manifest],
        recurring=recurring,
        graph=await shown_graph(
            await read_components(request, view), read_graph_query(request), _path(request), is_small=True
        ),
        component_lines=component_lines(view.manifest),
        lines=lines,
        last_line=lines[-1].id if lines else 0,
        **live_values(view),
    )


def _workflows(
    view: InstanceView,
    permissions: UiPermissions,
    refused: Workflow | None,
    required: Mapping[str, Container[str]],
) -> list[Workflow]:
    """Return the workflows that the user can run or schedule; the refused one as it was sent."""
    found: list[Workflow] = []
    for name in view.workflows:
        can_run, can_schedule = permissions.run(view.record, name), permissions.schedule(view.record, name)
        if name != DESTROY and (can_run or can_schedule):
            is_refused = refused is not None and refused.name == name
            fields = workflow_fields(view.manifest, name, required.get(name, ()))
            fields = refused.fields if refused and is_refused else fields
            found.append(Workflow(name, fields, can_run, can_schedule))
    return found


async def _offers(request: PageRequest, view: InstanceView, permissions: UiPermissions) -> list[Offer]:
    """Return all readable environments, and by ID those that offer the instance but aren't readable."""
    record = view.record
    offered = await list_offers(request.ctx, record.id)
    known = await list_environments(request.ctx, record.organization_id)
    names = {row.id: row.name for row in known}
    names |= {each: each for each in offered if each not in names}
    return [Offer(each, name, each in offered, permissions.offer(record, each)) for each, name in names.items()]


def live_values(view: InstanceView) -> dict[str, Any]:
    """Return the values of the live part of the page."""
    approvals = [approval_item(row) for row in view.pending]
    return {"view": view, "approvals": approvals}


def recurring_runs(manifest: CompiledManifest, now: datetime, rows: Sequence[ScheduleRow] = ()) -> list[RecurringRun]:
    """Return the schedules of the manifest with their next runs and their rows.

    A component in a Scaler has a row for each member.
    """
    found: list[RecurringRun] = []
    for path, component in manifest.components.items():
        for workflow, expression in component.schedule.items():
            next_runs = _next_runs(expression, now)
            own = [
                row
                for row in rows
                if row.workflow == workflow and path in {row.component, template_path(row.component)}
            ]
            found += [RecurringRun(row.component, workflow, expression, next_runs, row) for row in own]
            if not own:
                found.append(RecurringRun(path, workflow, expression, next_runs))
    return found


def _next_runs(expression: str, now: datetime) -> list[datetime]:
    try:
        times = due_times(expression, now)
    except ValueError:
        return []  # the engine logs it
    return list(islice(takewhile(lambda at: at <= now + _RUNS_SEARCHED, times), _NEXT_RUNS))


@routes.post("/console/instances/{id}/run")
async def run(request: PageRequest) -> Response:
    instance_id, name = request.path("id"), request.form.text("workflow")
    _, manifest = await read_instance_record(request.ctx, instance_id)
    required = (await read_required_arguments(request.ctx, instance_id)).get(name, ())
    fields = fill_fields(workflow_fields(manifest, name, required), request.form, f"{ARGUMENT}{name}:")
    problem: LaunchbayError | None = None
    try:
        if not any(field.error for field in fields):
            return request.redirect(_path(request), await _run(request, instance_id, name, string_values(fields)))
        problem = BadRequest(FIX_FIELDS)
    except (BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.messages)
        problem = error if rest else BadRequest(FIX_FIELDS)
    return await show(request, problem, refused=Workflow(name, fields))


async def _run(request: PageRequest, instance_id: str, name: str, arguments: dict[str, str]) -> str:
    """Run or schedule the workflow, and return the message for the user."""
    if request.form.text("do") == "schedule":
        interval = forms.minutes_ms(request.form.text("minutes"))
        await workflows.schedule_workflow(request.ctx, instance_id, name, interval, arguments)
        return f"{name} scheduled."
    await workflows.run_workflow(request.ctx, instance_id, name, arguments)
    return f"{name} started."


@routes.post("/console/instances/{id}/reschedule", again=show)
async def reschedule(request: PageRequest) -> Response:
    instance_id, schedule = request.path("id"), request.form.text("schedule")
    cancels = request.form.text("do") == "cancel"
    interval = 0 if cancels else forms.minutes_ms(request.form.text("minutes"))
    await workflows.reschedule_workflow(request.ctx, instance_id, schedule, interval, None)
    return request.redirect(f"{_path(request)}#schedules", "Schedule cancelled." if cancels else "Schedule moved.")


@routes.post("/console/instances/{id}/offers", again=show, refusals=(BadRequest, Conflict))
async def offer(request: PageRequest) -> Response:
    """Offer the instance as a service in the selected environments, and in no other."""
    await environments.replace_offers(request.ctx, request.path("id"), request.form.all("environment"))
    return request.redirect(f"{_path(request)}#offers", "Environments saved.")


@routes.post("/console/instances/{id}/userData", again=show, refusals=(BadRequest, TooLarge))
async def put_user_data(request: PageRequest) -> Response:
    """Replace the user data. A masked secret that comes back keeps its value."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    sent = parse_object("User data", request.form.raw("userData"))
    data = restore_hidden(sent, msgspec.json.decode(record.user_data))
    await instances.put_user_data(request.ctx, record.id, data)
    return request.redirect(f"{_path(request)}#user-data", "User data saved.")


@routes.get("/console/instances/{id}/end")
async def destroy_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the forms to extend, destroy or delete the instance."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    users = await workflows.list_dependents(request.ctx, record.id)
    return await request.page(
        "instance_end.html",
        users=users,
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        record=record,
        minutes=request.form.text("minutes"),
        lifetimes=forms.CHOICES,
        lifetime=request.form.text("lifetime"),
    )


@routes.post("/console/instances/{id}/end", again=destroy_page, refusals=(BadRequest, Conflict))
async def destroy(request: PageRequest) -> Response:
    """Run `destroy`, or delete the records; `force` cancels a running job first."""
    form = request.form
    if form.text("do") == "delete":
        forced = form.has("force")
        record, _ = await read_instance_record(request.ctx, request.path("id"))
        await instances.delete_instance(request.ctx, record.id, force=forced)
        target = f"{HOME}/organizations/{record.organization_id}/instances"
        return request.redirect(target, f"Deleting {record.name}." if forced else f"{record.name} deleted.")
    await workflows.run_workflow(request.ctx, request.path("id"), DESTROY, {}, force=form.has("force"))
    return request.redirect(_path(request), "Destruction started.")


@routes.post("/console/instances/{id}/lifetime", again=destroy_page)
async def extend(request: PageRequest) -> Response:
    """Set when the instance expires; `+1d` is a day later than it would."""
    form = request.form
    if form.text("lifetime") == forms.ONE_DAY_MORE:
        record, _ = await read_instance_record(request.ctx, request.path("id"))
        if record.destroy_at is None:
            raise BadRequest("The instance doesn't expire.", code="InvalidDestroyInterval")
        at = to_ms(record.destroy_at + timedelta(days=1))
    else:
        interval = forms.interval_ms(form.text("lifetime"), form.text("minutes"))
        at = instances.NEVER if interval == instances.NEVER else to_ms(request.now()) + interval
    await instances.set_destroy_at(request.ctx, request.path("id"), at)
    return request.redirect(safe_path(form.text("back", _path(request))), "Expiration saved.")


def _path(request: PageRequest) -> str:
    return f"{HOME}/instances/{request.path('id')}"


@routes.get("/console/instances/{id}/events")
async def watch(request: PageRequest) -> Response:
    """Stream the live part and new log lines until the browser disconnects."""
    await read_instance_record(request.ctx, request.path("id"))  # an error is a response, not a stream
    return StreamingResponse(
        _events(request), media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"}
    )


async def _events(request: PageRequest) -> AsyncGenerator[str, None]:
    instance_id = request.path("id")
    line = forms.parse_number(request.query("line"), 18) or 0
    parts = (request.query("parts") or "state,approvals,live,log,graph").split(",")
    graph_query = read_graph_query(request)
    people: Mapping[str, str] | None = None
    sent: dict[str, str] = {}
    sent_states: dict[str, list[Any]] = {}
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async with aclosing(watch_instance(request.ctx, instance_id, None)) as changes:
            async for _ in changes:
                # The session may have ended in the meantime; `view_instance` checks the permission again.
                await authenticate_session(request.app, request.session, request.actor.address)
                view = await view_instance(request, instance_id)
                if people is None:
                    people = await user_names(request, view.record.organization_id)
                permissions = await request.permissions(view.record.organization_id)
                shown = {"people": people, "permissions": permissions, "actor": request.actor, **live_values(view)}
                if "graph" in parts or "summary" in parts:
                    components = await read_components(request, view, graph_query.opened)
                    shown["summary"] = components.summary()
                    graph = await shown_graph(components, graph_query, "", is_small="live" in parts)
                    for text in live_events(graph, sent_states):
                        yield live_event("graph", text)
                for name in ("state", "summary", "approvals", "live"):
                    # Only what differs: an unsent comment on an approval must survive the update.
                    text = request.render_fragment(f"instance_{name}.html", **shown) if name in parts else ""
                    if sent.get(name, "") != text:
                        sent[name] = text
                        yield live_event(name, text)
                if "log" not in parts:
                    await asyncio.sleep(_UPDATE_INTERVAL_S)
                    continue
                async for rows in read_log(request.ctx, instance_id, LogFilter(), after=line, limit=_LINES_AT_ONCE):
                    if rows:
                        line = rows[-1].id
                        yield live_event("log", request.render_fragment("log_lines.html", lines=rows))
                await asyncio.sleep(_UPDATE_INTERVAL_S)
    except LaunchbayError as error:
        yield live_event("over", request.render_fragment("live_ended.html", messages=error.messages))
