"""Instances of an organization by filters; labels (conformance.md, "Beyond the reference")."""

import base64
import binascii
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from launchbay.auth.gate import sees_none, visible
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, Conflict, InvalidManifest, NotFound
from launchbay.ids import is_id
from launchbay.limits import (
    COUNTED_JOBS,
    COUNTED_RUNNING_JOBS,
    SAVED_VIEWS,
    SEARCH_WORDS,
    USUAL_INSTANCES,
    USUAL_JOBS,
    USUAL_RUNS,
    VIEW_NAME_CHARS,
    VIEW_QUERY_CHARS,
)
from launchbay.manifest.scaling import component_at
from launchbay.model.component_state import ComponentCounts
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobOutcome, JobStatus
from launchbay.model.labels import LabelSelector, read_labels, read_selector
from launchbay.store import fleet as store
from launchbay.store import jobs as job_store
from launchbay.store import schedules
from launchbay.store.database import Database
from launchbay.store.fleet import ExpiryRow, FleetJobRow, FleetRow, GroupRow, TimeRow, WorkRow
from launchbay.store.schedules import FleetScheduleRow
from launchbay.usecases.components import count_components
from launchbay.usecases.context import Context, Work
from launchbay.usecases.events import mask_message

JobSort = Literal["created", "-created"]
Sort = Literal["name", "-name", "created", "-created", "lastJob", "-lastJob", "expiry", "-expiry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """Which instances of an organization; each field that is not None narrows the choice.

    `name` is the whole name, `name_part` a part of it, and `name_prefix` its beginning as it is written. Each word of
    `search` must be in the name or in the value of a label, or begin the ID if it has at least `id_chars` characters.
    Lists are alternatives. `job_outcomes` tell jobs that failed from cancelled ones, whose status is Failed too.
    """

    ids: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    job_statuses: Sequence[str] | None = None
    job_outcomes: Sequence[str] | None = None
    is_degraded: bool = False
    is_drifted: bool = False
    is_observed: bool = False
    has_changed_secrets: bool = False
    workflows: Sequence[str] | None = None
    application_ids: Sequence[str] | None = None
    environment_ids: Sequence[str] | None = None
    owner_id: str | None = None
    version: int | None = None
    expires_before: datetime | None = None
    name: str | None = None
    name_part: str | None = None
    name_prefix: str | None = None
    search: str | None = None
    id_chars: int = 1
    labels: str | None = None

    def indexed_word(self) -> str | None:
        """Return the longest word to search for, if the index has such words."""
        longest = max((*(self.search or "").lower().split(), (self.name_part or "").lower()), key=len)
        return longest if len(longest) >= _INDEXED_CHARS else None

    def conditions(self) -> dict[str, Any]:
        """Return the parameters of the statement. Raises BadRequest for an invalid selector."""
        selector = LabelSelector() if self.labels is None else read_selector(self.labels)
        words = (self.search or "").lower().split()
        if len(words) > SEARCH_WORDS:
            raise BadRequest(f"q has {len(words)} words; at most {SEARCH_WORDS} are allowed.", code="InvalidFilter")
        return {
            "ids": _array(self.ids),
            "statuses": _array(self.statuses),
            "job_statuses": _array(self.job_statuses or _statuses_of(self.job_outcomes)),
            "job_outcomes": _array(self.job_outcomes),
            "degraded": self.is_degraded,
            "drifted": self.is_drifted,
            "observed": self.is_observed,
            "secrets_changed": self.has_changed_secrets,
            "workflows": _array(self.workflows),
            "application_ids": _array(self.application_ids),
            "environment_ids": _array(self.environment_ids),
            "owner_id": self.owner_id,
            "version": self.version,
            "expires_before": self.expires_before,
            "name": self.name,
            "name_part": self.name_part or None,
            "name_prefix": self.name_prefix or None,
            "words": words or None,
            "id_chars": self.id_chars,
            "label_sets": _json(selector.allowed) if selector.allowed else None,
            "unlike": [_json({name: value}) for name, value in selector.unlike] or None,
            "has_labels": selector.has or None,
            "lacks_labels": selector.lacks or None,
        }


def _statuses_of(outcomes: Sequence[str] | None) -> Sequence[str] | None:
    """Return the statuses that jobs with these outcomes have, for the index."""
    if outcomes is None:
        return None
    return sorted({JobStatus.FAILED if each == JobOutcome.CANCELLED else each for each in outcomes})


_INDEXED_CHARS = 3  # the index has groups of as many
_CANDIDATES = 2_000
_TIMED_JOBS = 20_000


_DUE = "due"  # the order of schedules


class Cursor(NamedTuple):
    """A place in a list: after the item with this value and ID.

    It stays good when the item changes or goes.
    """

    sort: str
    value: str
    id: str

    def to_text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read_cursor(text: str, sort: str, *, is_time: bool) -> Cursor:
    """Return the cursor of a link; with `is_time`, the order is by a time.

    Raises BadRequest for another text, or if it belongs to another order.
    """
    try:
        cursor = Cursor(*_read_cursor(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
        if is_time and cursor.sort == sort and cursor.value not in {"infinity", "-infinity"}:
            # In a form that PostgreSQL reads too, unlike weeks and some offsets.
            cursor = cursor._replace(value=datetime.fromisoformat(cursor.value).astimezone(UTC).isoformat())
        is_good = is_id(cursor.id) and "\0" not in cursor.value
    except (binascii.Error, ValueError, OverflowError, msgspec.MsgspecError):
        is_good = False
    if not is_good:
        raise invalid_cursor()
    if cursor.sort != sort:
        raise BadRequest("after: the cursor belongs to a list in another order.", code="InvalidCursor")
    return cursor


def invalid_cursor() -> BadRequest:
    """Return the error for a text that isn't the cursor of a list."""
    return BadRequest("after: this isn't the cursor of a list. Use the link of a page.", code="InvalidCursor")


_read_cursor = msgspec.json.Decoder(tuple[str, str, str]).decode


R = TypeVar("R", FleetRow, FleetJobRow)


class InstancePage(NamedTuple):
    """Instances in order, where the next page begins, and how many fit.

    `components` says what the components of each do, as far as it is known.
    """

    rows: list[FleetRow]
    next_after: Cursor | None
    total: int | None
    components: Mapping[str, ComponentCounts] = {}


async def list_instances(
    ctx: Context,
    organization_id: str,
    wanted: InstanceFilter,
    *,
    sort: Sort,
    after: str | None,
    count: int,
    counts: bool = False,
    counts_components: bool = False,
) -> InstancePage:
    """Return instances that the caller may read.

    `counts` asks for the total, `counts_components` for what their components do.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        page = await page_of_instances(
            work, organization_id, wanted, Permission.READ, sort=sort, after=after, count=count, counts=counts
        )
        return page._replace(components=await count_components(work, page.rows)) if counts_components else page


async def count_destroyed(ctx: Context, organization_id: str, wanted: InstanceFilter) -> int:
    """Return how many destroyed instances fit, whatever statuses are wanted.

    Only those that the caller may read count.
    """
    destroyed = replace(wanted, statuses=[InstanceStatus.DESTROYED])
    found = await list_instances(ctx, organization_id, destroyed, sort="name", after=None, count=1, counts=True)
    return found.total or 0


async def page_of_instances(
    work: Work,
    organization_id: str,
    wanted: InstanceFilter,
    permission: Permission,
    *,
    sort: Sort,
    after: str | None,
    count: int,
    counts: bool = False,
) -> InstancePage:
    """Return instances on which the caller has a permission.

    The organization must have been looked up.
    """
    place = await _place(work, organization_id, wanted, permission, sort=sort, after=after)
    found = await store.list_instances(work.connection, **place, count=count + 1, counts=counts)
    total = found[0].total
    rows = [await _redacted(row) for row in found if row.id is not None]
    return InstancePage(*_page_end(rows, count, sort), total)


async def _place(
    work: Work, organization_id: str, wanted: InstanceFilter, permission: Permission, *, sort: Sort, after: str | None
) -> dict[str, Any]:
    """Return the parameters that say which instances, and from where on in which order."""
    is_time = sort.removeprefix("-") in {"lastJob", "expiry"}
    cursor = None if after is None else read_cursor(after, sort, is_time=is_time)
    conditions = wanted.conditions()
    seen = visible(work.lookup.grants(organization_id), permission)
    return {
        "organization_id": organization_id,
        **conditions,
        "candidates": [] if sees_none(seen) else await _candidates(work, organization_id, wanted),
        **seen,
        "sort": sort.removeprefix("-"),
        "descends": sort.startswith("-"),
        "after": None if cursor is None else cursor.value,
        "after_id": None if cursor is None else cursor.id,
    }


async def _candidates(work: Work, organization_id: str, wanted: InstanceFilter) -> list[str] | None:
    """Return some instances that include all that fit, or None for many.

    They come from the indexes of words and labels. Where many fit, a list that looks at one instance after the other
    soon has a page of them.
    """
    found: list[list[str]] = []
    word = wanted.indexed_word()
    if word is not None:
        found.append(await store.search(work.connection, organization_id=organization_id, word=word, most=_CANDIDATES))
    for name, values in () if wanted.labels is None else read_selector(wanted.labels).allowed.items():
        found.append(
            await store.list_labeled(
                work.connection, organization_id=organization_id, name=name, values=values, most=_CANDIDATES
            )
        )
    few = [set(ids) for ids in found if len(ids) < _CANDIDATES]
    return sorted(set.intersection(*few)) if few else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs of an organization. Lists are alternatives; None is any.

    Each word of `search` must be in the name of the job's instance or in the value of one of its labels, or begin its
    ID. A job lasts from its acceptance until its end. `outcomes` are as in InstanceFilter.
    """

    ids: Sequence[str] | None = None
    id_part: str | None = None
    instance_ids: Sequence[str] | None = None
    number: int | None = None
    statuses: Sequence[str] | None = None
    outcomes: Sequence[str] | None = None
    workflows: Sequence[str] | None = None
    application_ids: Sequence[str] | None = None
    environment_ids: Sequence[str] | None = None
    owner_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    longer_than: timedelta | None = None
    search: str | None = None

    @property
    def is_narrower_than_instances(self) -> bool:
        """Return whether some jobs of the wanted instances and times don't fit."""
        return replace(self, instance_ids=None, number=None, since=None, until=None, search=None) != JobFilter()


class JobPage(NamedTuple):
    """Jobs in order, where the next page begins, and how many fit."""

    rows: list[FleetJobRow]
    next_after: Cursor | None
    total: int | None


async def list_jobs(
    ctx: Context,
    organization_id: str,
    wanted: JobFilter,
    *,
    sort: JobSort,
    after: str | None,
    count: int,
    counts: bool = False,
) -> JobPage:
    """Return jobs of instances that the caller may read."""
    cursor = None if after is None else read_cursor(after, sort, is_time=True)
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        scope = visible(work.lookup.grants(organization_id), Permission.READ)
        # What a search finds is visible.
        is_scoped = not wanted.search and any(each is not None for each in scope.values())
        is_narrower = counts or wanted.is_narrower_than_instances or is_scoped
        found = await store.list_jobs(
            work.connection,
            organization_id=organization_id,
            ids=_array(wanted.ids),
            id_part=wanted.id_part,
            instance_ids=_array(await _instances_of(work, organization_id, wanted)),
            number=wanted.number,
            longer_than_s=None if wanted.longer_than is None else wanted.longer_than.total_seconds(),
            statuses=_array(wanted.statuses or _statuses_of(wanted.outcomes)),
            outcomes=_array(wanted.outcomes),
            workflows=_array(wanted.workflows),
            application_ids=_array(wanted.application_ids),
            environment_ids=_array(wanted.environment_ids),
            owner_id=wanted.owner_id,
            since=wanted.since,
            until=wanted.until,
            **scope,
            descends=sort.startswith("-"),
            after=None if cursor is None else cursor.value,
            after_id=None if cursor is None else cursor.id,
            count=count + 1,
            each=None if is_narrower else count + 1,
            counts=counts,
            most=COUNTED_JOBS,
        )
    total = found[0].total
    rows = [await _redacted_job(row) for row in found if row.id is not None]
    return JobPage(*_page_end(rows, count, sort), total)


async def list_usual_durations_ms(ctx: Context, rows: Sequence[FleetJobRow]) -> dict[str, int]:
    """Return the usual durations of listed jobs, by job, of those that have one."""
    if not rows:
        return {}
    async with ctx.read() as work:
        found = await job_store.list_usual_durations_ms(
            work.connection,
            ids=[row.id or "" for row in rows],
            instance_ids=[row.instance_id for row in rows],
            application_ids=[row.application_id for row in rows],
            workflows=[row.name for row in rows],
            instances=USUAL_INSTANCES,
            runs=USUAL_RUNS,
            jobs=USUAL_JOBS,
        )
    return {usual.id: usual.usual_ms for usual in found if usual.usual_ms}


def _page_end(rows: list[R], count: int, sort: str) -> tuple[list[R], Cursor | None]:
    """Return the rows of a page, and where the next one begins."""
    if len(rows) <= count:
        return rows, None
    last = rows[count - 1]
    assert last.id is not None, "rows without an ID were left out"
    return rows[:count], Cursor(sort, last.place, last.id)


async def _instances_of(work: Work, organization_id: str, wanted: JobFilter) -> Sequence[str] | None:
    """Return the instances whose jobs are wanted, or None for all.

    Where very many fit the words, they are the newest of them.
    """
    if not wanted.search:
        return wanted.instance_ids
    these = InstanceFilter(search=wanted.search, ids=wanted.instance_ids)
    place = await _place(work, organization_id, these, Permission.READ, sort="-created", after=None)
    return await store.list_instance_ids(work.connection, **place, count=_CANDIDATES, counts=False)


class JobNews(NamedTuple):
    """What changed in a list of jobs.

    `arrived` is the number of those that it doesn't show yet.
    """

    rows: list[FleetJobRow]
    arrived: int


NEW_JOBS_MAX = 99
_LOOK_S = 2.0


async def watch_jobs(
    ctx: Context, organization_id: str, wanted: JobFilter, *, shown: Collection[str], after: str | None
) -> AsyncGenerator[JobNews, None]:
    """Stream the jobs of a list as they are now, until each has ended.

    Counts those that came after a cursor of the order `created`; None counts none. Looks every two seconds: nothing
    else says what happens in a whole organization.
    """
    async with ctx.read() as work:
        organization = await work.lookup.organization(organization_id)
    allowed = ctx.app.quotas.event_streams(organization.id)
    left = set(shown)
    # The organization stands for the instances: what the feed says about it is that credentials have ended.
    async with ctx.app.feed.watching(organization.id, ctx.actor.user_id, organization.id, allowed) as waiter:
        while not ctx.app.feed.closing.is_set():
            rows: list[FleetJobRow] = []
            if left:
                these = JobFilter(ids=sorted(left))
                rows = (await list_jobs(ctx, organization.id, these, sort="-created", after=None, count=len(left))).rows
                left = {row.id for row in rows if row.id is not None and row.status == JobStatus.EXECUTING}
            arrived = 0
            if after is not None:
                new = await list_jobs(ctx, organization.id, wanted, sort="created", after=after, count=NEW_JOBS_MAX)
                arrived = len(new.rows)
            yield JobNews(rows, arrived)
            await waiter.wait(_LOOK_S)


class JobTimes(NamedTuple):
    """Jobs of some hours: all of them, and by slot, the oldest first.

    There may be more than were counted.
    """

    whole: TimeRow
    slots: list[TimeRow]
    is_whole: bool


async def count_jobs_by_time(
    ctx: Context,
    organization_id: str,
    *,
    hours: int,
    slots: int,
    until: datetime | None = None,
    workflow: str | None = None,
    most: int = _TIMED_JOBS,
) -> JobTimes:
    """Count the newest jobs of instances that the caller may read.

    They are those of the hours before `until`, by default now, and those of one workflow if it has a name.
    """
    now = ctx.app.clock.now() if until is None else until
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.count_jobs_by_time(
            work.connection,
            organization_id=organization_id,
            now=now,
            since=now - timedelta(hours=hours),
            slot_s=hours * 3600 / slots,
            workflow=workflow,
            most=most,
            **visible(work.lookup.grants(organization_id), Permission.READ),
        )
    by_slot = {row.slot: row for row in rows}
    none = TimeRow(None, 0, 0, 0, 0, None)
    whole = by_slot.get(None, none)
    return JobTimes(whole, [by_slot.get(slot, none) for slot in reversed(range(slots))], whole.total < most)


async def _redacted_job(row: FleetJobRow) -> FleetJobRow:
    if row.error is None:
        return row
    return row._replace(error=await mask_message(row.error, row.parameters, row.environment_view))


class Summary(NamedTuple):
    """The instances of an organization in groups, and what happens."""

    groups: list[GroupRow]
    work: WorkRow


async def summarize(ctx: Context, organization_id: str) -> Summary:
    """Return a summary of the instances that the caller may read."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        seen = visible(work.lookup.grants(organization_id), Permission.READ)
        groups = await store.summarize(work.connection, organization_id=organization_id, **seen)
        [found] = await store.count_work(work.connection, organization_id=organization_id, **seen)
    return Summary(groups, found)


async def list_expiries(
    ctx: Context, organization_id: str, *, since: datetime, until: datetime, count: int
) -> list[ExpiryRow]:
    """Return the visible instances that expire in a time, the next one first."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await store.list_expiries(
            work.connection,
            organization_id=organization_id,
            since=since,
            until=until,
            **visible(work.lookup.grants(organization_id), Permission.READ),
            count=count,
        )


