"""One instance: its tabs, what people do with it, and the live part."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Container, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

from launchbay.clock import from_ms, to_ms
from launchbay.console import forms
from launchbay.console.assets import shown_status
from launchbay.console.fields import (
    ARGUMENT,
    Field,
    field_text,
    fill_fields,
    string_values,
    with_errors,
    workflow_fields,
)
from launchbay.console.forms import FIX_FIELDS, parse_object, restore_hidden
from launchbay.console.instance_view import InstanceView, JobLine, recorded_job, view_instance
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS, live_event, pretty, redact, web_address
from launchbay.console.request import HOME, PageRequest, Routes, safe_path
from launchbay.errors import BadRequest, Conflict, LaunchbayError, TooLarge
from launchbay.features.adoption.usecases import read_adoption
from launchbay.features.change_sets.pages import SAVE, save
from launchbay.features.change_sets.usecases import ChangeAct
from launchbay.features.drift.usecases import count_new_findings
from launchbay.features.freezes.usecases import read_last_override
from launchbay.features.generations.pages import rollback_target
from launchbay.features.history.usecases import FieldChange, list_timeline
from launchbay.features.lifetimes.usecases import extend as extend_life
from launchbay.features.lifetimes.usecases import read_lifetime
from launchbay.features.recurring.pages import shown_rows
from launchbay.features.recurring.usecases import RecurringView, list_recurring_schedules
from launchbay.features.secret_providers.usecases import list_changed_secrets, named_secrets
from launchbay.features.sleep_windows import usecases as sleep_windows
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import template_path
from launchbay.model.expiry import NEVER, duration
from launchbay.model.failures import read_reason
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import StepStatus
from launchbay.model.schedule import due_times
from launchbay.pages.approvals import approval_item
from launchbay.pages.audit import told
from launchbay.pages.components import (
    GRAPH_FIELDS,
    Components,
    GraphQuery,
    component_card,
    component_row,
    live_events,
    read_components,
    read_graph_query,
    shown_graph,
)
from launchbay.pages.schedules import rescheduled_message
from launchbay.planning.acceptance import OBSERVED
from launchbay.planning.decisions import Refused
from launchbay.planning.names import DESTROY
from launchbay.store.audit import AuditRow
from launchbay.store.instances import InstanceRecord
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases import environments, fleet, instances, workflows
from launchbay.usecases.browsing import (
    read_audit_page,
    read_instance_record,
    read_log_tail,
    read_surroundings,
)
from launchbay.usecases.environments import list_environments, list_offering_environments, list_offers
from launchbay.usecases.events import LogFilter, read_log, watch_instance
from launchbay.usecases.jobs import read_job
from launchbay.usecases.organizations import AuditFilter
from launchbay.usecases.sign_in import authenticate_session
from launchbay.usecases.users import list_member_names, list_people_of_instance
from launchbay.usecases.workflows import list_schedules, read_required_arguments

_DAY_MS = 86_400_000
_LOG_LINES = 40
_UPDATE_INTERVAL_S = 0.2  # people read no faster
_LINES_KEPT = 2000  # by the page (console.js); of more that come together, only these are sent
_RETRY_MS = 2_000
_NEXT_RUNS = 3
_AWAKE_HOURS = frozenset({"0", "2", "12", "72"})
_RUNS_SEARCHED = timedelta(days=366)
_STRIP_JOBS = 32
_LAST_JOBS = 3
_STEPS_SHOWN = 12
_LISTED_COMPONENTS = 12
# What is sent anew when it changes; the log and the graph have rules of their own.
_PARTS = frozenset({"state", "summary", "acts", "why", "approvals", "results", "job", "side"})
_ALL_PARTS = ",".join((*_PARTS, "log", "graph"))


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


class Tab(NamedTuple):
    """A tab of the page; `key` ends its path."""

    key: str
    label: str
    number: int | None = None


class Failure(NamedTuple):
    """Why an instance is not as it should be."""

    job: JobLine
    component: str
    step: str
    reason: str


def last_failure(view: InstanceView) -> Failure | None:
    """Return what made the instance Failed, or else the last failure or run."""
    recorded = view.failure
    if recorded is not None and view.record.status is InstanceStatus.FAILED:
        recorded = recorded.cause or recorded
    failed = None if recorded is None else recorded.job_id
    if failed is None and view.jobs and view.jobs[0].status == StepStatus.FAILED:
        failed = view.jobs[0].id
    job = next((each for each in view.jobs if each.id == failed), None)
    if job is not None:
        step = next((each for each in job.steps if each.status == StepStatus.FAILED), None)
        component = step.path.partition("#")[0] if step else ""
        return Failure(job, component, step.name if step else "", job.error or view.error)
    if recorded is None:
        return None
    # So many jobs are newer that the history doesn't have it.
    component, _, step_name = read_reason(recorded.message).place.rpartition(" · ")
    return Failure(recorded_job(recorded), component, step_name, recorded.message)


async def tab_values(
    request: PageRequest,
    tab: str,
    problem: LaunchbayError | None = None,
    view: Awaitable[InstanceView] | None = None,
    components: Awaitable[Components] | None = None,
    recurring: Awaitable[list[RecurringView]] | None = None,
) -> dict[str, Any]:
    """Return the values of what is above the tabs, for the template `instance_base.html`."""
    ask, ctx = request.ask, request.ctx
    record, _ = await read_instance_record(ctx, request.path("id"))
    request.ask_frame(record.organization_id)
    asked_view = view or ask(view_instance(request, record.id))
    own, recurring = ask(list_schedules(ctx, record.id)), recurring or ask(_own_recurring(request, record))
    surroundings, asked_life = ask(read_surroundings(ctx, record.id)), ask(read_lifetime(ctx, record.id))
    people = ask(list_people_of_instance(ctx, record.organization_id, record.id))
    sleep = ask(sleep_windows.read_sleep(ctx, record.id))
    overridden = ask(read_last_override(ctx, record.id))
    drifted = ask(count_new_findings(ctx, record.id))
    adoption = ask(read_adoption(ctx, record.id)) if record.is_observed else None
    changed_secrets = ask(list_changed_secrets(ctx, record.id))
    permissions = await request.permissions(record.organization_id)
    rollback_to = ask(rollback_target(request, permissions, record))
    reads_application = permissions.read_application(record.application_id)  # configurations are of its versions
    shown, life = await asked_view, await asked_life
    found = await (components or read_components(request, shown))
    schedules = [*await own, *await recurring]
    return {
        "section": "instances",
        "organization_id": record.organization_id,
        "problem": problem,
        "surroundings": await surroundings,
        "people": await people,
        "labels": shown.labels,
        "tab": tab,
        "tabs": [
            Tab("", "Overview"),
            Tab("runs", "Runs", shown.jobs[0].number if shown.jobs else None),
            *([Tab("configuration", "Configuration")] if reads_application else []),
            Tab("signals", "Signals"),
            Tab("schedules", "Schedules", len(schedules) or None),
            Tab("drift", "Drift", await drifted or None),
            Tab("activity", "Activity"),
            Tab("settings", "Settings"),
        ],
        "base": f"{HOME}/instances/{record.id}",
        "life": life,
        "sleep": await sleep,
        "changed_secrets": named_secrets(await changed_secrets),
        "overridden": await overridden,
        "observed": OBSERVED,
        "drifted": await drifted,
        "adopted": [] if adoption is None else (await adoption).adopted,
        "runnable": []
        if record.is_observed
        else [each for each in shown.workflows if each != DESTROY and permissions.run(record, each)],
        "reads_application": reads_application,
        "rollback_to": await rollback_to,
        "summary": found.summary(),
        **live_values(shown, found),
    }


def live_values(view: InstanceView, components: Components | None = None) -> dict[str, Any]:
    """Return the values of the live parts of the page."""
    job = view.current
    return {
        "view": view,
        "approvals": [approval_item(row) for row in view.pending],
        "failure": None if view.is_busy else last_failure(view),
        "late": [] if components is None else components.not_started(),
        "endpoints": [(name, value) for name, value in view.return_values.items() if web_address(value)],
        "values": [(name, value) for name, value in view.return_values.items() if not web_address(value)],
        "job": job,
        "steps": None if job is None else job.shown_around(_STEPS_SHOWN),
        "strip": [each.kind for each in reversed(view.jobs[:_STRIP_JOBS])],
        "last_jobs": view.jobs[:_LAST_JOBS],
    }


@routes.get("/console/instances/{id}", query=GRAPH_FIELDS)
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what is broken, the endpoints, the components and the last run."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    query = read_graph_query(request)
    view = request.ask(view_instance(request, record.id))
    asked = request.ask(_components(request, view, query))
    asked_lines = request.ask(read_log_tail(request.ctx, record.id, None, _LOG_LINES))
    offered = request.ask(list_offering_environments(request.ctx, record.id))
    recurring = request.ask(_own_recurring(request, record))
    values = await tab_values(request, "", problem, view, asked, recurring)
    components, lines = await asked, await asked_lines
    return await request.page(
        "instance.html",
        **values,
        query=query,
        graph=request.ask(
            shown_graph(
                components, query, _path(request), is_small=True, card=f"{_path(request)}/components/card", events="yes"
            )
        ),
        card=component_card(components, query, f"{_path(request)}/components"),
        rows=[component_row(components, each) for each in components.by_urgency()[:_LISTED_COMPONENTS]],
        path=f"{_path(request)}/components",
        planned=request.ask(_planned(request, record, await recurring)),
        offered=await offered,
        lines=lines,
        last_line=lines[-1].id if lines else 0,
    )


async def _components(request: PageRequest, view: Awaitable[InstanceView], query: GraphQuery) -> Components:
    return await read_components(request, await view, query.opened)


class Planned(NamedTuple):
    """What runs by itself; `at` is None if it is paused."""

    what: str
    at: datetime | None
    href: str


async def _planned(request: PageRequest, record: InstanceRecord, recurring: Sequence[RecurringView]) -> list[Planned]:
    """Return what runs next, and then what is paused."""
    page = f"{_path(request)}/schedules"
    found = [
        Planned(row.workflow, None if row.cancelled_at else row.due_at, page)
        for row in await list_schedules(request.ctx, record.id)
        if not row.comes_too_late and (row.is_of_manifest or row.cancelled_at is None)
    ]
    for view in recurring:
        one = view.schedule
        if one.is_paused or view.next_at:
            at = None if one.is_paused else view.next_at[0]
            found.append(Planned(one.name, at, f"{HOME}/organizations/{record.organization_id}/recurring/{one.id}"))
    return sorted(found, key=lambda each: (each.at is None, each.at or request.now()))


async def _own_recurring(request: PageRequest, record: InstanceRecord) -> list[RecurringView]:
    return await list_recurring_schedules(
        request.ctx,
        record.organization_id,
        instance_id=record.id,
        application_id=None,
        after=None,
        count=CONSOLE_PAGE_ROWS,
    )


@routes.get("/console/instances/{id}/schedules")
async def show_schedules(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what runs by itself, and when."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    recurring = request.ask(_own_recurring(request, record))
    values = await tab_values(request, "schedules", problem, recurring=recurring)
    view: InstanceView = values["view"]
    rows = await list_schedules(request.ctx, view.record.id)
    own = await recurring
    owners = request.ask(
        list_member_names(request.ctx, view.record.organization_id, [each.schedule.owner_id for each in own])
    )
    return await request.page(
        "instance_schedules.html",
        **{**values, "people": values["people"] | await owners},
        own_recurring=request.ask(shown_rows(request, view.record.organization_id, own)),
        schedules=[row for row in rows if not row.is_of_manifest],
        recurring=recurring_runs(view.manifest, request.now(), rows) if not view.is_over else [],
    )


@routes.get("/console/instances/{id}/activity", query=("before", "changedBefore"))
async def show_activity(request: PageRequest) -> Response:
    """Show what people and programs did with the instance, the newest first."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    before = forms.parse_number(request.query("before"), 18)
    changed_before = forms.parse_number(request.query("changedBefore"), 18)
    asked = request.ask(list_timeline(request.ctx, record.id, before=changed_before, count=_TIMELINE_ROWS))
    audit = request.ask(_audit(request, record, before))
    values = await tab_values(request, "activity")
    timeline, (rows, names) = await asked, await audit
    shown = rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "instance_activity.html",
        **values,
        names=names,
        rows=[
            (
                told(record.organization_id, row, names),
                _VERBS.get(row.actor_email) or _VERBS.get(row.operation, ""),
                row.object.partition("/workflows/")[2],
            )
            for row in shown
        ],
        next_before=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
        is_first=before is None,
        timeline=[(each.row, [_sentence(field) for field in each.fields]) for each in timeline.changes],
        older_changes=timeline.changes[-1].row.id if timeline.has_more else None,
        is_newest=changed_before is None,
    )


