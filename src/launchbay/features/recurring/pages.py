"""Recurring schedules: runs, launches and bulk runs by a cron expression."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from starlette.responses import Response

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.console import forms
from launchbay.console.assets import Glyph, shown_status
from launchbay.console.list_query import STANDARD, read_instance_query
from launchbay.console.permissions import UiPermissions
from launchbay.console.request import HOME, PageRequest, Routes, people_in, safe_path, user_names
from launchbay.console.times import zone_names
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.features.bulk.usecases import Act
from launchbay.features.recurring import usecases as recurring
from launchbay.features.recurring.rows import RecurringSchedule
from launchbay.features.recurring.usecases import Doing, Firing, RecurringRequest, RecurringView, Timing, waiting_for
from launchbay.limits import CONSOLE_PAGE_ROWS, CONSOLE_SUGGESTIONS
from launchbay.model.schedule import local_time, zone_of
from launchbay.planning.names import DESTROY
from launchbay.usecases import fleet
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.instances import read_instance

routes = Routes()

_SHOWN_TIMES = 5
_SHORT = "%a %-d %b, %H:%M"  # of a list
_STRIP = 14  # last results of a row
_MINUTE_MS = 60_000
_BULK_ACTS = {"run": "Run a workflow on", "resume": "Resume", "destroy": "Destroy"}
_OUTCOMES: dict[str, tuple[Glyph, str]] = {
    "Started": (Glyph.QUEUED, "Started"),
    "Skipped": (Glyph.SKIPPED, "Skipped"),
    "Refused": (Glyph.STOPPED, "Refused"),
}


class Row(NamedTuple):
    """A schedule of the list."""

    schedule: RecurringSchedule
    state: str
    what: str
    next_at: Sequence[str]
    strip: Sequence[Glyph]
    instance: str
    can_control: bool


class ShownFiring(NamedTuple):
    """A firing with its result."""

    firing: Firing
    due: str
    kind: Glyph
    words: str


@routes.get("/console/organizations/{id}/recurring", query=("after", "application", "instance"))
async def list_all(request: PageRequest) -> Response:
    """Show the recurring schedules of an organization, of an application or of an instance."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    instance, application = request.query("instance"), request.query("application")
    views = await recurring.list_recurring_schedules(
        request.ctx,
        organization_id,
        instance_id=instance,
        application_id=application,
        after=request.query("after"),
        count=CONSOLE_PAGE_ROWS + 1,
    )
    shown = views[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "recurring/templates/recurring_list.html",
        section="schedules",
        organization_id=organization_id,
        rows=request.ask(shown_rows(request, organization_id, shown)),
        applications={row.id: row.name for row in await list_applications(request.ctx, organization_id)},
        people=request.ask(user_names(request, organization_id, [each.schedule.owner_id for each in shown])),
        narrowed=instance or application,
        next_after=shown[-1].schedule.id if len(views) > CONSOLE_PAGE_ROWS else None,
    )