async def list_schedules(
    ctx: Context,
    organization_id: str,
    *,
    since: datetime,
    until: datetime,
    count: int,
    after: str | None = None,
    cancelled_since: datetime | None = None,
) -> list[FleetScheduleRow]:
    """Return what is scheduled in a time on visible instances, the next one first.

    Cancelled ones are among them since `cancelled_since`, or all of that time. `after` is the cursor of a page
    (`schedule_cursor`). Raises BadRequest for another one.
    """
    cursor = None if after is None else read_cursor(after, _DUE, is_time=True)
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await schedules.list_by_organization(
            work.connection,
            organization_id=organization_id,
            since=since if cursor is None else datetime.fromisoformat(cursor.value),
            after_id="" if cursor is None else cursor.id,
            until=until,
            cancelled_since=since if cancelled_since is None else cancelled_since,
            **visible(work.lookup.grants(organization_id), Permission.READ),
            count=count,
        )


async def read_crons(ctx: Context, rows: Iterable[FleetScheduleRow]) -> dict[str, str]:
    """Return the expressions of schedules of manifests, by the ID of the schedule.

    One whose manifest no longer has it, or can't be read, has none.
    """
    by_version: dict[tuple[str, int], list[FleetScheduleRow]] = {}
    for row in rows:
        if row.component and row.cancelled_at is None:
            by_version.setdefault((row.application_id, row.version), []).append(row)
    found: dict[str, str] = {}
    async with ctx.read() as work:
        for (application_id, version), its_rows in by_version.items():
            try:
                manifest = await work.manifest(application_id, version)
            except (InvalidManifest, Conflict):  # a plug-in is missing
                continue
            for row in its_rows:
                component = component_at(manifest, row.component)
                if component is not None and row.workflow in component.schedule:
                    found[row.id] = component.schedule[row.workflow]
    return found


