"""The list of instances: its query, its menu for each row, and its export."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from launchbay.console.assets import shown_status
from launchbay.console.list_query import (
    FACET_ROWS,
    INSTANCE_STATUSES,
    RUN_STATUSES,
    STANDARD,
    Facet,
    InstanceQuery,
    facet_of_names,
    read_instance_query,
    term,
)
from launchbay.console.rendering import exported_time
from launchbay.console.request import HOME, PageRequest, Routes, people_in, safe_path, user_names
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.features.bulk.pages import ACTS
from launchbay.features.generations.pages import rollback_target
from launchbay.limits import CONSOLE_PAGE_ROWS, VIEW_NAME_CHARS, VIEW_QUERY_CHARS
from launchbay.planning.names import DESTROY
from launchbay.store.fleet import FleetRow
from launchbay.usecases import fleet
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_instance_record
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter, InstancePage, SavedView, Sort
from launchbay.usecases.instances import read_instance
from launchbay.usecases.sign_in import authenticate_session

routes = Routes()


SORTS: dict[str, Sort] = {each: each for each in get_args(Sort)}
_EXPORTED_AT_ONCE = 500
_COLUMNS = (
    *("id", "name", "status", "application", "applicationId", "version", "environment", "environmentId"),
    *("owner", "ownerId", "labels", "launchedAt", "expiresAt", "isAsleep"),
    *(
        "lastRun",
        "lastRunNumber",
        "lastRunStatus",
        "lastRunId",
        "lastRunStartedAt",
        "lastRunFinishedAt",
        "lastRunError",
    ),
)


@routes.get(
    "/console/organizations/{id}/instances",
    query=("after", "application", "environment", "name", "q", "sort", "status"),
)
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the instances that fit a query. Links of earlier versions name one object for each field."""
    ctx, organization_id = request.ctx, request.path("id")
    request.ask_frame(organization_id)
    views = request.ask(fleet.read_views(ctx, organization_id))
    query, applications, environment_names, people = await _read_query(request)
    destroyed = request.ask(fleet.count_destroyed(ctx, organization_id, query.wanted)) if query.has(STANDARD) else None
    sort = SORTS.get(request.query("sort") or "", "-created")
    after = request.query("after")
    try:
        found = await fleet.list_instances(
            ctx,
            organization_id,
            query.wanted,
            sort=sort,
            after=after,
            count=CONSOLE_PAGE_ROWS,
            counts=True,
            counts_components=True,
        )
    except BadRequest as error:  # a cursor of another order, or made up
        problem, after = error, None
        found = await fleet.list_instances(
            ctx,
            organization_id,
            query.wanted,
            sort=sort,
            after=None,
            count=CONSOLE_PAGE_ROWS,
            counts=True,
            counts_components=True,
        )
    labels = [msgspec.json.decode(row.labels, type=dict[str, str]) for row in found.rows]
    return await request.page(
        "instances.html",
        section="instances",
        organization_id=organization_id,
        problem=problem,
        status=None if query.problem is None else request.deps.status_of(query.problem),
        found=found,
        destroyed=0 if destroyed is None else await destroyed,
        labels=labels,
        query=query,
        standard=STANDARD,
        sort=sort,
        is_first=after is None,
        acts=ACTS,
        views=[view for view in await views if view.of == "instances"],
        facets=[
            Facet(
                "Status",
                [
                    ("Not destroyed", STANDARD),
                    *((shown_status(value)[1], f"status:{key}") for key, value in INSTANCE_STATUSES.items()),
                ],
            ),
            Facet("Health", [("Degraded", "health:degraded")]),
            Facet("Drift", [("Changed outside", "drift:new")]),
            Facet("Managed", [("Observed", "managed:observe")]),
            Facet("Secrets", [("Changed since launch", "secret:changed")]),
            facet_of_names("Environment", "env", environment_names.values(), query),
            facet_of_names("Application", "app", applications.values(), query),
            Facet("Last run", [(shown_status(value)[1], f"last-run:{key}") for key, value in RUN_STATUSES.items()]),
            Facet("Expires", [("Within 24 hours", "expires:<24h"), ("Within 7 days", "expires:<7d")]),
            _owners(people, request.actor.user_id, query),
            Facet("Label", [(each.partition(":")[2], each) for each in _label_terms(labels)]),
        ],
    )