async def _audit(
    request: PageRequest, record: InstanceRecord, before: int | None
) -> tuple[list[AuditRow], Mapping[str, str]]:
    """Return audit entries about an instance, and names by ID.

    Who may not see the audit log gets nothing.
    """
    if not (await request.permissions(record.organization_id)).view_audit():
        return [], {}
    return await read_audit_page(
        request.ctx, record.organization_id, AuditFilter(about=record.id), before=before, count=CONSOLE_PAGE_ROWS + 1
    )


_TIMELINE_ROWS = 20
_TITLES = {
    "status": "Status",
    "version": "Version",
    "name": "Name",
    "parameters": "Parameters",
    "returnValues": "Return values",
    "components": "Components",
    "machines": "Machines",
    "environment": "Environment",
    "userData": "Notes",
    "labels": "Labels",
    "errorMessage": "Error",
    "destroyAt": "Expiry",
}


def _sentence(change: FieldChange) -> str:
    """Return what changed, in a few words."""
    title = _TITLES[change.field]
    if change.names:
        return f"{title}: {', '.join(change.names)}"
    if change.field == "status":
        return " → ".join([f"{title}: {shown_status(str(change.before))[1]}", shown_status(str(change.after))[1]])
    if change.field == "version":
        return f"{title}: {change.before} → {change.after}"
    return title


