"""The runs of an organization, and of an instance."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.responses import Response, StreamingResponse

from launchbay.console.assets import Glyph, shown_status
from launchbay.console.list_query import RUN_STATUSES, Facet, RunQuery, facet_of_names, read_run_query
from launchbay.console.rendering import HEADERS, exported_time, live_event
from launchbay.console.request import PageRequest, Routes, people_in
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.job import JobOutcome, JobStatus
from launchbay.pages.instance import tab_values
from launchbay.store.fleet import FleetJobRow, TimeRow
from launchbay.usecases import failures, fleet
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.environments import list_environments
from launchbay.usecases.failures import FailurePage
from launchbay.usecases.fleet import Cursor, JobFilter, JobPage, JobSort
from launchbay.usecases.sign_in import authenticate_session

routes = Routes()
_SORTS: dict[str, JobSort] = {"created": "created", "-created": "-created"}
_HOURS, _SLOTS = 24, 48
_EXPORTED_AT_ONCE = 500
_COLUMNS = (
    *("id", "number", "workflow", "status", "instance", "instanceId", "application", "applicationId"),
    *("environment", "environmentId", "owner", "ownerId", "origin", "queuedAt", "startedAt", "finishedAt", "error"),
)
_FIRST_ID = "0" * 24  # before every ID


@routes.get("/console/organizations/{id}/runs", query=("after", "group", "q", "sort"))
async def list_all(request: PageRequest) -> Response:
    """Show the runs that fit a query."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    asked = request.ask(fleet.count_jobs_by_time(request.ctx, organization_id, hours=_HOURS, slots=_SLOTS))
    applications, environments, query = await _read_query(request, organization_id)
    times = await asked
    return await request.page(
        "runs.html",
        section="runs",
        organization_id=organization_id,
        times=times,
        strip=[_slot_kind(slot) for slot in times.slots],
        facets=[
            _status_facet(),
            facet_of_names("Environment", "env", environments.values(), query),
            facet_of_names("Application", "app", applications.values(), query),
            Facet("Started", [("Within 1 hour", "started:<1h"), ("Within 24 hours", "started:<24h")]),
            Facet("Duration", [("Over 1 min", "duration:>1min"), ("Over 10 min", "duration:>10min")]),
        ],
        **await _list(request, organization_id, query),
    )


def _status_facet() -> Facet:
    return Facet("Status", [(shown_status(value)[1], f"status:{key}") for key, value in RUN_STATUSES.items()])


def _slot_kind(slot: TimeRow) -> Glyph:
    if slot.failed:
        return Glyph.FAIL
    if slot.running:
        return Glyph.BUSY
    return Glyph.OK if slot.total else Glyph.QUEUED