async def _read_query(
    request: PageRequest, owners: int = FACET_ROWS + 2
) -> tuple[InstanceQuery, Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    """Return the query, and the names of applications, environments and people by ID.

    People are those that the query may name, or so many of the first: one more than are offered, which may be the user.
    """
    organization_id = request.path("id")
    asked = request.ask(list_applications(request.ctx, organization_id))
    listed = request.ask(list_environments(request.ctx, organization_id))
    given = request.query("q") or request.form.text("q")
    asked_people = request.ask(people_in(request, organization_id, given, most=owners))
    applications = {row.id: row.name for row in await asked}
    environments = {row.id: row.name for row in await listed}
    text = (
        given
        or _earlier_query(request, applications, environments)
        or ("" if "q" in request.http.query_params else STANDARD)
    )
    people = await asked_people
    query = read_instance_query(text, applications, environments, people, request.actor.user_id, request.now())
    return query, applications, environments, people


def _owners(people: Mapping[str, str], user_id: str, query: InstanceQuery) -> Facet:
    others = sorted((name for each, name in people.items() if each != user_id and name), key=str.lower)
    found = facet_of_names("Owner", "owner", others, query)
    return found._replace(options=[("Me", "owner:me"), *found.options])


def _label_terms(labels: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the labels of a page of instances, the most frequent first.

    Those of all instances would cost a statement that reads each of them.
    """
    counted = Counter((name, value) for each in labels for name, value in each.items())
    return [f"label:{name}={value}" for (name, value), _ in counted.most_common(FACET_ROWS)]


@routes.get(
    "/console/organizations/{id}/instances/export",
    query=("application", "environment", "format", "name", "q", "sort", "status"),
)
async def export(request: PageRequest) -> Response:
    """Send the instances that fit a query, as CSV or JSON."""
    query, _, _, _ = await _read_query(request, owners=0)
    if query.problem is not None:
        raise query.problem
    sort = SORTS.get(request.query("sort") or "", "-created")
    # Errors are a page, not a broken file.
    first = await _exported_page(request, query.wanted, sort, None)
    return request.download("instances", _COLUMNS, _exported(request, query.wanted, sort, first))


async def _exported_page(request: PageRequest, wanted: InstanceFilter, sort: Sort, after: str | None) -> InstancePage:
    organization_id = request.path("id")
    return await fleet.list_instances(
        request.ctx, organization_id, wanted, sort=sort, after=after, count=_EXPORTED_AT_ONCE
    )


async def _exported(
    request: PageRequest, wanted: InstanceFilter, sort: Sort, page: InstancePage
) -> AsyncIterator[Sequence[Any]]:
    while True:
        people = await user_names(request, request.path("id"), [row.owner_id for row in page.rows])
        for row in page.rows:
            yield _exported_row(row, people)
        if page.next_after is None:
            return
        await authenticate_session(request.app, request.session, request.actor.address)  # it may have ended
        page = await _exported_page(request, wanted, sort, page.next_after.to_text())


def _exported_row(row: FleetRow, people: Mapping[str, str]) -> Sequence[Any]:
    return (
        *(row.id, row.name, row.status, row.application, row.application_id, row.version),
        *(row.environment, row.environment_id, people.get(row.owner_id, ""), row.owner_id),
        *(msgspec.json.decode(row.labels), exported_time(row.created_at), exported_time(row.destroy_at), row.is_asleep),
        *(row.job_name, row.job_number, row.job_status, row.job_id),
        *(exported_time(row.job_started_at_ms), exported_time(row.job_ended_at_ms), row.job_error),
    )


@routes.get("/console/instances/{id}/menu", query=("back",))
async def row_menu(request: PageRequest) -> Response:
    """Return the menu of a row: what the user may do."""
    record, _ = await read_instance_record(request.ctx, request.path("id"))
    permissions = await request.permissions(record.organization_id)
    view = request.ask(read_instance(request.ctx, record.id))
    wanted = InstanceFilter(ids=[record.id])
    asked = request.ask(
        fleet.list_instances(request.ctx, record.organization_id, wanted, sort="name", after=None, count=1)
    )
    rollback_to = await rollback_target(request, permissions, record)
    workflows, page = (await view).available_workflows, await asked
    return await request.fragment(
        "row_menu.html",
        record=record,
        base=f"{HOME}/instances/{record.id}",
        can_run=any(each != DESTROY and permissions.run(record, each) for each in workflows),
        editable=permissions.edit_instance(record),
        reads_application=permissions.read_application(record.application_id),
        rollback_to=rollback_to,
        job_id=next((row.job_id for row in page.rows), None),
        back=safe_path(request.query("back") or ""),
    )


@routes.post("/console/organizations/{id}/views", again=list_all)
async def change_views(request: PageRequest) -> Response:
    """Save the query under a name, or remove the view of this name."""
    form, organization_id = request.form, request.path("id")
    name = form.text("name")
    saves = form.text("do") == "save"
    if saves and not 0 < len(name) <= VIEW_NAME_CHARS:
        raise BadRequest(f"The name of a view has 1 to {VIEW_NAME_CHARS} characters.", field="name")
    views = [
        view
        for view in await fleet.read_views(request.ctx, organization_id)
        if (view.of, view.name) != ("instances", name)
    ]
    if saves:
        sort = SORTS.get(form.text("sort"), "")
        views.append(SavedView(name, form.text("q")[:VIEW_QUERY_CHARS], "instances", sort))
    await fleet.replace_views(request.ctx, organization_id, views)
    query = urlencode({"q": form.text("q"), "sort": form.text("sort")})
    target = f"{HOME}/organizations/{organization_id}/instances?{query}"
    return request.redirect(target, f"View {name} {'saved' if saves else 'removed'}.")


def _earlier_query(request: PageRequest, applications: Mapping[str, str], environments: Mapping[str, str]) -> str:
    """Return the query for the fields that the page once had."""
    status = (request.query("status") or "").lower()
    application, environment = request.query("application") or "", request.query("environment") or ""
    statuses = {value.lower(): key for key, value in INSTANCE_STATUSES.items()}
    terms = [
        term("app", applications.get(application, application)) if application else "",
        term("env", environments.get(environment, environment)) if environment else "",
        term("status", statuses.get(status, status)) if status else "",
        request.query("name") or "",
    ]
    named = " ".join(filter(None, terms))
    return f"{named} {STANDARD}" if named and not terms[2] else named
