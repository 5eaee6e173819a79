"""Drift of an instance: what somebody changed, and what to make of it."""

from datetime import timedelta

from starlette.responses import Response

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.console.assets import Glyph
from launchbay.console.forms import parse_number
from launchbay.console.rendering import pretty
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed, NotFound, TooManyRequests
from launchbay.features.drift import usecases as drift
from launchbay.features.drift.rules import Finding, is_ignored_at
from launchbay.features.recurring.usecases import Timing
from launchbay.store.instances import InstanceRecord

routes = Routes()
STATES: dict[str, tuple[Glyph, str]] = {
    "new": (Glyph.WARN, "New"),
    "ignored": (Glyph.STOPPED, "Ignored"),
    "put back": (Glyph.OK, "Put back"),
    "taken over": (Glyph.OK, "Taken over"),
    "gone": (Glyph.OK, "Gone"),
}
_DAYS = (7, 30, 90, 365)
_SCOPES = {"instance": "This instance", "application": "Its application", "environment": "Its environment"}
_SOURCES = {**_SCOPES, "manifest": "Its manifest"}


@routes.get("/console/instances/{id}/drift")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what differs from what the instance is described as."""
    instance_id = request.path("id")
    asked = request.ask(drift.read_drift(request.ctx, instance_id))
    times = request.ask(drift.read_schedules(request.ctx, instance_id))
    values = await request.deps.tabs.instance(request, "drift", problem)
    report = await asked
    record: InstanceRecord = values["view"].record
    may = (await request.permissions(record.organization_id)).edit_instance(record)
    now_ms = to_ms(request.now())
    return await request.page(
        "drift/templates/drift.html",
        **values,
        status=None if problem is None else request.deps.status_of(problem),
        report=report,
        findings=[(each, _state(each, now_ms), _rows(each)) for each in report.findings if each.is_open],
        closed=[(each, _state(each, now_ms)) for each in report.findings if not each.is_open],
        states=STATES,
        days=_DAYS,
        may=may and not values["view"].is_over,
        schedules=await times,
        rule=await drift.read_put_back_rule_of(request.ctx, record.id),
        scopes=_SCOPES,
        sources=_SOURCES,
    )


@routes.post("/console/instances/{id}/drift")
async def act(request: PageRequest) -> Response:
    """Check an instance, set when to, or put back what differs."""
    instance_id, do = request.path("id"), request.form.text("do")
    try:
        if do == "put back":
            change_set = await drift.put_back_drift(request.ctx, instance_id)
            report = await drift.read_drift(request.ctx, instance_id)
            return request.redirect(
                f"{HOME}/organizations/{report.instance.organization_id}/changes/{change_set}", "Change set created."
            )
        if do == "schedule":
            mail = request.form.text("mail") == "yes"
            await drift.set_schedule_at(
                request.ctx, instance_id, request.form.text("scope"), _timing(request, mail=mail), mail=mail
            )
            return request.redirect(_path(instance_id), "The schedule is set.")
        await drift.check_drift(request.ctx, instance_id, learns=do == "baseline")
    except (BadRequest, Conflict, NotAllowed, TooManyRequests) as error:
        return await show(request, error)
    return request.redirect(_path(instance_id), "The check starts soon.")


@routes.post("/console/instances/{id}/drift/{finding}")
async def answer(request: PageRequest) -> Response:
    """Ignore a finding, take that back, or take its value over."""
    instance_id, finding, do = request.path("id"), request.path("finding"), request.form.text("do")
    try:
        if do == "take over":
            await drift.take_over_drift(request.ctx, instance_id, finding)
            return request.redirect(_path(instance_id), "A check looks for the parameter.")
        if do == "watch":
            await drift.watch_drift(request.ctx, instance_id, finding)
            return request.redirect(_path(instance_id), "The finding counts again.")
        until = request.now() + timedelta(days=parse_number(request.form.text("days"), 3) or _DAYS[0])
        await drift.ignore_drift(request.ctx, instance_id, finding, request.form.text("reason"), until)
    except (BadRequest, Conflict, NotFound) as error:
        return await show(request, error)
    return request.redirect(_path(instance_id), "The finding is ignored.")


def _timing(request: PageRequest, *, mail: bool) -> Timing | None:
    cron = request.form.text("cron").strip()[: limits.NAME_CHARS] or None
    zone = request.form.text("zone").strip() or "UTC"
    return drift.timing_of_request(cron, zone=zone, is_paused=request.form.text("paused") == "yes", mail=mail)


def _path(instance_id: str) -> str:
    return f"{HOME}/instances/{instance_id}/drift"


def _state(finding: Finding, now_ms: int) -> str:
    is_over = finding.state == "ignored" and not is_ignored_at(finding, now_ms)
    return "new" if is_over else finding.state


def _rows(finding: Finding) -> list[tuple[str, str | None, str | None]]:
    """Return name, described and found value of each attribute.

    None stands for one that isn't there.
    """
    described, found = finding.difference.described, finding.difference.found
    return [
        (
            name or "value",
            pretty(described[name]) if name in described else None,
            pretty(found[name]) if name in found else None,
        )
        for name in dict.fromkeys((*described, *found))
    ]
