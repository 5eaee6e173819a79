"""What is scheduled on the instances of an organization, as a month or as a list."""

import asyncio
import calendar
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from starlette.responses import Response

from launchbay.console import forms
from launchbay.console.request import HOME, PageRequest, Routes, safe_path, user_names
from launchbay.errors import LaunchbayError
from launchbay.features.recurring.pages import Row, shown_rows
from launchbay.features.recurring.usecases import daily_times, list_recurring_schedules
from launchbay.limits import CONSOLE_PAGE_ROWS, PAGE_ROWS_MAX
from launchbay.model.schedule import daily_due_times
from launchbay.store.fleet import ExpiryRow, TimeRow
from launchbay.store.schedules import FleetScheduleRow
from launchbay.usecases import fleet, workflows

routes = Routes()

KINDS = {"all": "All", "repeats": "Repeats", "once": "Once", "expiries": "Expiries", "cancelled": "Cancelled"}
_LISTED = timedelta(days=366)
_NAMED = 3  # in a day of the month
_DAY = timedelta(days=1)
_EXPIRES = "expires"
_UTC = ZoneInfo("UTC")
_TICK = timedelta.resolution
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class CalendarEntry(NamedTuple):
    """A run or recurring schedule that is due, or the expiry of an instance."""

    at: datetime
    what: str
    instance_id: str
    instance: str
    owner_id: str
    schedule: FleetScheduleRow | None = None
    expiring: ExpiryRow | None = None
    recurring: str = ""  # the page of the recurring schedule that fires
    times: int = 1  # how often it runs in its time: the day of a calendar, or the next 24 hours

    @property
    def href(self) -> str:
        return self.recurring or f"{HOME}/instances/{self.instance_id}"

    @property
    def is_planned(self) -> bool:
        """Whether it is a run that nobody has cancelled."""
        return self.schedule is not None and self.schedule.cancelled_at is None

    @property
    def comes_too_late(self) -> bool:
        """Whether the instance is destroyed before."""
        return self.kind != "cancelled" and self.schedule is not None and self.schedule.ends_before(self.at)

    @property
    def kind(self) -> str:
        if self.recurring:
            return "repeats"
        if self.schedule is None:
            return "expiries"
        if self.schedule.cancelled_at is not None:
            return "cancelled"
        return "repeats" if self.schedule.component else "once"


@dataclass(frozen=True)
class Day:
    """A day of the calendar, with what happens on it."""

    date: date
    is_of_month: bool
    is_today: bool
    entries: Sequence[CalendarEntry]
    ran: TimeRow | None = None  # of a day that is over

    @cached_property
    def groups(self) -> list[Sequence[CalendarEntry]]:
        """Its expiries, and the runs of each minute, in the order of time."""
        found: dict[tuple[object, ...], list[CalendarEntry]] = {}
        for each in self.entries:
            kind = each.kind
            key = (_EXPIRES,) if kind == "expiries" else (each.at.hour, each.at.minute, kind == "cancelled")
            found.setdefault(key, []).append(each)
        return list(found.values())

    @property
    def shown(self) -> list[Sequence[CalendarEntry]]:
        return self.groups[:_NAMED]

    @property
    def hidden(self) -> int:
        """How many of its runs and expiries the calendar has no room for."""
        return sum(each.times for group in self.groups[_NAMED:] for each in group)