def schedule_cursor(row: FleetScheduleRow) -> str:
    """Return the cursor of a page that ends with this schedule."""
    return Cursor(_DUE, row.due_at.isoformat(), row.id).to_text()


class SavedView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query of a list that a person keeps under a name."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=VIEW_NAME_CHARS)]
    query: Annotated[str, msgspec.Meta(max_length=VIEW_QUERY_CHARS)]
    of: Literal["instances", "runs"] = "instances"
    sort: Annotated[str, msgspec.Meta(max_length=VIEW_NAME_CHARS)] = ""


async def read_views(ctx: Context, organization_id: str) -> list[SavedView]:
    """Return the caller's own views in an organization."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        text = await store.get_views(work.connection, user_id=ctx.actor.user_id, organization_id=organization_id)
    return _read_views(text or "[]")


async def replace_views(ctx: Context, organization_id: str, views: Sequence[SavedView]) -> None:
    """Replace the caller's own views in an organization.

    Raises BadRequest for a name that occurs twice, and NotAllowed for an access token: views are of the account.
    """
    if len(views) > SAVED_VIEWS:
        raise BadRequest(f"You can keep at most {SAVED_VIEWS} views. Remove one.", code="TooMany")
    if len({(view.of, view.name) for view in views}) < len(views):
        raise BadRequest("Two views have the same name. Rename one.")
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        caller = await work.lookup.caller()
        own = {"user_id": caller.id, "organization_id": organization.id}
        before = _read_views(await store.get_views(work.connection, **own) or "[]")
        await store.put_views(work.connection, **own, views=msgspec.json.encode(views).decode())
        await work.audit(
            "replace_views", organization, {"views": msgspec.to_builtins(before)}, {"views": msgspec.to_builtins(views)}
        )


_read_views = msgspec.json.Decoder(list[SavedView]).decode


async def read_groups(ctx: Context, organization_id: str) -> list[GroupRow]:
    """Return the instances that the caller may read, in groups."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        seen = visible(work.lookup.grants(organization_id), Permission.READ)
        return await store.summarize(work.connection, organization_id=organization_id, **seen)