@routes.get("/console/organizations/{id}/recurring/new", query=("application", "bulk", "instance"))
async def form_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the form for an instance, an application, or instances of a query."""
    organization_id, form = request.path("id"), request.form
    request.ask_frame(organization_id)
    permissions = await request.permissions(organization_id)
    instance_id = form.text("instance") or request.query("instance")
    application_id = form.text("application") or request.query("application")
    is_bulk = form.has("act") or bool(request.query("bulk"))
    instance = workflows = None
    if instance_id:
        instance, workflows = await _workflows(request, instance_id, permissions)
    applications = await list_applications(request.ctx, organization_id)
    # The field has a name, links and the form an ID.
    application = next((row for row in applications if application_id in (row.id, row.name)), None)
    if application_id and application is None:
        problem = problem or BadRequest(f"You can see no application {application_id!r}.", "Use the name of one.")
    return await request.page(
        "recurring/templates/recurring_new.html",
        section="schedules",
        organization_id=organization_id,
        problem=problem,
        status=200 if form.text("do") == "preview" else None,
        given=form,
        instance=instance,
        workflows=workflows or [],
        application=application,
        applications=[row.name for row in applications[:CONSOLE_SUGGESTIONS] if permissions.launch(row.id)],
        environments=request.ask(list_environments(request.ctx, organization_id)),
        is_bulk=is_bulk,
        acts=_BULK_ACTS,
        query=form.text("q", STANDARD),
        lifetimes=forms.CHOICES,
        next=await _next_times(request, instance_id) if form.has("cron") else NextTimes(),
        **_form_values(form),
    )


@routes.post("/console/organizations/{id}/recurring", again=form_page)
async def create(request: PageRequest) -> Response:
    """Show the next times of what the form says, or make the schedule."""
    if request.form.text("do") == "preview":
        return await form_page(request)
    organization_id, form = request.path("id"), request.form
    wanted = RecurringRequest(
        name=form.text("name"),
        timing=_timing(form),
        doing=await _doing(request, organization_id),
        instance_id=form.text("instance") or None,
        application_id=form.text("application") or None,
    )
    made = await recurring.create_recurring_schedule(request.ctx, organization_id, wanted)
    return request.redirect(_path(organization_id, made.schedule.id), "Schedule saved.")


@routes.get("/console/organizations/{id}/recurring/{recurring}")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show a recurring schedule with its next times and last results."""
    organization_id, form = request.path("id"), request.form
    request.ask_frame(organization_id)
    view = await recurring.read_recurring_schedule(request.ctx, request.path("recurring"))
    found = view.schedule
    zone = zone_of(found.zone)
    following = NextTimes([local_time(each, zone) for each in view.next_at], view.warnings(request.now()))
    if form.has("cron"):
        following = await _next_times(request, found.instance_id)
    [row] = await shown_rows(request, organization_id, [view])
    people = await user_names(request, organization_id, [found.owner_id])
    return await request.page(
        "recurring/templates/recurring.html",
        section="schedules",
        organization_id=organization_id,
        problem=problem,
        status=200 if form.text("do") == "preview" else None,
        found=found,
        waiting=waiting_for(found, request.now()),
        seen=request.seen(f"/{found.id}", _stored(view)),
        row=row,
        narrowing=_narrowing(view.doing),
        firings=[_firing(each, view, zone) for each in view.firings],
        next=following,
        applications={each.id: each.name for each in await list_applications(request.ctx, organization_id)},
        owner=people.get(found.owner_id, found.owner_email),
        given=form,
        **(_form_values(form) if form.has("cron") else _stored_values(found)),
    )


@routes.post("/console/organizations/{id}/recurring/{recurring}", again=show)
async def update(request: PageRequest) -> Response:
    """Show the next times of what the form says, or replace name and times."""
    form = request.form
    if form.text("do") == "preview":
        return await show(request)

    async def read() -> dict[str, Any]:
        return _stored(await recurring.read_recurring_schedule(request.ctx, request.path("recurring")))

    async with request.unless_changed("recurring-schedules", request.path("recurring"), read):
        await recurring.update_recurring_schedule(
            request.ctx, request.path("recurring"), form.text("name"), _timing(form)
        )
    return request.redirect(_path(request.path("id"), request.path("recurring")), "Schedule saved.")


@routes.post("/console/organizations/{id}/recurring/{recurring}/pause", again=show)
async def pause(request: PageRequest) -> Response:
    """Pause a schedule, or resume it."""
    paused = request.form.text("do") != "resume"
    await recurring.pause_recurring_schedule(request.ctx, request.path("recurring"), paused=paused)
    back = request.form.text("back", _path(request.path("id"), request.path("recurring")))
    return request.redirect(safe_path(back), "Schedule paused." if paused else "Schedule resumed.")