@routes.get("/console/organizations/{id}/schedules", query=("first", "kind", "month", "q", "view"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what is scheduled, and what expires; times are in UTC."""
    organization_id = request.form.text("organization", request.path("id"))
    request.ask_frame(organization_id)
    now = request.now()
    first = _month(request.query("month"), now)
    is_list = request.query("view") == "list"
    days = [] if is_list else list(calendar.Calendar().itermonthdates(first.year, first.month))
    since = now if is_list else max(now, datetime.combine(days[0], datetime.min.time(), UTC))
    until = now + _LISTED if is_list else datetime.combine(days[-1], datetime.min.time(), UTC) + _DAY
    home = f"{HOME}/organizations/{organization_id}"
    # From now on, whatever the month: what repeats later has its next run before that.
    # What is due already waits, for example for the end of another job.
    due = await _read_due(request, organization_id, now, max(until, now + _DAY))
    entries = await _entries(due, home, since, until, is_daily=not is_list, has_due=since == now)
    ran = await _past_days(request, organization_id, [each for each in days if each < now.date()])
    wanted = request.choice("kind", KINDS) or "all"
    begin = forms.parse_number(request.query("first"), 6) or 0
    text = (request.query("q") or "").lower()
    matching = [each for each in entries if text in f"{each.what} {each.instance}".lower()]
    counts = Counter(each.kind for each in matching)
    of_kind = [each for each in matching if wanted in ("all", each.kind)]
    end = begin + CONSOLE_PAGE_ROWS
    soon = [] if is_list else _summed(await _entries(due, home, now, now + _DAY, is_daily=True, has_due=True))
    by_day: dict[date, list[CalendarEntry]] = {}
    for each in entries:
        by_day.setdefault(each.at.date(), []).append(each)
    return await request.page(
        "schedules.html",
        section="schedules",
        organization_id=organization_id,
        problem=problem,
        is_list=is_list,
        first=first,
        before=(first - _DAY).strftime("%Y-%m"),
        after=(first + timedelta(days=32)).strftime("%Y-%m"),
        days=[
            Day(
                each,
                each.month == first.month,
                each == now.date(),
                by_day.get(each, ()),
                ran.get(each),
            )
            for each in days
        ],
        soon=_lines([each for each in soon if each.kind != "cancelled"]),
        entries=of_kind[begin:end],
        is_first=begin == 0,
        next_first=end if end < len(of_kind) else None,
        kinds=[(key, label, len(matching) if key == "all" else counts[key]) for key, label in KINDS.items()],
        kind=wanted,
        text=request.query("q") or "",
        is_whole=max(len(entries), len(due.schedules)) < PAGE_ROWS_MAX,
        people=request.ask(user_names(request, organization_id, [each.owner_id for each in of_kind[begin:end]])),
        home=home,
    )


@routes.post("/console/instances/{id}/schedules/{schedule}", again=show)
async def change(request: PageRequest) -> Response:
    """Cancel a schedule, or move it.

    A cancelled one of the manifest that is moved runs again.
    """
    form, instance_id = request.form, request.path("id")
    interval = 0 if form.text("do") == "cancel" else forms.minutes_ms(form.text("minutes"))
    done = await workflows.reschedule_workflow(request.ctx, instance_id, request.path("schedule"), interval, None)
    return request.redirect(safe_path(form.text("back")), rescheduled_message(done))


def rescheduled_message(done: workflows.Rescheduled) -> str:
    """Return the message for somebody who moved or cancelled a schedule."""
    if done.takes_back:
        return "Destruction taken back." + (" Starting." if done.starts else "")
    return "Schedule cancelled." if done.id is None else "Schedule moved."


def _lines(entries: Iterable[CalendarEntry]) -> list[Sequence[CalendarEntry]]:
    """Return entries as lines, of which one has all expiries of a day."""
    found: dict[object, list[CalendarEntry]] = {}
    for number, each in enumerate(entries):
        found.setdefault(each.at.date() if each.kind == "expiries" else number, []).append(each)
    return list(found.values())


def _month(text: str | None, now: datetime) -> date:
    """Return the first day of a month such as `2026-11`, of this one by default."""
    try:
        year, _, month = (text or "").partition("-")
        found = date(int(year), int(month), 1)
    except ValueError:
        return now.date().replace(day=1)
    return found if 2000 <= found.year <= 2999 else now.date().replace(day=1)


class Due(NamedTuple):
    """What is due in a time, and what repeats."""

    schedules: Sequence[FleetScheduleRow]
    expiring: Sequence[ExpiryRow]
    recurring: Sequence[Row]
    crons: Mapping[str, str]  # of schedules of manifests, by their IDs


async def _read_due(request: PageRequest, organization_id: str, since: datetime, until: datetime) -> Due:
    ctx = request.ctx
    scheduled = await fleet.list_schedules(
        ctx, organization_id, since=_LONG_AGO, until=until, count=PAGE_ROWS_MAX, cancelled_since=since
    )
    expiring = await fleet.list_expiries(ctx, organization_id, since=since, until=until, count=PAGE_ROWS_MAX)
    recurring = await list_recurring_schedules(
        ctx, organization_id, instance_id=None, application_id=None, after=None, count=PAGE_ROWS_MAX
    )
    rows = await shown_rows(request, organization_id, recurring)
    return Due(scheduled, expiring, rows, await fleet.read_crons(ctx, scheduled))


async def _entries(
    due: Due, home: str, since: datetime, until: datetime, *, is_daily: bool, has_due: bool
) -> list[CalendarEntry]:
    """Return what is due in a time, in its order.

    What repeats is there once for each day, or with the next time alone. Days don't have what comes after the end of
    its instance. With `has_due`, what is due since an earlier time and hasn't begun comes first.
    """
    most = None if is_daily else 1

    def made() -> list[CalendarEntry]:
        runs = (each for row in due.schedules for each in islice(_runs(row, due.crons.get(row.id), since, until), most))
        expiries = (
            CalendarEntry(row.destroy_at, _EXPIRES, row.id, row.name, row.owner_id, expiring=row)
            for row in due.expiring
        )
        fired = _firings(due.recurring, f"{home}/recurring", since, until, most)
        return sorted(
            (
                each
                for each in (*runs, *expiries, *fired)
                if (since <= each.at or (has_due and each.is_planned))
                and each.at < until
                and not (is_daily and each.comes_too_late)
            ),
            key=lambda each: each.at,
        )

    # In a thread: an expression that hardly ever fires takes long to find.
    return await asyncio.to_thread(made)


def _summed(entries: Iterable[CalendarEntry]) -> list[CalendarEntry]:
    """Return one entry for all days of what repeats, at its first time."""
    found: dict[object, CalendarEntry] = {}
    for each in entries:
        key = each.recurring or (each.schedule.id if each.schedule else each.instance_id)
        earlier = found.get(key)
        found[key] = each if earlier is None else earlier._replace(times=earlier.times + each.times)
    return list(found.values())


async def _past_days(request: PageRequest, organization_id: str, days: Sequence[date]) -> Mapping[date, TimeRow]:
    """Return how many runs began on each of consecutive days.

    Days before the oldest run that is counted have none.
    """
    if not days:
        return {}
    until = datetime.combine(days[-1], time(), UTC) + _DAY
    times = await fleet.count_jobs_by_time(
        request.ctx, organization_id, hours=24 * len(days), slots=len(days), until=until
    )
    found = {day: slot for day, slot in zip(days, times.slots, strict=True) if slot.total}
    if not times.is_whole:  # the first of them was counted in part
        found.pop(min(found), None)
    return found


def _runs(row: FleetScheduleRow, cron: str | None, since: datetime, until: datetime) -> Iterator[CalendarEntry]:
    """Yield the next run of a schedule; what repeats, once a day."""
    entry = CalendarEntry(row.due_at, row.workflow, row.instance_id, row.instance, row.owner_id, schedule=row)
    later = iter(()) if cron is None else daily_due_times(cron, _UTC, max(row.due_at, since - _TICK), until)
    for at, times in later:
        if at.date() == row.due_at.date():
            entry = entry._replace(times=1 + times)
        else:
            yield entry
            entry = entry._replace(at=at, times=times)
    yield entry


def _firings(
    rows: Iterable[Row], home: str, since: datetime, until: datetime, most: int | None
) -> Iterable[CalendarEntry]:
    """Yield the first firing of each schedule on each day, `most` of each schedule.

    `home` is the page of the schedules.
    """
    for row in rows:
        one = row.schedule
        what = f"{row.what} on {row.instance}" if one.instance_id else row.what
        for at, times in islice(daily_times(one, since, until), most):
            yield CalendarEntry(
                at, one.name, one.instance_id or "", what, one.owner_id, recurring=f"{home}/{one.id}", times=times
            )
