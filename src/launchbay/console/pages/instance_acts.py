"""What the buttons of an instance's page do."""

from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.clock import to_ms
from launchbay.console import lifetimes
from launchbay.console.form import parsed_object
from launchbay.console.page import Page
from launchbay.console.pages.instances import Workflow, show_instance
from launchbay.console.parameter_fields import filled, texts, with_errors, workflow_fields
from launchbay.console.user_data import kept
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, Conflict, LaunchbayError, TooLarge
from launchbay.planning import DESTROY
from launchbay.usecases import environments, instances, workflows
from launchbay.usecases.browsing import read_instance_record

ARGUMENT = "argument:"


async def run(visit: Visit) -> Response:
    """Run a workflow now, or put it on the schedule."""
    instance_id, name = visit.path("id"), visit.form.text("workflow")
    _, manifest = await read_instance_record(visit.desk, visit.actor, instance_id)
    fields = filled(workflow_fields(manifest, name), visit.form, f"{ARGUMENT}{name}:")
    problem: LaunchbayError | None = None
    try:
        if not any(field.error for field in fields):
            return visit.go(_path(visit), await _started(visit, instance_id, name, texts(fields)))
        problem = BadRequest("Mend the fields that are marked below.")
    except (BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.sentences)
        problem = error if rest else BadRequest("Mend the fields that are marked below.")
    return await show_instance(visit, instance_id, problem, Workflow(name, fields))


async def _started(visit: Visit, instance_id: str, name: str, arguments: dict[str, str]) -> str:
    """Do what was asked, and return what to say of it."""
    if visit.form.text("do") == "schedule":
        interval = lifetimes.minutes_ms(visit.form.text("minutes"))
        await workflows.schedule_workflow(visit.desk, visit.actor, instance_id, name, interval, arguments)
        return f"{name} is on the schedule."
    await workflows.run_workflow(visit.desk, visit.actor, instance_id, name, arguments)
    return f"{name} has begun."


async def reschedule(visit: Visit) -> Response:
    """Move a schedule, or take it away."""
    instance_id, schedule = visit.path("id"), visit.form.text("schedule")
    try:
        cancels = visit.form.text("do") == "cancel"
        interval = 0 if cancels else lifetimes.minutes_ms(visit.form.text("minutes"))
        await workflows.reschedule_workflow(visit.desk, visit.actor, instance_id, schedule, interval, None)
    except BadRequest as error:
        return await show_instance(visit, instance_id, error)
    return visit.go(f"{_path(visit)}#schedules", "The schedule is taken away." if cancels else "The schedule is moved.")


async def offer(visit: Visit) -> Response:
    """Offer the instance as a service in the environments that are ticked, and in no other."""
    try:
        await environments.replace_offers(visit.desk, visit.actor, visit.path("id"), visit.form.all("environment"))
    except (BadRequest, Conflict) as error:
        return await show_instance(visit, visit.path("id"), error)
    return visit.go(f"{_path(visit)}#offers", "The environments are kept.")


async def put_user_data(visit: Visit) -> Response:
    """Replace the user data; what is shown covered and comes back so stays."""
    record, _ = await read_instance_record(visit.desk, visit.actor, visit.path("id"))
    try:
        sent = parsed_object("User data", visit.form.raw("userData"))
        data = kept(sent, msgspec.json.decode(record.user_data))
        await instances.put_user_data(visit.desk, visit.actor, record.id, data)
    except (BadRequest, TooLarge) as error:
        return await show_instance(visit, record.id, error)
    return visit.go(f"{_path(visit)}#user-data", "The user data is kept.")


async def end_page(visit: Visit) -> Response:
    """Ask how the life of the instance goes on, or ends."""
    return await _end_page(visit, None)


async def destroy(visit: Visit) -> Response:
    """Run `destroy`; by force, whatever runs is cancelled, and the records go too."""
    form = visit.form
    try:
        if form.text("do") == "delete":
            forced = form.has("force")
            record, _ = await read_instance_record(visit.desk, visit.actor, visit.path("id"))
            await instances.delete_instance(visit.desk, visit.actor, record.id, force=forced)
            target = f"{HOME}/organizations/{record.organization_id}/instances"
            return visit.go(target, f"{record.name} is deleted." if not forced else f"{record.name} is being deleted.")
        await workflows.run_workflow(visit.desk, visit.actor, visit.path("id"), DESTROY, {})
    except (BadRequest, Conflict) as error:
        return await _end_page(visit, error)
    return visit.go(_path(visit), "The instance is being destroyed.")


async def extend(visit: Visit) -> Response:
    """Set when the instance is destroyed by itself."""
    try:
        interval = lifetimes.interval_ms(visit.form.text("lifetime"), visit.form.text("minutes"))
        at = instances.NEVER if interval == instances.NEVER else to_ms(visit.now()) + interval
        await instances.set_destroy_at(visit.desk, visit.actor, visit.path("id"), at)
    except BadRequest as error:
        return await _end_page(visit, error)
    return visit.go(_path(visit), "The instance lives as long as you said.")


async def _end_page(visit: Visit, problem: LaunchbayError | None) -> Response:
    record, _ = await read_instance_record(visit.desk, visit.actor, visit.path("id"))
    values: dict[str, Any] = {"lifetimes": lifetimes.CHOICES, "lifetime": visit.form.text("lifetime")}
    return await visit.page(
        "instance_end.html",
        section="instances",
        organization_id=record.organization_id,
        problem=problem,
        record=record,
        minutes=visit.form.text("minutes"),
        **values,
    )


def _path(visit: Visit) -> str:
    return f"{HOME}/instances/{visit.path('id')}"


PAGES = (
    Page("POST", "/console/instances/{id}/run", run),
    Page("POST", "/console/instances/{id}/reschedule", reschedule),
    Page("POST", "/console/instances/{id}/offers", offer),
    Page("POST", "/console/instances/{id}/userData", put_user_data),
    Page("GET", "/console/instances/{id}/end", end_page),
    Page("POST", "/console/instances/{id}/end", destroy),
    Page("POST", "/console/instances/{id}/lifetime", extend),
)