@routes.get("/console/organizations/{id}/recurring/{recurring}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    found = (await recurring.read_recurring_schedule(request.ctx, request.path("recurring"))).schedule
    return await request.confirm_deletion(
        problem,
        section="schedules",
        organization_id=organization_id,
        name=found.name,
        consequence="It begins nothing more. What it has begun continues.",
        path=_path(organization_id, found.id),
        allowed=(await request.permissions(organization_id)).control(found, request.actor),
        needed=Permission.EDIT_INSTANCE,
    )


@routes.post("/console/organizations/{id}/recurring/{recurring}/delete", again=delete_page)
async def delete(request: PageRequest) -> Response:
    await recurring.delete_recurring_schedule(request.ctx, request.path("recurring"))
    return request.redirect(f"{HOME}/organizations/{request.path('id')}/recurring", "Schedule deleted.")


async def shown_rows(request: PageRequest, organization_id: str, views: Sequence[RecurringView]) -> list[Row]:
    """Return schedules as lists show them."""
    permissions = await request.permissions(organization_id)
    ids = list(dict.fromkeys(view.schedule.instance_id for view in views if view.schedule.instance_id))
    names: dict[str, str] = {}
    for first in range(0, len(ids), CONSOLE_PAGE_ROWS):
        wanted = InstanceFilter(ids=ids[first : first + CONSOLE_PAGE_ROWS])
        page = await fleet.list_instances(
            request.ctx, organization_id, wanted, sort="name", after=None, count=CONSOLE_PAGE_ROWS
        )
        names |= {row.id: row.name for row in page.rows if row.id is not None}
    found: list[Row] = []
    for view in views:
        schedule = view.schedule
        zone = zone_of(schedule.zone)
        found.append(
            Row(
                schedule,
                schedule.status,
                _what(view.doing, schedule.kind),
                [_short(each.astimezone(zone)) for each in view.next_at],
                [_result(each, view)[0] for each in reversed(view.firings[:_STRIP])],
                names.get(schedule.instance_id or "", "an instance"),
                permissions.control(schedule, request.actor),
            )
        )
    return found


def _short(at: datetime) -> str:
    """Return a time for a list, with seconds unless they are 0."""
    return at.strftime(f"{_SHORT}:%S" if at.second else _SHORT)


async def _workflows(request: PageRequest, instance_id: str, permissions: UiPermissions) -> tuple[Any, list[str]]:
    """Return an instance, and its workflows that the user may schedule."""
    record, _ = await read_instance_record(request.ctx, instance_id)
    names = (await read_instance(request.ctx, instance_id)).available_workflows
    return record, [name for name in names if name != DESTROY and permissions.schedule(record, name)]


def _timing(form: forms.Form) -> Timing:
    """Return when it fires. Raises BadRequest."""
    jitter = form.text("jitter")
    when_busy: Literal["skip", "queue"] = "queue" if form.text("whenBusy") == "queue" else "skip"
    zone = form.text("zone", "UTC") or "UTC"
    return Timing(
        cron=form.text("cron")[: limits.NAME_CHARS * 2],
        zone=zone,
        starts_at=_at("Not before", form.text("starts"), zone),
        ends_at=_at("Ends", form.text("ends"), zone),
        is_paused=form.has("paused"),
        when_busy=when_busy,
        jitter_ms=min(forms.minutes_ms(jitter, "jitter"), limits.RECURRING_JITTER_MS) if jitter else 0,
    )


def _at(label: str, text: str, zone: str) -> datetime | None:
    """Return a local time such as `2027-01-31T07:00`. Raises BadRequest."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text[:19]).replace(tzinfo=zone_of(zone))
    except ValueError as error:
        raise BadRequest(f"{label}: expected a time such as 2027-01-31T07:00.", code="InvalidSchedule") from error


class NextTimes(NamedTuple):
    """The next times of a schedule and its warnings, or its error."""

    times: Sequence[str] = ()
    warnings: Sequence[str] = ()
    wrong: str = ""


async def _next_times(request: PageRequest, instance_id: str | None) -> NextTimes:
    """Return the next times of what a form says, until its instance ends."""
    now = request.now()
    end = await recurring.read_end(request.ctx, instance_id) if instance_id else None
    try:
        timing = _timing(request.form)
        timing.check(now)
        zone = zone_of(timing.zone)
        preview = recurring.preview_timing(timing, end, now, _SHOWN_TIMES)
        return NextTimes([local_time(each, zone) for each in preview.times], preview.warnings)
    except BadRequest as error:
        return NextTimes(wrong=" ".join(error.messages))


async def _doing(request: PageRequest, organization_id: str) -> Doing:
    """Return what the schedule does. Raises BadRequest."""
    form = request.form
    parameters = forms.parse_parameters("Parameters", form.raw("parameters"))
    if form.text("application"):
        launch: dict[str, Any] = {
            "environmentId": form.text("environmentId") or None,
            "destroyInterval": forms.interval_ms(form.text("lifetime"), form.text("minutes")),
            "parameters": parameters,
        }
        return Doing(launch=launch)
    if not form.has("act"):
        return Doing(workflow=form.text("workflow"), parameters=parameters)
    act = form.text("act")
    if act not in _BULK_ACTS:
        raise BadRequest("Choose what to do with the instances.", code="InvalidAct")
    applications = {row.id: row.name for row in await list_applications(request.ctx, organization_id)}
    environments = {row.id: row.name for row in await list_environments(request.ctx, organization_id)}
    text = form.text("q", STANDARD)
    people = await people_in(request, organization_id, text)
    query = read_instance_query(text, applications, environments, people, request.actor.user_id, request.now())
    wrong = [term for term in query.terms if term.problem]
    if wrong:
        raise BadRequest(f"{wrong[0].text}: {wrong[0].problem}", code="InvalidFilter")
    workflow = form.text("workflow") or None
    bulk = Act(
        act=act,  # type: ignore[arg-type]  # it is one of the acts
        workflow=workflow if act == "run" else None,
        parameters=parameters if act in {"run", "resume"} else {},
    )
    return Doing(bulk=bulk, wanted=query.wanted)


def _what(doing: Doing, kind: str) -> str:
    if doing.bulk is not None:
        verb = {"run": f"Run {doing.bulk.workflow} on"}.get(doing.bulk.act, doing.bulk.act.capitalize())
        return f"{verb} {len(doing.ids)} instances" if doing.ids is not None else f"{verb} instances of a query"
    return "Launch" if kind == "launch" else doing.workflow or ""


def _narrowing(doing: Doing) -> Mapping[str, str]:
    """Return what chooses the instances of a bulk run."""
    if doing.bulk is None or doing.ids is not None:
        return {}
    found = {name: value for name, value in asdict(doing.wanted).items() if value is not None}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in found.items()
    }


def _result(firing: Firing, view: RecurringView) -> tuple[Glyph, str]:
    status = view.statuses.get(firing.job_id or "")
    if firing.outcome == "Started" and status is not None:
        return shown_status(status)
    return (Glyph.OK, "Started") if firing.bulk_id else _OUTCOMES[firing.outcome]


def _firing(firing: Firing, view: RecurringView, zone: ZoneInfo) -> ShownFiring:
    kind, words = _result(firing, view)
    return ShownFiring(firing, local_time(datetime.fromtimestamp(firing.due_at / 1000, zone), zone), kind, words)


def _form_values(form: forms.Form) -> dict[str, Any]:
    """Return the fields of times as they were sent."""
    return {
        "name": form.text("name"),
        "cron": form.text("cron", "0 7 * * MON-FRI"),
        "zone": form.text("zone", "UTC"),
        "starts": form.text("starts"),
        "ends": form.text("ends"),
        "when_busy": form.text("whenBusy", "skip"),
        "jitter": form.text("jitter"),
        "paused": form.has("paused"),
        "zones": zone_names(),
    }


def _stored_values(found: RecurringSchedule) -> dict[str, Any]:
    zone = zone_of(found.zone)
    starts, ends = (
        "" if at is None else at.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")
        for at in (found.starts_at, found.ends_at)
    )
    return {
        "name": found.name,
        "cron": found.cron,
        "zone": found.zone,
        "starts": starts,
        "ends": ends,
        "when_busy": found.when_busy,
        "jitter": f"{found.jitter_ms / _MINUTE_MS:g}" if found.jitter_ms else "",
        "paused": found.is_paused,
        "zones": zone_names(),
    }


def _stored(view: RecurringView) -> dict[str, Any]:
    """Return what is stored, by field of the form."""
    values = _stored_values(view.schedule)
    del values["zones"]
    return {"whenBusy" if name == "when_busy" else name: value for name, value in values.items()}


def _path(organization_id: str, schedule_id: str) -> str:
    return f"{HOME}/organizations/{organization_id}/recurring/{schedule_id}"
