"""Rules about changes: their texts, versions, and what they would refuse."""

from collections.abc import Mapping
from functools import partial

from starlette.responses import Response

from launchbay.console.forms import parse_number
from launchbay.console.line_difference import Line, compare
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, NotFound
from launchbay.features.change_rules import usecases as change_rules
from launchbay.features.change_rules.usecases import Owner, RecentCheck, RulesPlace

routes = Routes()
_FOLDERS: Mapping[Owner, str] = {
    "organization": "organizations",
    "application": "applications",
    "environment": "environments",
}
_EXAMPLE = """\
- name: quiet-friday
  when: $.kind != 'run' && $.time.weekday == 'FRI' && $.time.hour >= 14
  timeZone: Europe/Berlin
  deny: Nothing changes on a Friday after 14:00.
"""


def _path(kind: Owner, owner_id: str) -> str:
    return f"{HOME}/{_FOLDERS[kind]}/{owner_id}/change-rules"


@routes.get("/console/organizations/{id}/change-rules", query=("version",))
async def show_of_organization(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the rules of an organization, and those of its applications and environments."""
    return await _show(request, "organization", problem)


@routes.post("/console/organizations/{id}/change-rules", again=show_of_organization)
async def save_of_organization(request: PageRequest) -> Response:
    return await _save(request, "organization")


@routes.get("/console/applications/{id}/change-rules", query=("version",))
async def show_of_application(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await _show(request, "application", problem)


@routes.post("/console/applications/{id}/change-rules", again=show_of_application)
async def save_of_application(request: PageRequest) -> Response:
    return await _save(request, "application")


@routes.get("/console/environments/{id}/change-rules", query=("version",))
async def show_of_environment(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await _show(request, "environment", problem)


@routes.post("/console/environments/{id}/change-rules", again=show_of_environment)
async def save_of_environment(request: PageRequest) -> Response:
    return await _save(request, "environment")


async def _show(request: PageRequest, kind: Owner, problem: LaunchbayError | None) -> Response:
    ctx = request.ctx
    place = await change_rules.read_place(ctx, kind, request.path("id"))
    others = await change_rules.list_in_force(ctx, place.organization_id) if kind == "organization" else []
    now = await change_rules.read_rules(ctx, kind, place.id)
    versions = await change_rules.list_versions(ctx, kind, place.id)
    may = (await request.permissions(place.organization_id)).edit_rules(kind, place.id)
    check, wrong = await _checked(request, place) if may else (None, None)
    chosen = parse_number(request.query("version"))
    return await request.page(
        "change_rules/templates/change_rules.html",
        section="environments",
        organization_id=place.organization_id,
        problem=problem,
        status=200 if problem is None else None,
        place=place,
        path=_path(kind, place.id),
        others=[(each, text, _path(each.kind, each.id)) for each, text in others if each.kind != "organization"],
        rules=now,
        count=len(change_rules.checked(now.rules)) if now.rules and not _is_unreadable(now.rules) else None,
        versions=versions,
        chosen=chosen,
        lines=None if chosen is None else await _difference(request, kind, place.id, chosen),
        may=may,
        text=request.form.raw("rules", now.rules),
        example=_EXAMPLE,
        seen=request.seen("change-rules", _shown(now.rules)),
        check=check,
        wrong=wrong,
    )


def _shown(text: str) -> dict[str, str]:
    return {"rules": text}


def _is_unreadable(text: str) -> bool:
    """Return whether a newer server wrote the rules."""
    try:
        change_rules.checked(text)
    except BadRequest:
        return True
    return False


async def _checked(request: PageRequest, place: RulesPlace) -> tuple[RecentCheck | None, BadRequest | None]:
    """Return what the sent text would have said to changes, or what is wrong."""
    if not request.form.has("rules"):
        return None, None
    try:
        return await change_rules.check_recent(request.ctx, place.kind, place.id, request.form.raw("rules")), None
    except BadRequest as error:
        return None, error


async def _difference(request: PageRequest, kind: Owner, owner_id: str, version: int) -> list[Line] | None:
    """Return what a version changed. None: the texts are too long to compare."""
    read = partial(change_rules.read_rules, request.ctx, kind, owner_id)
    new = await read(version)
    try:
        old = (await read(version - 1)).rules if version > 1 else ""
    except NotFound:  # it is no longer kept
        old = ""
    return compare(old, new.rules)


async def _save(request: PageRequest, kind: Owner) -> Response:
    if request.form.text("do") == "check":
        return await _show(request, kind, None)
    owner_id = request.path("id")

    async def read() -> dict[str, str]:
        return _shown((await change_rules.read_rules(request.ctx, kind, owner_id)).rules)

    async with request.unless_changed(_FOLDERS[kind], owner_id, read):
        version = await change_rules.replace_rules(request.ctx, kind, owner_id, request.form.raw("rules"))
    return request.redirect(_path(kind, owner_id), f"Version {version} is in force.")