@routes.get("/console/instances/{id}/runs", query=("after", "group", "q", "sort"))
async def list_of_instance(request: PageRequest) -> Response:
    """Show the runs of an instance that fit a query."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    values = request.ask(tab_values(request, "runs"))
    _, _, query = await _read_query(request, record.organization_id)
    runs = await _list(request, record.organization_id, query, record.id)
    return await request.page(
        "instance_runs.html",
        **{**await values, "problem": runs.pop("problem")},
        facets=[_status_facet()],
        **runs,
    )


async def _read_query(request: PageRequest, organization_id: str) -> tuple[dict[str, str], dict[str, str], RunQuery]:
    """Return the names of applications and environments, and the query."""
    asked = request.ask(list_applications(request.ctx, organization_id))
    listed = request.ask(list_environments(request.ctx, organization_id))
    text = request.query("q") or ""
    people = await people_in(request, organization_id, text)
    applications = {row.id: row.name for row in await asked}
    environments = {row.id: row.name for row in await listed}
    query = read_run_query(text, applications, environments, people, request.actor.user_id, request.now())
    return applications, environments, query


async def _list(
    request: PageRequest, organization_id: str, query: RunQuery, instance_id: str | None = None
) -> dict[str, Any]:
    """Return the values of a list of runs."""
    sort = _SORTS.get(request.query("sort") or "", "-created")
    after = None if request.query("group") else request.query("after")
    problem: BadRequest | None = None
    wanted = query.of_instance(instance_id)
    try:
        found = await fleet.list_jobs(
            request.ctx, organization_id, wanted, sort=sort, after=after, count=CONSOLE_PAGE_ROWS, counts=True
        )
    except BadRequest as error:  # a cursor of another order, or made up
        problem, after = error, None
        found = await fleet.list_jobs(
            request.ctx, organization_id, wanted, sort=sort, after=None, count=CONSOLE_PAGE_ROWS, counts=True
        )
    is_failed = query.wanted.outcomes == [JobOutcome.FAILED]
    failed = await _failures(request, organization_id, wanted) if is_failed and request.query("group") else None
    watched = {"q": query.text, "instance": instance_id or "", "runs": ",".join(_running(found.rows))}
    if after is None and sort == "-created":
        newest = Cursor("created", request.now().isoformat(), _FIRST_ID)
        if found.rows:
            newest = Cursor("created", found.rows[0].place, found.rows[0].id or "")
        watched["after"] = newest.to_text()
    return {
        "problem": problem,
        "status": None if query.problem is None else request.deps.status_of(query.problem),
        "found": found,
        "query": query,
        "sort": sort,
        "can_group": is_failed,
        "failed": failed,
        "is_first": after is None,
        "watched": {name: value for name, value in watched.items() if value},
    }


class FailedRuns(NamedTuple):
    """A page of equal failures of runs.

    `most`: no more than the latest ones were looked at.
    """

    page: FailurePage[FleetJobRow]
    is_first: bool
    most: int | None


async def _failures(request: PageRequest, organization_id: str, wanted: JobFilter) -> FailedRuns:
    found = await failures.list_job_failures(request.ctx, organization_id, wanted)
    after = request.query("after")
    try:
        page = failures.page_of_failures(found.groups, after, CONSOLE_PAGE_ROWS)
    except BadRequest:  # a cursor of another list, or made up
        after = None
        page = failures.page_of_failures(found.groups, after, CONSOLE_PAGE_ROWS)
    return FailedRuns(page, after is None, None if found.is_whole else failures.LOOKED_AT_JOBS)


@routes.get("/console/organizations/{id}/runs/export", query=("format", "q", "sort"))
async def export(request: PageRequest) -> Response:
    """Send the runs that fit a query, as CSV or JSON."""
    _, _, query = await _read_query(request, request.path("id"))
    if query.problem is not None:
        raise query.problem
    sort = _SORTS.get(request.query("sort") or "", "-created")
    first = await _exported_page(request, query.wanted, sort, None)  # errors are a page, not a broken file
    return request.download("runs", _COLUMNS, _exported(request, query.wanted, sort, first))


async def _exported_page(request: PageRequest, wanted: JobFilter, sort: JobSort, after: str | None) -> JobPage:
    organization_id = request.path("id")
    return await fleet.list_jobs(request.ctx, organization_id, wanted, sort=sort, after=after, count=_EXPORTED_AT_ONCE)


async def _exported(
    request: PageRequest, wanted: JobFilter, sort: JobSort, page: JobPage
) -> AsyncIterator[Sequence[Any]]:
    while True:
        for row in page.rows:
            yield (
                *(row.id, row.number, row.name, row.status, row.instance, row.instance_id),
                *(row.application, row.application_id, row.environment, row.environment_id),
                *(row.owner, row.owner_id, row.origin_kind, exported_time(row.created_at_ms)),
                *(exported_time(row.started_at_ms), exported_time(row.finished_at_ms), row.error),
            )
        if page.next_after is None:
            return
        await authenticate_session(request.app, request.session, request.actor.address)  # it may have ended
        page = await _exported_page(request, wanted, sort, page.next_after.to_text())


def _running(rows: list[FleetJobRow]) -> list[str]:
    return [row.id for row in rows if row.id is not None and row.status == JobStatus.EXECUTING]


@routes.get("/console/organizations/{id}/runs/events", query=("after", "instance", "q", "runs"))
async def watch_all(request: PageRequest) -> Response:
    """Stream the rows of a list that change, and how many runs it lacks."""
    organization_id = request.path("id")
    _, _, query = await _read_query(request, organization_id)  # an error is a response, not a stream
    return StreamingResponse(
        _events(request, organization_id, query),
        media_type="text/event-stream",
        headers={**HEADERS, "X-Accel-Buffering": "no"},
    )


async def _events(request: PageRequest, organization_id: str, query: RunQuery) -> AsyncGenerator[str, None]:
    instance_id = request.query("instance")
    shown = [each for each in (request.query("runs") or "").split(",")[:CONSOLE_PAGE_ROWS] if is_id(each)]
    sent: dict[str, str] = {}
    yield "retry: 2000\n\n"
    try:
        wanted = query.of_instance(instance_id)
        watch = fleet.watch_jobs(request.ctx, organization_id, wanted, shown=shown, after=request.query("after"))
        async with aclosing(watch) as changes:
            async for news in changes:
                # The session may have ended in the meantime; the use case checks the permissions again.
                await authenticate_session(request.app, request.session, request.actor.address)
                permissions = await request.permissions(organization_id)
                parts = {
                    f"run-{row.id}": request.render_fragment(
                        "run_rows.html", rows=[row], with_instance=instance_id is None, permissions=permissions
                    )
                    for row in news.rows
                }
                parts["news"] = request.render_fragment("run_news.html", arrived=news.arrived)
                for name, text in parts.items():
                    if sent.get(name) != text:
                        sent[name] = text
                        yield live_event(name, text)
    except LaunchbayError as error:
        yield request.live_end(error)
