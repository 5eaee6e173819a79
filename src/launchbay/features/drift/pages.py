"""Drift of an instance: what somebody changed, and what to make of it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.console.assets import Glyph
from launchbay.console.forms import Form, parse_number
from launchbay.console.rendering import pretty
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed, NotFound, TooManyRequests
from launchbay.features.drift import usecases as drift
from launchbay.features.drift.rows import PutBackRule, PutBackRuleInUse, ScheduleRow
from launchbay.features.drift.rules import Finding, is_ignored_at
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
    unattended = request.ask(drift.read_unattended(request.ctx, instance_id))
    values = await request.deps.tabs.instance(request, "drift", problem)
    report = await asked
    record: InstanceRecord = values["view"].record
    permissions = await request.permissions(record.organization_id)
    may_edit: dict[drift.Scope, bool] = {
        "instance": permissions.edit_instance(record) and not values["view"].is_over,
        "application": permissions.read_application(record.application_id)
        and permissions.edit_application(record.application_id),
        "environment": permissions.read_environment(record.environment_id)
        and permissions.edit_environment(record.environment_id),
    }
    schedules, found = await unattended
    rules: Mapping[str, PutBackRuleInUse] = {each.kind: each for each in found}
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
        may=may_edit["instance"],
        schedules=schedules,
        rules=rules,
        rule_forms=_forms(request, "put-back", may_edit, lambda scope: _rule_fields(rules.get(scope))),
        schedule_forms=_forms(request, "schedule", may_edit, lambda scope: _schedule_fields(schedules.get(scope))),
        scopes=_SCOPES,
        sources=_SOURCES,
    )


@routes.post("/console/instances/{id}/drift")
async def act(request: PageRequest) -> Response:
    """Check an instance, or put back what differs."""
    instance_id, do = request.path("id"), request.form.text("do")
    try:
        if do == "put back":
            change_set = await drift.put_back_drift(request.ctx, instance_id)
            report = await drift.read_drift(request.ctx, instance_id)
            return request.redirect(
                f"{HOME}/organizations/{report.instance.organization_id}/changes/{change_set}", "Change set created."
            )
        await drift.check_drift(request.ctx, instance_id, learns=do == "baseline")
    except (BadRequest, Conflict, NotAllowed, TooManyRequests) as error:
        return await show(request, error)
    return request.redirect(_path(instance_id), "The check starts soon.")


@routes.post("/console/instances/{id}/drift/schedule/{scope}", again=show)
async def save_schedule(request: PageRequest) -> Response:
    """Set or end the schedule of an instance, application or environment."""
    scope, object_id = await _scope(request)
    ctx, form = request.ctx, request.form

    async def read() -> ScheduleRow | None:
        return await drift.read_schedule(ctx, scope, object_id)

    async def read_fields() -> dict[str, Any]:
        return _schedule_fields(await read())

    async with request.unless_changed(f"{scope}s", object_id, read_fields):
        before, mail = await read(), form.text("mail") == "yes"
        timing = drift.timing_of_request(
            form.text("cron")[: limits.NAME_CHARS] or None,
            zone=form.text("zone") or "UTC",
            jitter_ms=0 if before is None else before.jitter_ms,
            is_paused=form.text("paused") == "yes",
            mail=mail,
        )
        await drift.set_schedule(ctx, scope, object_id, timing, mail=mail)
    said = "The schedule is set." if timing else "The schedule has ended."
    return request.redirect(f"{_path(request.path('id'))}#schedule", said)


@routes.post("/console/instances/{id}/drift/put-back/{scope}", again=show)
async def save_rule(request: PageRequest) -> Response:
    """Set or end the rule of an instance, application or environment."""
    scope, object_id = await _scope(request)
    form = request.form

    async def read_fields() -> dict[str, Any]:
        return _rule_fields(await drift.read_put_back_rule(request.ctx, scope, object_id))

    rule = None
    if form.text("do") != "end":
        most = parse_number(form.text("mostPerDay")) or 0
        rule = drift.PutBack(_lines(form, "addresses"), _lines(form, "allowDeletes"), most)
    async with request.unless_changed(f"{scope}s", object_id, read_fields):
        await drift.set_put_back_rule(request.ctx, scope, object_id, rule)
    said = "The rule is set." if rule else "The rule has ended."
    return request.redirect(f"{_path(request.path('id'))}#rules", said)


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


async def _scope(request: PageRequest) -> tuple[drift.Scope, str]:
    """Return the object of a schedule or rule, from the address of its form."""
    record = (await drift.read_drift(request.ctx, request.path("id"))).instance
    for scope, object_id in drift.scopes_of(record).items():
        if scope == request.path("scope"):
            return scope, object_id
    raise NotFound(f"Choose one of {', '.join(drift.scopes_of(record))}.")


def _forms(
    request: PageRequest,
    kind: str,
    may_edit: Mapping[drift.Scope, bool],
    fields: Callable[[drift.Scope], dict[str, Any]],
) -> dict[drift.Scope, tuple[dict[str, Any], str]]:
    """Return what the form of each object shows that the person may edit, with its tag."""
    shown = {scope: fields(scope) for scope, may in may_edit.items() if may}
    return {scope: (given, request.seen(f"/{kind}/{scope}", given)) for scope, given in shown.items()}


def _schedule_fields(row: ScheduleRow | None) -> dict[str, Any]:
    """Return what the form of a schedule shows; that of the manifest counts as none."""
    if row is None or row.of_manifest:
        return {"cron": "", "zone": "UTC", "paused": False, "mail": False}
    return {"cron": row.cron, "zone": row.zone, "paused": row.is_paused, "mail": row.mail}


def _lines(form: Form, name: str) -> list[str]:
    return [line.strip() for line in form.raw(name).splitlines() if line.strip()]


def _rule_fields(rule: PutBackRule | PutBackRuleInUse | None) -> dict[str, Any]:
    """Return what the form of a rule shows."""
    if rule is None:
        return {"addresses": "", "allowDeletes": "", "mostPerDay": "3"}
    return {
        "addresses": "\n".join(rule.addresses),
        "allowDeletes": "\n".join(rule.allow_deletes),
        "mostPerDay": str(rule.most_per_day),
    }


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