async def count_by_version(ctx: Context, application_id: str) -> dict[int, int]:
    """Count the instances of each version that the caller may read, without destroyed ones."""
    async with ctx.read() as work:
        application = await work.lookup.application(application_id, Permission.READ)
        seen = visible(work.lookup.grants(application.organization_id), Permission.READ)
        rows = await store.count_by_version(
            work.connection, organization_id=application.organization_id, application_id=application.id, **seen
        )
    return {row.version: row.instances for row in rows}


async def count_running_jobs(ctx: Context, organization_id: str) -> int:
    """Count the jobs under way that the caller may read, up to a bound."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        seen = visible(work.lookup.grants(organization_id), Permission.READ)
        found = await store.count_running(
            work.connection, organization_id=organization_id, **seen, most=COUNTED_RUNNING_JOBS
        )
    return found or 0


OLD_JOBS_S = 1.0
_OLD_JOBS = 2_000


async def list_old_jobs(database: Database) -> bool:
    """List jobs of earlier versions. Return True if there may be more."""
    async with database.transaction() as connection:
        return bool(await store.list_old_jobs(connection, most=_OLD_JOBS))


async def _redacted(row: FleetRow) -> FleetRow:
    if row.job_error is None:
        return row
    job_error = await mask_message(row.job_error, row.parameters, row.environment_view)
    cause = row.cause_error and await mask_message(row.cause_error, row.parameters, row.environment_view)
    return row._replace(job_error=job_error, cause_error=cause)


def _array(values: Sequence[str] | None) -> list[str] | None:
    """Return the values in one order, each once.

    Some are part of the statement's text (decision 0233).
    """
    return None if values is None else sorted(set(values))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Labels

Labeled = Literal["instance", "application", "environment"]
_EDIT: Mapping[str, Permission] = {
    "instance": Permission.EDIT_INSTANCE,
    "application": Permission.EDIT_APPLICATION,
    "environment": Permission.EDIT_ENVIRONMENT,
}


async def put_labels(
    ctx: Context, kind: Labeled, object_id: str, labels: Mapping[str, Any], *, merges: bool = False
) -> None:
    """Replace the labels of an object. Raises BadRequest for an invalid name or value.

    With `merges`, labels that aren't named stay, and those that are None are removed.
    """
    async with ctx.begin() as work:
        found: Any = await getattr(work.lookup, kind)(object_id, _EDIT[kind])
        text = await store.lock_labels[kind](work.connection, id=found.id)
        if text is None:
            raise NotFound(f"The {kind} {object_id} has just been deleted.")
        before: dict[str, str] = msgspec.json.decode(text)
        if merges:
            labels = {name: value for name, value in {**before, **labels}.items() if value is not None}
        checked = read_labels(labels)
        await store.set_labels[kind](work.connection, id=found.id, labels=_json(checked))
        await work.audit(f"put_{kind}_labels", found, before, checked)


async def read_object_labels(ctx: Context, kind: Labeled, object_id: str) -> dict[str, str]:
    """Return the labels of an object."""
    async with ctx.read() as work:
        found: Any = await getattr(work.lookup, kind)(object_id, Permission.READ)
        text = await store.get_labels[kind](work.connection, id=found.id)
    labels: dict[str, str] = msgspec.json.decode(text or "{}")
    return labels
