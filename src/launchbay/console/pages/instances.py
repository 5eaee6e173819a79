"""The list of instances."""

from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from launchbay.console.assets import shown_status
from launchbay.console.list_query import INSTANCE_STATUSES, RUN_STATUSES, STANDARD, read_instance_query, term
from launchbay.console.pages.bulk import ACTS
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.limits import CONSOLE_PAGE_ROWS, VIEW_NAME_CHARS, VIEW_QUERY_CHARS
from launchbay.usecases import fleet
from launchbay.usecases.applications import list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import SavedView, Sort

routes = Routes()


SORTS: dict[str, Sort] = {each: each for each in get_args(Sort)}


@routes.get("/console/organizations/{id}/instances")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the instances that fit a query. Links of earlier versions name one object for each field."""
    ctx, organization_id = request.ctx, request.path("id")
    applications = {row.id: row.name for row in await list_applications(ctx, organization_id)}
    environment_names = {row.id: row.name for row in await list_environments(ctx, organization_id)}
    asked = "q" in request.http.query_params
    text = (
        request.query("q")
        or request.form.text("q")
        or _earlier_query(request, applications, environment_names)
        or ("" if asked else STANDARD)
    )
    query = read_instance_query(text, applications, environment_names, request.now())
    sort = SORTS.get(request.query("sort") or "", "-created")
    after = request.query("after")
    try:
        found = await fleet.list_instances(
            ctx, organization_id, query.wanted, sort=sort, after=after, count=CONSOLE_PAGE_ROWS, counts=True
        )
    except BadRequest as error:  # a cursor of another order, or made up
        problem, after = error, None
        found = await fleet.list_instances(
            ctx, organization_id, query.wanted, sort=sort, after=None, count=CONSOLE_PAGE_ROWS, counts=True
        )
    return await request.page(
        "instances.html",
        section="instances",
        organization_id=organization_id,
        problem=problem,
        found=found,
        labels=[msgspec.json.decode(row.labels, type=dict[str, str]) for row in found.rows],
        query=query,
        sort=sort,
        is_first=after is None,
        acts=ACTS,
        views=[view for view in await fleet.read_views(ctx, organization_id) if view.of == "instances"],
        facets=[
            (
                "Status",
                [
                    ("Not destroyed", STANDARD),
                    *((shown_status(value)[1], f"status:{key}") for key, value in INSTANCE_STATUSES.items()),
                ],
            ),
            ("Environment", [(name, term("env", name)) for name in environment_names.values()]),
            ("Application", [(name, term("app", name)) for name in applications.values()]),
            ("Last run", [(shown_status(value)[1], f"last-run:{key}") for key, value in RUN_STATUSES.items()]),
            ("Expires", [("Within 24 hours", "expires:<24h"), ("Within 7 days", "expires:<7d")]),
        ],
    )


@routes.post("/console/organizations/{id}/views", again=list_all)
async def change_views(request: PageRequest) -> Response:
    """Save the query under a name, or remove the view of this name."""
    form, organization_id = request.form, request.path("id")
    name = form.text("name")
    saves = form.text("do") == "save"
    if saves and not 0 < len(name) <= VIEW_NAME_CHARS:
        raise BadRequest(f"The name of a view has 1 to {VIEW_NAME_CHARS} characters.")
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
    """Return the query for the fields that the page had before it had a query."""
    status = (request.query("status") or "").lower()
    statuses = {value.lower(): key for key, value in INSTANCE_STATUSES.items()}
    terms = [
        term("app", applications[each]) if (each := request.query("application") or "") in applications else "",
        term("env", environments[each]) if (each := request.query("environment") or "") in environments else "",
        f"status:{statuses[status]}" if status in statuses else "",
        request.query("name") or "",
    ]
    return " ".join(filter(None, terms))
