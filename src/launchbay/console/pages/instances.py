"""The list of instances, and the page of one."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.console.graph import component_graph, component_lines, family_graph, statuses
from launchbay.console.instance_view import InstanceView, view_instance
from launchbay.console.may import May
from launchbay.console.page import Page
from launchbay.console.pages.approvals import asked
from launchbay.console.parameter_fields import Field, workflow_fields
from launchbay.console.people import names_of_people
from launchbay.console.visit import Visit
from launchbay.console.wording import covered
from launchbay.errors import LaunchbayError
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus
from launchbay.model.schedule import CronError, due_times
from launchbay.planning import DESTROY
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases.applications import list_applications, read_application
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_environment, read_log_tail
from launchbay.usecases.environments import list_environments, read_offers
from launchbay.usecases.workflows import list_schedules

LOG_LINES = 200
_NEXT_RUNS = 3
_LOOK_AHEAD = timedelta(days=366)


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


class Recurring(NamedTuple):
    """A schedule that the manifest itself has."""

    component: str
    workflow: str
    expression: str
    next_runs: list[datetime]


async def list_all(visit: Visit) -> Response:
    """Show a page of the instances of an organization."""
    organization_id = visit.path("id")
    application_id, environment_id, status = (visit.query(name) for name in ("application", "environment", "status"))
    wanted = InstanceFilter(
        application_id=application_id, environment_id=environment_id, status=status, name=visit.query("name")
    )
    before = visit.query("before")
    found = await browse_instances(
        visit.desk,
        visit.actor,
        organization_id,
        wanted,
        before if before is not None and is_id(before) else None,
        CONSOLE_PAGE_ROWS,
    )
    query = {name: visit.query(name) for name in ("name", "status", "application", "environment")}
    return await visit.page(
        "instances.html",
        section="instances",
        organization_id=organization_id,
        found=found,
        query={name: value for name, value in query.items() if value},
        is_first=before is None,
        statuses=list(InstanceStatus),
        applications=await list_applications(visit.desk, visit.actor, organization_id),
        environments=await list_environments(visit.desk, visit.actor, organization_id),
    )


async def show(visit: Visit) -> Response:
    """Show an instance."""
    return await show_instance(visit, visit.path("id"))


async def show_instance(
    visit: Visit, instance_id: str, problem: LaunchbayError | None = None, refused: Workflow | None = None
) -> Response:
    """Return the page of an instance; `refused` is the form of a workflow with what is wrong in it."""
    desk, actor = visit.desk, visit.actor
    view = await view_instance(visit, instance_id)
    record = view.record
    lines = await read_log_tail(desk, actor, record.id, None, LOG_LINES)
    repeated = recurring(view.manifest, visit.now()) if not view.is_over else []
    may = await visit.may(record.organization_id)
    return await visit.page(
        "instance.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        refused=refused.name if refused else "",
        application=await read_application(desk, actor, record.application_id),
        environment=await read_environment(desk, actor, record.environment_id),
        people=await names_of_people(visit, record.organization_id),
        workflows=_workflows(view, may, refused),
        offers=await _offers(visit, view, may),
        user_data=covered(msgspec.json.decode(record.user_data)),
        user_data_text=visit.form.raw("userData"),
        schedules=[row for row in await list_schedules(desk, actor, record.id) if not _is_of_manifest(row, repeated)],
        recurring=repeated,
        graph=family_graph(view.family),
        components=component_graph(view.manifest, view.children) if len(view.manifest.components) > 1 else "",
        component_lines=component_lines(view.manifest),
        lines=lines,
        last_line=lines[-1].id if lines else 0,
        **live_values(view),
    )


def _workflows(view: InstanceView, may: May, refused: Workflow | None) -> list[Workflow]:
    """Return the workflows that the person may run or schedule; the refused one with its form as it was sent."""
    found: list[Workflow] = []
    for name in view.workflows:
        may_run, may_schedule = may.run(view.record, name), may.schedule(view.record, name)
        if name != DESTROY and (may_run or may_schedule):
            is_refused = refused is not None and refused.name == name
            fields = refused.fields if refused and is_refused else workflow_fields(view.manifest, name)
            found.append(Workflow(name, fields, may_run, may_schedule))
    return found


async def _offers(visit: Visit, view: InstanceView, may: May) -> list[Offer]:
    """Return the environments that offer the instance, or may; those that the person may not read are there by id."""
    record = view.record
    offered = await read_offers(visit.desk, visit.actor, record.id)
    known = await list_environments(visit.desk, visit.actor, record.organization_id)
    names = {row.id: row.name for row in known} | {
        each: each for each in offered if each not in {row.id for row in known}
    }
    return [Offer(each, name, each in offered, may.offer(record, each)) for each, name in names.items()]


def live_values(view: InstanceView) -> dict[str, Any]:
    """Return what the live part of the page is filled with."""
    approvals = [asked(row) for row in view.pending]
    return {"view": view, "approvals": approvals, "statuses": statuses(view.family, view.component_statuses)}


def recurring(manifest: CompiledManifest, now: datetime) -> list[Recurring]:
    """Return the schedules of the manifest with the times when they are due next."""
    found: list[Recurring] = []
    for path, component in manifest.components.items():
        for workflow, expression in component.schedule.items():
            found.append(Recurring(path, workflow, expression, _next_runs(expression, now)))
    return found


def _is_of_manifest(row: ScheduleRow, repeated: list[Recurring]) -> bool:
    """Tell whether a pending schedule is the next run of one that the manifest has; those cannot be moved."""
    return any(each.workflow == row.workflow and row.due_at in each.next_runs for each in repeated)


def _next_runs(expression: str, now: datetime) -> list[datetime]:
    runs: list[datetime] = []
    try:
        for at in due_times(expression, now):
            if len(runs) == _NEXT_RUNS or at > now + _LOOK_AHEAD:
                break
            runs.append(at)
    except CronError:
        return []  # the engine says so in the log
    return runs


PAGES = (
    Page("GET", "/console/organizations/{id}/instances", list_all),
    Page("GET", "/console/instances/{id}", show),
)