# What the activity of an instance says for an operation.
_VERBS: Mapping[str, str] = {
    "launch_application": "launched it",
    "reconfigure_instance": "changed its configuration",
    "rollback_instance": "rolled it back",
    "engine/rollback": "rolled it back automatically, because the change failed",
    "run_workflow": "ran",
    "cancel_job": "cancelled a run of",
    "resume_job": "resumed",
    "schedule_workflow": "scheduled",
    "reschedule_workflow": "changed the schedule of",
    "put_user_data": "changed its notes",
    "put_instance_labels": "changed its labels",
    "set_destroy_at": "changed its expiry",
    "extend_instance": "extended its life",
    "undo_destroy": "took back its destruction",
    "delete_instance": "deleted it",
    "replace_instance_environments": "changed where it is offered",
}


@routes.get("/console/instances/{id}/settings")
async def show_settings(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show labels, expiry, offers, notes, and what ends the instance."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    offers, settings = request.ask(_offers(request, record)), request.ask(_read_settings(request))
    values = await tab_values(request, "settings", problem)
    form = request.form
    return await request.page(
        "instance_settings.html",
        **values,
        labels_text=form.text("labels") or _labels_text(values["labels"]),
        offers=await offers,
        notes=redact(msgspec.json.decode(record.user_data)),
        notes_text=form.raw("userData"),
        lifetimes=forms.CHOICES,
        lifetime=form.text("lifetime", str(NEVER) if record.destroy_at is None else ""),
        minutes=form.text("minutes"),
        seen={name: request.seen(_SETTING_PATHS[name], {name: value}) for name, value in (await settings).items()},
    )


_SETTING_PATHS = {"labels": "/labels", "environment": "/offers", "userData": "/userData", "expires": "/lifetime"}


@routes.get("/console/instances/{id}/run", query=("from", "workflow"))
async def run_page(
    request: PageRequest, problem: LaunchbayError | None = None, *, refused: Workflow | None = None
) -> Response:
    """Show the forms of the workflows; `refused` has errors."""
    asked = request.ask(read_required_arguments(request.ctx, request.path("id")))
    values = await tab_values(request, "run", problem)
    view: InstanceView = values["view"]
    permissions = await request.permissions(view.record.organization_id)
    required = await asked
    repeated = request.query("from") if refused is None else None
    if repeated is not None:
        refused = await _repeated(request, view, repeated, required)
    can_start = not view.is_over and view.record.parent_id is None
    return await request.page(
        "instance_run.html",
        **values,
        workflows=_workflows(view, permissions, refused, required) if can_start else [],
        chosen=refused.name if refused else request.query("workflow") or "",
    )


async def _repeated(
    request: PageRequest, view: InstanceView, job_id: str, required: Mapping[str, Container[str]]
) -> Workflow:
    """Return the workflow of an earlier run with its parameters, without masked ones."""
    job = await read_job(request.ctx, view.record.id, job_id)
    given, name = job.plan.arguments, job.plan.workflow
    shown = job.redactor.value(given)
    fields = [
        replace(each, value=field_text(given[each.name]))
        if each.name in given and shown[each.name] == given[each.name]
        else each
        for each in workflow_fields(view.manifest, name, required.get(name, ()))
    ]
    return Workflow(name, fields)


def _workflows(
    view: InstanceView,
    permissions: UiPermissions,
    refused: Workflow | None,
    required: Mapping[str, Container[str]],
) -> list[Workflow]:
    """Return the workflows to run or schedule; the refused one as sent."""
    found: list[Workflow] = []
    for name in view.workflows:
        can_run, can_schedule = permissions.run(view.record, name), permissions.schedule(view.record, name)
        if name != DESTROY and (can_run or can_schedule):
            is_refused = refused is not None and refused.name == name
            fields = workflow_fields(view.manifest, name, required.get(name, ()))
            fields = refused.fields if refused and is_refused else fields
            found.append(Workflow(name, fields, can_run, can_schedule))
    return found


async def _offers(request: PageRequest, record: InstanceRecord) -> list[Offer]:
    """Return all readable environments, and by ID those that offer the instance but aren't readable."""
    asked = request.ask(list_offers(request.ctx, record.id))
    known = request.ask(list_environments(request.ctx, record.organization_id))
    permissions = await request.permissions(record.organization_id)
    offered, names = await asked, {row.id: row.name for row in await known}
    names |= {each: each for each in offered if each not in names}
    return [Offer(each, name, each in offered, permissions.offer(record, each)) for each, name in names.items()]


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
            found += [
                RecurringRun(
                    row.component, workflow, expression, [at for at in next_runs if not row.ends_before(at)], row
                )
                for row in own
            ]
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
    except (BadRequest, Conflict, Refused) as error:
        fields, rest = with_errors(fields, error.messages)
        problem = error if rest else BadRequest(FIX_FIELDS)
    return await run_page(request, problem, refused=Workflow(name, fields))


async def _run(request: PageRequest, instance_id: str, name: str, arguments: dict[str, str]) -> str:
    """Run or schedule the workflow, and return the message for the user."""
    if request.form.text("do") == "schedule":
        interval = forms.minutes_ms(request.form.text("minutes"))
        await workflows.schedule_workflow(request.ctx, instance_id, name, interval, arguments)
        return f"{name} scheduled."
    await workflows.run_workflow(request.ctx, instance_id, name, arguments)
    return f"{name} started."


@routes.post("/console/instances/{id}/reschedule", again=show_schedules)
async def reschedule(request: PageRequest) -> Response:
    instance_id, schedule = request.path("id"), request.form.text("schedule")
    cancels = request.form.text("do") == "cancel"
    interval = 0 if cancels else forms.minutes_ms(request.form.text("minutes"))
    done = await workflows.reschedule_workflow(request.ctx, instance_id, schedule, interval, None)
    return request.redirect(f"{_path(request)}/schedules", rescheduled_message(done))


@routes.post("/console/instances/{id}/labels", again=show_settings)
async def put_labels(request: PageRequest) -> Response:
    """Replace the labels."""
    labels = parse_labels(request.form.text("labels"))
    async with request.unless_changed("instances", request.path("id"), partial(_read_setting, request, "labels")):
        await fleet.put_labels(request.ctx, "instance", request.path("id"), labels)
    return request.redirect(f"{_path(request)}/settings#labels", "Labels saved.")


@routes.post("/console/instances/{id}/offers", again=show_settings, refusals=(BadRequest, Conflict))
async def offer(request: PageRequest) -> Response:
    """Offer the instance as a service in the selected environments, and in no other."""
    async with request.unless_changed("instances", request.path("id"), partial(_read_setting, request, "environment")):
        await environments.replace_offers(request.ctx, request.path("id"), request.form.all("environment"))
    return request.redirect(f"{_path(request)}/settings#offers", "Environments saved.")


@routes.post("/console/instances/{id}/userData", again=show_settings, refusals=(BadRequest, TooLarge))
async def put_notes(request: PageRequest) -> Response:
    """Replace the notes, which the API calls user data.

    A masked secret that comes back keeps its value.
    """
    sent = parse_object("Notes as a JSON object", request.form.raw("userData"))
    async with request.unless_changed("instances", request.path("id"), partial(_read_setting, request, "userData")):
        record, _ = await read_instance_record(request.ctx, request.path("id"))
        data = restore_hidden(sent, msgspec.json.decode(record.user_data))
        await instances.put_user_data(request.ctx, record.id, data)
    return request.redirect(f"{_path(request)}/settings#notes", "Notes saved.")


@routes.get("/console/instances/{id}/end")
async def destroy_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the forms to destroy or delete the instance."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    request.ask_frame(record.organization_id)
    life = request.ask(read_lifetime(request.ctx, record.id))
    users = await workflows.list_dependents(request.ctx, record.id)
    grace_ms = (await life).rules.grace_ms
    return await request.page(
        "instance_end.html",
        users=users,
        grace=None if grace_ms is None else duration(grace_ms),
        save_comment=request.form.text("changeComment"),
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        record=record,
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
    if form.text("do") == SAVE:
        record, _ = await read_instance_record(request.ctx, request.path("id"))
        act = ChangeAct(act="destroy", force=form.has("force") or None)
        return await save(request, record.organization_id, act, ids=[record.id])
    destroyed = await workflows.destroy(request.ctx, request.path("id"), {}, force=form.has("force"))
    waits = isinstance(destroyed, workflows.DestroyAt)
    return request.redirect(_path(request), "Destruction scheduled." if waits else "Destruction started.")


@routes.post("/console/instances/{id}/awake", again=show, refusals=(BadRequest, Conflict))
async def keep_awake(request: PageRequest) -> Response:
    """Keep an instance awake for some hours; 0 lets it sleep again."""
    hours = request.form.text("hours")
    if hours not in _AWAKE_HOURS:
        raise BadRequest("Choose how long the instance stays awake.", code="InvalidInterval")
    until = None if hours == "0" else request.now() + timedelta(hours=int(hours))
    await sleep_windows.keep_awake(request.ctx, request.path("id"), until)
    return request.redirect(_path(request), "It may sleep again." if until is None else "It stays awake.")


@routes.post("/console/instances/{id}/take-over", again=show, refusals=(BadRequest, Conflict))
async def take_over(request: PageRequest) -> Response:
    """Make a change set that takes over what is only observed."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    return await save(request, record.organization_id, ChangeAct(act="manage"), ids=[record.id])


@routes.post("/console/instances/{id}/undo-destroy", again=show, refusals=(BadRequest, Conflict))
async def undo_destroy(request: PageRequest) -> Response:
    """Take back a destroy within its grace time."""
    schedule_id = await workflows.undo_destroy(request.ctx, request.path("id"))
    return request.redirect(_path(request), "Destruction taken back." + (" Starting." if schedule_id else ""))


@routes.post("/console/instances/{id}/lifetime", again=show_settings)
async def extend(request: PageRequest) -> Response:
    """Set when the instance expires; `+1d` is a day later than it would."""
    form = request.form
    if form.text("lifetime") == forms.ONE_DAY_MORE:
        record, _ = await read_instance_record(request.ctx, request.path("id"))
        life = await read_lifetime(request.ctx, record.id)
        if life.ends_at is not None and life.ends_at == life.idle_ends_at:
            _, first = await extend_life(request.ctx, record.id, _DAY_MS)
            return request.redirect(safe_path(form.text("back", _path(request))), _saved(first))
        if record.destroy_at is None:
            raise BadRequest("The instance doesn't expire.", code="InvalidDestroyInterval")
        at = to_ms(record.destroy_at) + _DAY_MS
    else:
        interval = forms.interval_ms(form.text("lifetime"), form.text("minutes"))
        at = NEVER if interval == NEVER else to_ms(request.now()) + interval
    async with request.unless_changed("instances", request.path("id"), partial(_read_setting, request, "expires")):
        await instances.set_destroy_at(request.ctx, request.path("id"), at)
    life = await read_lifetime(request.ctx, request.path("id"))
    first = None if at == NEVER else life.ends.first_before(from_ms(at), life.idle_ends_at)
    return request.redirect(safe_path(form.text("back", _path(request))), _saved(first))


def _saved(ends_first: str | None) -> str:
    """Return the message about a new expiry."""
    return "Expiry saved." if ends_first is None else f"Expiry saved. {ends_first}"


async def _read_setting(request: PageRequest, name: str) -> dict[str, Any]:
    """Return a setting of the instance by the field of its form."""
    return {name: (await _read_settings(request))[name]}


async def _read_settings(request: PageRequest) -> dict[str, Any]:
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    labels = await fleet.read_object_labels(request.ctx, "instance", record.id)
    offers = await list_offers(request.ctx, record.id)
    return {
        "labels": _labels_text(labels),
        "environment": sorted(offers),
        "userData": pretty(redact(msgspec.json.decode(record.user_data))),
        "expires": "never" if record.destroy_at is None else record.destroy_at.isoformat(timespec="seconds"),
    }


def _labels_text(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())


def parse_labels(text: str) -> dict[str, str]:
    """Return labels such as `team=quay tier=1`; one without a value is a name alone."""
    pairs = (each.partition("=") for each in text.split())
    return {name: value for name, _, value in pairs}


def _path(request: PageRequest) -> str:
    return f"{HOME}/instances/{request.path('id')}"


@routes.get("/console/instances/{id}/events", query=(*GRAPH_FIELDS, "line", "parts"))
async def watch(request: PageRequest) -> Response:
    """Stream the live parts and new log lines until the browser disconnects."""
    await read_instance_record(request.ctx, request.path("id"))  # an error is a response, not a stream
    return StreamingResponse(
        _events(request), media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"}
    )


async def _events(request: PageRequest) -> AsyncGenerator[str, None]:
    instance_id = request.path("id")
    line = forms.parse_number(request.query("line"), 18) or 0
    parts = (request.query("parts") or _ALL_PARTS).split(",")
    query = read_graph_query(request)
    sent: dict[str, str] = {}
    sent_states: dict[str, list[Any]] = {}
    yield f"retry: {_RETRY_MS}\n\n"
    try:
        async with aclosing(watch_instance(request.ctx, instance_id, None)) as changes:
            async for _ in changes:
                # The session may have ended in the meantime; `view_instance` checks the permission again.
                await authenticate_session(request.app, request.session, request.actor.address)
                async with request.reading() as now:
                    view = await view_instance(now, instance_id)
                    people = now.ask(list_people_of_instance(now.ctx, view.record.organization_id, instance_id))
                    components = await read_components(now, view, query.opened)
                    permissions = await now.permissions(view.record.organization_id)
                    names = await people
                shown = {
                    "people": names,
                    "permissions": permissions,
                    "actor": request.actor,
                    "base": f"{HOME}/instances/{instance_id}",
                    "summary": components.summary(),
                    **live_values(view, components),
                }
                for name in _PARTS.intersection(parts):
                    # Only what differs: an unsent comment on an approval must survive the update.
                    text = request.render_fragment(f"instance_{name}.html", **shown)
                    if sent.get(name) != text:
                        sent[name] = text
                        yield live_event(name, text)
                if "graph" in parts:
                    graph = await shown_graph(components, query, "", is_small="results" in parts)
                    for text in live_events(graph, sent_states):
                        yield live_event("graph", text)
                if "log" in parts:
                    async for rows in read_log(request.ctx, instance_id, LogFilter(), after=line, tail=_LINES_KEPT):
                        if rows:
                            line = rows[-1].id
                            yield live_event("log", request.render_fragment("log_lines.html", lines=rows))
                await asyncio.sleep(_UPDATE_INTERVAL_S)
    except LaunchbayError as error:
        yield request.live_end(error)
