"""Rules of applications and environments: lifetimes, sleep windows, and limits of jobs."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.auth.lookup import RuleOwner
from launchbay.console.forms import SEEN, Form, parse_number, seen_tag
from launchbay.console.request import HOME, Handler, PageRequest
from launchbay.console.times import zone_names
from launchbay.errors import BadRequest, LaunchbayError, PreconditionFailed
from launchbay.features.concurrency_limits.usecases import Group, list_groups, read_concurrency, replace_concurrency
from launchbay.features.freezes import usecases as freezes
from launchbay.features.lifetimes.rules import LifetimeRules
from launchbay.features.lifetimes.usecases import read_rules, replace_rules
from launchbay.features.sleep_windows import usecases as sleep_windows
from launchbay.features.sleep_windows.rules import MOST_WINDOWS, SleepRules, SleepWindow
from launchbay.limits import CHANGE_SET_COMMENT_CHARS, INTERVAL_LONGEST_MS
from launchbay.model.durations import parse_duration_s
from launchbay.model.expiry import NEVER, IfExists, duration
from launchbay.model.freezes import MOST_WINDOWS as MOST_FREEZE_WINDOWS
from launchbay.model.freezes import Freezes, FreezeWindow, check_windows
from launchbay.model.places import ConcurrencyLimit
from launchbay.model.schedule import local_time, zone_of
from launchbay.model.windows import DAYS

_BLANK_LIMITS = 2
_SENT = {"limit": "concurrency", "sleepAt": "sleep", "beginsAt": "freeze"}  # which form was sent, by a field of it
_TURNS = 6
_ZONES_SHOWN = 3
# How the rows of the form are named: the key of a limit, and what it says to people.
KEYS = (
    ("application", "Runs of one application"),
    ("environment", "Runs in one environment"),
    ("label:", "Runs with the same value of a label"),
    ("lock:", "Runs that share a lock"),
)
WHEN = (
    ("queue", "Runs wait"),
    ("refuse", "Runs are refused"),
    ("cancel-older", "The oldest run is cancelled"),
)
# Fields of lengths of time: the name in the form, its label, and its hint.
LENGTHS = (
    ("default", "Default lifetime", "Such as 8 hours, 7 days, or never. Empty: the default of the server."),
    ("greatest", "Longest lifetime", "From the launch. Empty: any."),
    ("extend", "Longest extension", "Empty: any."),
    ("grace", "Grace time before a destroy", "Until then, you can take it back. Empty: none."),
    ("idle", "Longest time without a run", "Then the instance is destroyed. An hour or more. Empty: any."),
)

# What launches do by default whose name a living instance has.
IF_EXISTS: tuple[tuple[IfExists | None, str], ...] = (
    (None, "No rule: launch a second one"),
    ("fail", "Refuse the launch"),
    ("return", "Return that instance"),
    ("allow", "Launch a second one"),
)


class LimitRow(NamedTuple):
    """A limit in the form; an empty `limit` sets none."""

    kind: str
    name: str
    limit: str
    when: str


class WindowRow(NamedTuple):
    """A sleep window in the form, which needs times."""

    sleep_at: str
    wake_at: str
    days: Collection[str]
    zone: str


class FreezeWindowRow(NamedTuple):
    """A freeze window in the form, which needs times or days."""

    reason: str
    begins_at: str
    ends_at: str
    days: Collection[str]
    first_day: str
    last_day: str
    zone: str


class SleepFields(NamedTuple):
    """The form of sleep windows, as it is stored or was sent."""

    windows: list[WindowRow]
    never: bool  # also where the environment has windows
    stop: str
    start: str
    when_busy: str


async def rule_values(
    request: PageRequest, kind: RuleOwner, owner_id: str, organization_id: str, problem: LaunchbayError | None
) -> dict[str, Any]:
    """Return what rules.html shows. A form that was refused keeps what it had."""
    ask, ctx, form = request.ask, request.ctx, request.form
    asked, asked_limits = ask(read_rules(ctx, kind, owner_id)), ask(read_concurrency(ctx, kind, owner_id))
    asked_sleep = ask(sleep_windows.read_rules(ctx, kind, owner_id))
    asked_windows = ask(freezes.read_own_windows(ctx, kind, owner_id))
    groups = await list_groups(ctx, organization_id)
    rules, limits, sleep_rules = await asked, await asked_limits, await asked_sleep
    windows = await asked_windows
    tags = {"lifetime": seen_tag(rules), "concurrency": seen_tag(limits), "sleep": seen_tag(sleep_rules)}
    tags["freeze"] = seen_tag(windows)
    lifetime, sleep = _texts(rules), _sleep_fields(sleep_rules)
    rows = [_row(limit.key, str(limit.limit), limit.when) for limit in limits]
    sent = next((part for field, part in _SENT.items() if form.has(field)), "lifetime")
    freeze_rows = [_window_row(each) for each in windows]
    theirs = ""
    if isinstance(problem, PreconditionFailed):
        theirs = _words(rules, limits, sleep_rules, windows)[sent]
    if sent == "sleep":
        sleep = _sent_sleep(form)
    elif sent == "freeze":
        freeze_rows = _sent_windows(form)
    elif problem is not None and sent == "concurrency":
        rows = _sent_rows(request)
    elif problem is not None and form.has("greatest"):
        lifetime = {name: form.text(name) for name in lifetime}
    if form.has(SEEN) and not isinstance(problem, PreconditionFailed):
        tags[sent] = form.text(SEEN)
    turns, wrong = _turns(sleep, request.now())
    freeze_turns, freeze_wrong = _freeze_turns(freeze_rows, request.now())
    zone = freeze_rows[-1].zone if freeze_rows else "UTC"
    return {
        "rule_kind": kind,
        "rule_base": f"{HOME}/{kind}s/{owner_id}",
        "rule_seen": tags,
        "rule_theirs": theirs,
        "lifetime": lifetime,
        "lengths": LENGTHS,
        "if_exists_rules": IF_EXISTS,
        "sleep": sleep,
        "sleep_windows": [*sleep.windows, WindowRow("", "", (), _zone(sleep))][:MOST_WINDOWS],
        "sleep_days": DAYS,
        "sleep_turns": turns,
        "sleep_wrong": wrong,
        "zones": zone_names(),
        "freeze_windows": [*freeze_rows, FreezeWindowRow("", "", "", (), "", "", zone)][:MOST_FREEZE_WINDOWS],
        "freeze_turns": freeze_turns,
        "freeze_wrong": freeze_wrong,
        "reason_chars": CHANGE_SET_COMMENT_CHARS,
        "limits": [*rows, *([_row(kind, "", "queue")] * _BLANK_LIMITS)],
        "limit_keys": KEYS,
        "limit_when": WHEN,
        "limit_groups": [group for group in groups if _concerns(group, kind, owner_id)],
    }


def _words(
    rules: LifetimeRules, limits: list[ConcurrencyLimit], sleep: SleepRules | None, freeze: Sequence[FreezeWindow]
) -> dict[str, str]:
    """Return what is stored, by form, in lines for people."""
    windows = () if sleep is None else sleep.windows
    return {
        "lifetime": "\n".join(f"{name}: {text}" for name, text in _texts(rules).items() if text),
        "concurrency": "\n".join(f"{limit.key}: {limit.limit}, {limit.when}" for limit in limits),
        "sleep": "\n".join(f"{each.sleep_at} to {each.wake_at} {','.join(each.days)} {each.zone}" for each in windows)
        or ("No windows" if sleep is None else "Never"),
        "freeze": "\n".join(_window_words(each) for each in freeze) or "No windows",
    }


def _concerns(group: Group, kind: RuleOwner, owner_id: str) -> bool:
    return any(
        owner_id == (row.application_id if kind == "application" else row.environment_id) for row in group.places
    )


def _texts(rules: LifetimeRules) -> dict[str, str]:
    """Return the texts of the fields, which are empty without a rule."""

    def text(ms: int | None) -> str:
        return "" if ms is None else "never" if ms == NEVER else duration(ms)

    return {
        "default": text(rules.default_ms),
        "greatest": text(rules.greatest_ms),
        "extend": text(rules.extend_ms),
        "grace": text(rules.grace_ms),
        "idle": text(rules.idle_ms),
        "extensions": "" if rules.extensions is None else str(rules.extensions),
        "must_end": "" if rules.may_never else "1",
        "mail": "1" if rules.mail else "",
        "if_exists": rules.if_exists or "",
    }


def _row(key: str, limit: str, when: str) -> LimitRow:
    kind, colon, name = key.partition(":")
    return LimitRow(kind + colon, name, limit, when)


def _sent_rows(request: PageRequest) -> list[LimitRow]:
    form = request.form
    sent = zip(form.all("key"), form.all("of"), form.all("limit"), form.all("when"), strict=False)
    return [LimitRow(key, of.strip(), limit.strip(), when) for key, of, limit, when in sent if limit.strip()]


async def save_lifetime(request: PageRequest, kind: RuleOwner) -> Response:
    form, owner_id = request.form, request.path("id")
    lengths = {f"{name}_ms": _length(label, form.text(name)) for name, label, _ in LENGTHS}
    extensions = parse_number(form.text("extensions"))
    if form.text("extensions") and extensions is None:
        raise BadRequest("Extensions: give a whole number, such as 3.", code="InvalidLifetime")

    async def read() -> LifetimeRules:
        return await read_rules(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        rules = msgspec.structs.replace(
            await read(),
            **lengths,
            extensions=extensions,
            may_never=not form.has("must_end"),
            mail=form.has("mail"),
            if_exists=next((value for value, _ in IF_EXISTS if value and value == form.text("if_exists")), None),
        )
        await replace_rules(request.ctx, kind, owner_id, rules)
    return request.redirect(
        f"{HOME}/{kind}s/{owner_id}/settings#lifetime", "Lifetimes saved. Later launches follow them."
    )


def _length(label: str, text: str) -> int | None:
    """Return the ms of a field, NEVER, or None. Raises BadRequest."""
    if not text:
        return None
    if text.lower() == "never":
        return NEVER
    problem = "Add a unit, such as hours or days."
    try:
        if not text.isdecimal():
            return round(parse_duration_s(text, longest_s=INTERVAL_LONGEST_MS / 1000) * 1000)
    except ValueError as error:
        problem = str(error)
    raise BadRequest(f"{label}: {problem}", code="InvalidLifetime")


async def save_sleep(request: PageRequest, kind: RuleOwner, again: Handler) -> Response:
    """Show the next turns of what the form says, or save it."""
    owner_id = request.path("id")
    if request.form.text("do") == "preview":
        return await again(request)
    rules = _sleep_rules(_sent_sleep(request.form))

    async def read() -> SleepRules | None:
        return await sleep_windows.read_rules(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        await sleep_windows.replace_rules(request.ctx, kind, owner_id, rules)
    return request.redirect(
        f"{HOME}/{kind}s/{owner_id}/settings#sleep", "Sleep windows saved. Instances follow them from the next one."
    )


def _sleep_fields(rules: SleepRules | None) -> SleepFields:
    if rules is None:
        return SleepFields([], never=False, stop="", start="", when_busy="queue")
    windows = [WindowRow(each.sleep_at, each.wake_at, each.days, each.zone) for each in rules.windows]
    return SleepFields(windows, not windows, rules.stop, rules.start, rules.when_busy)


def _sent_sleep(form: Form) -> SleepFields:
    sent = zip(form.all("sleepAt"), form.all("wakeAt"), form.all("zone"), strict=False)
    rows = [
        WindowRow(sleep_at.strip(), wake_at.strip(), form.all(f"days-{at}"), zone.strip())
        for at, (sleep_at, wake_at, zone) in enumerate(sent)
    ]
    windows = [row for row in rows if row.sleep_at or row.wake_at]
    return SleepFields(windows, form.has("never"), form.text("stop"), form.text("start"), form.text("whenBusy"))


def _sleep_rules(fields: SleepFields) -> SleepRules | None:
    """Return the rules of a form, or None. Raises BadRequest."""
    if fields.windows and fields.never:
        raise BadRequest(
            "Instances either sleep in windows or never. Empty the windows, or clear the box.",
            code="InvalidSleepWindow",
        )
    if not fields.windows and not fields.never:
        if fields.stop or fields.start:
            raise BadRequest("Add a window in which the workflows stop and start.", code="InvalidSleepWindow")
        return None
    when_busy: Literal["queue", "skip"] = "skip" if fields.when_busy == "skip" else "queue"
    windows = tuple(
        SleepWindow(
            sleep_at=row.sleep_at,
            wake_at=row.wake_at,
            days=() if len(row.days) == len(DAYS) else tuple(row.days),
            zone=row.zone or "UTC",
        )
        for row in fields.windows
    )
    return SleepRules(windows=windows, stop=fields.stop, start=fields.start, when_busy=when_busy)


def _zone(fields: SleepFields) -> str:
    """Return the zone of a further window: that of the others."""
    return fields.windows[-1].zone if fields.windows else "UTC"


def _turns(fields: SleepFields, now: datetime) -> tuple[list[tuple[bool, str]], str]:
    """Return the next turns of a form, or what is wrong with it.

    Each has whether sleep begins, and its time.
    """
    try:
        rules = _sleep_rules(fields) or SleepRules()
        rules.check(now)
    except BadRequest as error:
        return [], " ".join(error.messages)
    zones = [zone_of(name) for name in dict.fromkeys(each.zone for each in rules.windows)][:_ZONES_SHOWN]
    found: list[tuple[bool, str]] = []
    to_sleep, at = not rules.is_asleep(now), now
    while rules.windows and len(found) < _TURNS:
        following = rules.next_change(at, to_sleep=to_sleep)
        if following is None:
            break
        found.append((to_sleep, " · ".join(local_time(following, zone) for zone in zones)))
        to_sleep, at = not to_sleep, following
    return found, ""


async def save_freeze_windows(request: PageRequest, kind: RuleOwner, again: Handler) -> Response:
    """Show the next freezes of what the form says, or save it."""
    owner_id = request.path("id")
    if request.form.text("do") == "preview":
        return await again(request)
    windows = _freeze_windows(_sent_windows(request.form))

    async def read() -> tuple[FreezeWindow, ...]:
        return await freezes.read_own_windows(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        await freezes.replace_windows(request.ctx, kind, owner_id, windows)
    await freezes.pass_launches(request.ctx)
    return request.redirect(f"{HOME}/{kind}s/{owner_id}/settings#freeze-windows", "Freeze windows saved.")


async def save_freeze(request: PageRequest, kind: RuleOwner) -> Response:
    """Freeze an environment or application now."""
    await freezes.set_freeze(request.ctx, kind, request.path("id"), request.form.text("reason"))
    return request.redirect(
        f"{HOME}/{kind}s/{request.path('id')}",
        f"{kind.capitalize()} frozen. Nothing changes until somebody lifts the freeze.",
    )


async def lift_freeze(request: PageRequest, kind: RuleOwner) -> Response:
    await freezes.set_freeze(request.ctx, kind, request.path("id"), None)
    return request.redirect(f"{HOME}/{kind}s/{request.path('id')}", "Freeze lifted.")


def _window_row(window: FreezeWindow) -> FreezeWindowRow:
    times = window.begins_at, window.ends_at, window.days
    return FreezeWindowRow(window.reason, *times, window.first_day, window.last_day, window.zone)


def _window_words(window: FreezeWindow) -> str:
    days = f"{window.first_day} to {window.last_day}"
    times = f"{window.begins_at} to {window.ends_at} {','.join(window.days)}".rstrip()
    return f"{days if window.first_day else times} {window.zone}: {window.reason}"


def _sent_windows(form: Form) -> list[FreezeWindowRow]:
    names = ("reason", "beginsAt", "endsAt", "firstDay", "lastDay", "zone")
    sent = zip(*(form.all(name) for name in names), strict=False)
    rows = [
        FreezeWindowRow(reason, begins_at, ends_at, form.all(f"days-{at}"), first_day, last_day, zone)
        for at, (reason, begins_at, ends_at, first_day, last_day, zone) in enumerate(
            [text.strip() for text in texts] for texts in sent
        )
    ]
    return [row for row in rows if any((row.reason, row.begins_at, row.ends_at, row.first_day, row.last_day))]


def _freeze_windows(rows: Sequence[FreezeWindowRow]) -> list[FreezeWindow]:
    return [
        FreezeWindow(
            reason=row.reason,
            begins_at=row.begins_at,
            ends_at=row.ends_at,
            days=() if len(row.days) == len(DAYS) else tuple(row.days),
            first_day=row.first_day,
            last_day=row.last_day,
            zone=row.zone or "UTC",
        )
        for row in rows
    ]


def _freeze_turns(rows: Sequence[FreezeWindowRow], now: datetime) -> tuple[list[tuple[str, str, str]], str]:
    """Return begin, end and reason of the next freezes of a form.

    Or what is wrong with it.
    """
    windows = _freeze_windows(rows)
    try:
        check_windows(windows, now)
    except BadRequest as error:
        return [], " ".join(error.messages)
    found: list[tuple[str, str, str]] = []
    zone = zone_of(windows[0].zone) if windows else None
    every = Freezes(environment_windows=tuple(windows))
    state = every.now(now) or every.next(now)
    while state is not None and zone is not None and len(found) < _TURNS:
        begin = "Now" if state.begins_at is None else local_time(state.begins_at, zone)
        found.append((begin, "" if state.until is None else local_time(state.until, zone), state.reason))
        state = None if state.until is None else every.next(state.until)
    return found, ""


async def save_limits(request: PageRequest, kind: RuleOwner) -> Response:
    owner_id = request.path("id")
    given = []
    for row in _sent_rows(request):
        most = parse_number(row.limit)
        if most is None:
            raise BadRequest(f"{row.limit[:40]!r} isn't a number of runs.", code="InvalidConcurrency")
        given.append(
            {"key": row.kind + row.name if row.kind.endswith(":") else row.kind, "limit": most, "when": row.when}
        )

    async def read() -> list[ConcurrencyLimit]:
        return await read_concurrency(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        await replace_concurrency(request.ctx, kind, owner_id, given)
    return request.redirect(f"{HOME}/{kind}s/{owner_id}/settings#concurrency", "Limits saved. They apply immediately.")
