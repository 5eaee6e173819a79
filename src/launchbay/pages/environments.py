"""Environments: policies, markers, properties, services (manifest-language §8)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.forms import SEEN, is_unchanged, seen_tag
from launchbay.console.list_query import page_by_name
from launchbay.console.rendering import compact, redact, redact_value
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, PreconditionFailed
from launchbay.features.change_sets.rules import ChangePolicy
from launchbay.features.freezes.usecases import show_freeze
from launchbay.features.identities import usecases as identities
from launchbay.features.impact.usecases import EnvironmentChange, Impact, impact_of_environment
from launchbay.features.lifetimes.rules import LifetimeRules
from launchbay.model.environment import Marker, Property
from launchbay.model.expiry import NEVER, duration
from launchbay.model.freezes import FreezeState, shown_freeze
from launchbay.model.instance import ALIVE
from launchbay.model.redaction import is_secret_name
from launchbay.model.types import OBJECT
from launchbay.model.values import CoercionError, coerce_text, parse_json
from launchbay.pages.overview import Health, health_by, health_of_groups
from launchbay.pages.rule_forms import (
    lift_freeze,
    rule_values,
    save_freeze,
    save_freeze_windows,
    save_lifetime,
    save_limits,
    save_sleep,
)
from launchbay.pages.services import CLOUD_ACCOUNT
from launchbay.pages.versions import groups_of
from launchbay.usecases import environments, fleet
from launchbay.usecases.browsing import read_environment
from launchbay.usecases.context import Context
from launchbay.usecases.environments import list_offered_instances
from launchbay.usecases.organizations import list_last_changes
from launchbay.usecases.roles import list_roles
from launchbay.usecases.services import list_service_types, list_services

_BLANK_ROWS = 2
_INSTANCES_SHOWN = 10
_COMPARED, _DIFFERENCES = 4, 20
TYPES = ("string", "int", "bool", "object", "list<string>", "map<string,string>")


routes = Routes()


class Row(NamedTuple):
    """An environment with the state of its instances and what it gives."""

    id: str
    name: str
    is_default: bool
    health: Health
    properties: Mapping[str, Any]
    policies: Mapping[str, Any]
    services: Sequence[str]
    expiry: str = ""
    approval: str = ""
    freeze: FreezeState | None = None


@routes.get("/console/organizations/{id}/environments", query=("after", "q"))
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the environments, and where the first of them differ."""
    organization_id = request.path("id")
    ask, ctx = request.ask, request.ctx
    request.ask_frame(organization_id)
    groups, services = ask(fleet.read_groups(ctx, organization_id)), ask(list_services(ctx, organization_id))
    roles = ask(list_roles(ctx, organization_id))
    every = await environments.list_environments(ctx, organization_id)
    page = page_by_name(every, request.query("q"), request.query("after"))
    shown = [row.id for row in page.rows]
    frozen = {row.id: shown_freeze(row.freezes, request.now()) for row in page.rows}
    changed = ask(list_last_changes(ctx, organization_id, shown))
    contents = await environments.list_contents(ctx, organization_id, shown)
    health = health_by("environment_id", await groups)
    names = {row.id: row.name for row in await services}
    role_names = {row.id: row.name for row in await roles}
    rows = [
        Row(
            row.id,
            row.name,
            row.is_default,
            health[row.id],
            {entry.name: entry.value for entry in msgspec.json.decode(row.properties, type=list[Property])},
            msgspec.json.decode(row.policies, type=dict[str, Any]),
            [names[each] for each in msgspec.json.decode(row.services, type=list[str]) if each in names],
            expiry_words(msgspec.json.decode(row.lifetime, type=LifetimeRules)),
            _approval_words(msgspec.json.decode(row.change_policy, type=ChangePolicy), role_names),
            frozen[row.id],
        )
        for row in contents
    ]
    compared = rows[:_COMPARED] if page.is_first else []
    return await request.page(
        "environments.html",
        section="environments",
        organization_id=organization_id,
        problem=problem,
        rows=rows,
        changed=await changed,
        page=page,
        compared=compared,
        differences=differences(compared),
        name=request.form.text("name"),
    )


def expiry_words(rules: LifetimeRules) -> str:
    """Return how long instances live by default, and at most; empty without such rules."""
    words = [] if rules.default_ms is None else ["never" if rules.default_ms == NEVER else duration(rules.default_ms)]
    words += [] if rules.greatest_ms is None else [f"at most {duration(rules.greatest_ms)}"]
    words += ["must end"] if not rules.may_never and not words else []
    words += [] if rules.idle_ms is None else [f"{duration(rules.idle_ms)} idle"]
    text = ", ".join(words)
    return text[:1].upper() + text[1:]


def _approval_words(policy: ChangePolicy, role_names: Mapping[str, str]) -> str:
    """Return who approves change sets; empty if nobody must."""
    if not policy.approvals:
        return ""
    people = f"{policy.approvals} {'person' if policy.approvals == 1 else 'people'}"
    return people if policy.role_id is None else f"{policy.approvals} of {role_names.get(policy.role_id, 'a role')}"


def differences(rows: Sequence[Row]) -> list[tuple[str, list[str | None]]]:
    """Return the values that differ, by name; None where one is missing."""
    found: list[tuple[str, list[str | None]]] = []
    for kind in ("properties", "policies"):
        for name in dict.fromkeys(name for row in rows for name in getattr(row, kind)):
            given = [getattr(row, kind).get(name) for row in rows]
            if any(each != given[0] for each in given):
                found.append((name, [None if each is None else redact_value(each, name) for each in given]))
    return found[:_DIFFERENCES]


@routes.post("/console/organizations/{id}/environments", again=list_all)
async def create(request: PageRequest) -> Response:
    created = await environments.create_environment(request.ctx, request.path("id"), request.form.text("name"))
    return request.redirect(f"{HOME}/environments/{created}", "Environment created. It offers no services yet.")


@routes.get("/console/environments/{id}")
async def show(
    request: PageRequest, problem: LaunchbayError | None = None, tab: str = "", *, impact: Impact | None = None
) -> Response:
    """Show what instances get in an environment, or its settings."""
    ctx, form = request.ctx, request.form
    environment = await read_environment(ctx, request.path("id"))
    ask, organization_id = request.ask, environment.organization_id
    request.ask_frame(organization_id)
    asked_listed = ask(environments.list_environments(ctx, organization_id))
    asked_offered = ask(environments.read_services(ctx, environment.id))
    wanted = fleet.InstanceFilter(environment_ids=[environment.id], statuses=ALIVE)
    instances = ask(
        fleet.list_instances(ctx, organization_id, wanted, sort="-created", after=None, count=_INSTANCES_SHOWN)
    )
    groups, services = ask(fleet.read_groups(ctx, organization_id)), ask(list_services(ctx, organization_id))
    destroyed = ask(fleet.count_destroyed(ctx, organization_id, wanted))
    freeze = ask(show_freeze(ctx, "environment", environment.id))
    offered_instances, seen = ask(list_offered_instances(ctx, environment.id)), ask(_seen(request, problem))
    rules, audiences = None, None
    if tab == "settings":
        audiences = ask(identities.read_audiences(ctx, environment.id))
        rules = ask(rule_values(request, "environment", environment.id, organization_id, problem))
    markers = await environments.read_markers(ctx, environment.id)
    policies = await environments.read_policies_document(ctx, environment.id)
    listed, offered = await asked_listed, await asked_offered
    return await request.page(
        "environment.html",
        section="environments",
        organization_id=environment.organization_id,
        problem=problem,
        environment=environment,
        tab=tab,
        freeze=await freeze,
        health=health_of_groups(group for group in await groups if group.environment_id == environment.id),
        is_default=any(row.id == environment.id and row.is_default for row in listed),
        policies=form.raw("policies", policies),
        markers=form.raw("markers", "\n".join(marker.name for marker in markers)),
        properties=_rows(request, await environments.read_properties(ctx, environment.id)),
        types=TYPES,
        offered=set(form.all("service")) if impact and _part(request) == "services" else {row.id for row in offered},
        impact=impact,
        impact_groups=[] if impact is None else groups_of(impact),
        has_secrets=impact is not None and _sends_secrets(request),
        cloud_account=CLOUD_ACCOUNT,
        services=await services,
        type_names={kind.id: kind.name for kind in await list_service_types(ctx, environment.organization_id)},
        instances=await instances,
        destroyed=await destroyed,
        offered_instances=await offered_instances,
        seen=await seen,
        theirs=await _theirs(request) if isinstance(problem, PreconditionFailed) and not tab else "",
        **({} if rules is None else await rules),
        **({} if audiences is None else _audience_fields(request, problem, await audiences)),
    )


def _audience_fields(request: PageRequest, problem: LaunchbayError | None, audiences: list[str]) -> dict[str, Any]:
    """Return the audiences, with the tag of those that the user has seen."""
    is_refused = _part(request) == "audiences" and not isinstance(problem, PreconditionFailed)
    seen = request.form.text(SEEN) if is_refused and request.form.has(SEEN) else seen_tag(audiences)
    return {"audiences": audiences, "audiences_seen": seen}


def _part(request: PageRequest) -> str:
    """Return the part of the environment that a form changes, such as `policies`."""
    return request.http.url.path.rpartition("/")[2]


async def _read_part(request: PageRequest, part: str) -> Any:
    return await _PARTS[part](request.ctx, request.path("id"))


async def _name(ctx: Context, environment_id: str) -> dict[str, str]:
    return {"name": (await read_environment(ctx, environment_id)).name}


async def _service_names(ctx: Context, environment_id: str) -> dict[str, list[str]]:
    return {"service": sorted(row.id for row in await environments.read_services(ctx, environment_id))}


_PARTS: Mapping[str, Callable[[Context, str], Awaitable[Any]]] = {
    "policies": environments.read_policies_document,
    "markers": environments.read_markers,
    "properties": environments.read_properties,
    "name": _name,
    "services": _service_names,
}


async def _seen(request: PageRequest, problem: LaunchbayError | None) -> dict[str, str]:
    """Return the tag of each part that the user has seen."""
    tags = {part: seen_tag(await _read_part(request, part)) for part in _PARTS}
    if request.form.has(SEEN) and not isinstance(problem, PreconditionFailed) and _part(request) in _PARTS:
        tags[_part(request)] = request.form.text(SEEN)
    return tags


async def _theirs(request: PageRequest) -> str:
    """Return what others have saved, with secrets covered."""
    found = await _read_part(request, _part(request))
    if isinstance(found, str):
        return found
    return "\n".join(
        each.name if isinstance(each, Marker) else f"{each.name}: {compact(redact({each.name: each.value})[each.name])}"
        for each in found
    )


@routes.get("/console/environments/{id}/settings")
async def show_settings(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await show(request, problem, "settings")


@routes.post("/console/environments/{id}/name", again=show_settings)
async def rename(request: PageRequest) -> Response:
    async with request.unless_changed("environments", request.path("id"), partial(_read_part, request, "name")):
        await environments.rename_environment(request.ctx, request.path("id"), request.form.text("name"))
    return request.redirect(_path(request), "Environment renamed.")


@routes.post("/console/environments/{id}/lifetime", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_lifetime(request: PageRequest) -> Response:
    return await save_lifetime(request, "environment")


@routes.post("/console/environments/{id}/sleep", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_sleep(request: PageRequest) -> Response:
    return await save_sleep(request, "environment", show_settings)


@routes.post("/console/environments/{id}/concurrency", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_limits(request: PageRequest) -> Response:
    return await save_limits(request, "environment")


async def _audiences(request: PageRequest) -> list[str]:
    return await identities.read_audiences(request.ctx, request.path("id"))


@routes.post("/console/environments/{id}/audiences", again=show_settings, refusals=(BadRequest, PreconditionFailed))
async def set_audiences(request: PageRequest) -> Response:
    environment_id, wanted = request.path("id"), request.form.raw("audiences").split()
    async with request.unless_changed("environments", environment_id, partial(_audiences, request)):
        await identities.replace_audiences(request.ctx, environment_id, wanted)
    return request.redirect(f"{_path(request)}/settings#audiences", "Audiences saved.")


@routes.post("/console/environments/{id}/freeze", again=show_settings)
async def set_freeze(request: PageRequest) -> Response:
    return await save_freeze(request, "environment")


@routes.post("/console/environments/{id}/lift-freeze", again=show)
async def end_freeze(request: PageRequest) -> Response:
    return await lift_freeze(request, "environment")


@routes.post(
    "/console/environments/{id}/freeze-windows", again=show_settings, refusals=(BadRequest, PreconditionFailed)
)
async def set_freeze_windows(request: PageRequest) -> Response:
    return await save_freeze_windows(request, "environment", show_settings)


@routes.post("/console/environments/{id}/clone", again=show_settings)
async def clone(request: PageRequest) -> Response:
    name = request.form.text("name") or None
    copy = await environments.clone_environment(request.ctx, request.path("id"), name)
    return request.redirect(f"{HOME}/environments/{copy.id}", "Environment copied. This is the copy.")


@routes.post("/console/environments/{id}/default")
async def make_default(request: PageRequest) -> Response:
    environment = await read_environment(request.ctx, request.path("id"))
    await environments.set_default_environment(request.ctx, environment.organization_id, environment.id)
    return request.redirect(_path(request), f"{environment.name} is now the default environment.")


@routes.post("/console/environments/{id}/policies", again=show, refusals=(BadRequest, PreconditionFailed))
async def replace_policies(request: PageRequest) -> Response:
    if _is_preview(request):
        return await _preview(request, EnvironmentChange(policies=request.form.raw("policies")))
    async with request.unless_changed("environments", request.path("id"), partial(_read_part, request, "policies")):
        await environments.replace_policies(request.ctx, request.path("id"), request.form.raw("policies"))
    return request.redirect(_path(request), "Policies saved.")


@routes.post("/console/environments/{id}/markers", again=show, refusals=(BadRequest, PreconditionFailed))
async def replace_markers(request: PageRequest) -> Response:
    """Replace the markers, one per line."""
    lines = [line.strip() for line in request.form.raw("markers").splitlines() if line.strip()]
    markers = [Marker(line) for line in lines]
    if _is_preview(request):
        return await _preview(request, EnvironmentChange(markers=markers))
    async with request.unless_changed("environments", request.path("id"), partial(_read_part, request, "markers")):
        await environments.replace_markers(request.ctx, request.path("id"), markers)
    return request.redirect(_path(request), "Markers saved.")


@routes.post("/console/environments/{id}/properties", again=show, refusals=(BadRequest, PreconditionFailed))
async def replace_properties(request: PageRequest) -> Response:
    """Replace the properties, one per row that has a name."""
    if _is_preview(request):
        stored = await environments.read_properties(request.ctx, request.path("id"))
        properties = _sent_properties(request, {entry.name: entry for entry in stored})
        return await _preview(request, EnvironmentChange(properties=properties))
    async with request.unless_changed("environments", request.path("id"), partial(_read_part, request, "properties")):
        before = await environments.read_properties(request.ctx, request.path("id"))
        properties = _sent_properties(request, {entry.name: entry for entry in before})
        await environments.replace_properties(request.ctx, request.path("id"), properties)
    return request.redirect(f"{_path(request)}#properties", "Properties saved.")


@routes.post("/console/environments/{id}/services", again=show)
async def replace_services(request: PageRequest) -> Response:
    """Offer the selected services in the environment, and no other."""
    if _is_preview(request):
        return await _preview(request, EnvironmentChange(services=request.form.all("service")))
    async with request.unless_changed("environments", request.path("id"), partial(_read_part, request, "services")):
        await environments.replace_services(request.ctx, request.path("id"), request.form.all("service"))
    return request.redirect(_path(request), "Services saved.")


def _is_preview(request: PageRequest) -> bool:
    return request.form.text("do") == "preview"


async def _preview(request: PageRequest, change: EnvironmentChange) -> Response:
    """Show what a change means for live instances, with its form."""
    return await show(request, impact=await impact_of_environment(request.ctx, request.path("id"), change))


def _sends_secrets(request: PageRequest) -> bool:
    """Tell whether the form has new secrets, which a page doesn't show again."""
    sent = zip(request.form.all("name"), request.form.all("value"), strict=False)
    return any(value and is_secret_name(name.strip()) for name, value in sent)


@routes.get("/console/environments/{id}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    environment = await read_environment(request.ctx, request.path("id"))
    return await request.confirm_deletion(
        problem,
        section="environments",
        organization_id=environment.organization_id,
        name=environment.name,
        consequence="This also deletes its policies, markers and properties. Its services remain.",
        path=_path(request),
        allowed=(await request.permissions(environment.organization_id)).delete_environment(environment.id),
        needed=Permission.DELETE_ENVIRONMENT,
    )


@routes.post("/console/environments/{id}/delete")
async def delete(request: PageRequest) -> Response:
    environment = await read_environment(request.ctx, request.path("id"))
    try:
        await environments.delete_environment(request.ctx, environment.id)
    except BadRequest as error:
        return await delete_page(request, error)
    target = f"{HOME}/organizations/{environment.organization_id}/environments"
    return request.redirect(target, f"Environment {environment.name} deleted.")


def _sent_properties(request: PageRequest, before: dict[str, Property]) -> list[Property]:
    """Return the properties in the form's rows. An empty secret keeps its value."""
    found: list[Property] = []
    form = request.form
    names, kinds = ([text.strip() for text in form.all(field)] for field in ("name", "type"))
    for name, kind, text in zip(names, kinds, form.all("value"), strict=False):
        if not name:
            continue
        known = before.get(name)
        is_kept = text == "" if is_secret_name(name) else known is not None and is_unchanged(compact(known.value), text)
        if known is not None and is_kept and (is_secret_name(name) or kind == known.type):
            found.append(Property(name, known.value, kind))
        else:
            found.append(Property(name, _value(kind, text), kind))
    return found


def _value(kind: str, text: str) -> Any:
    """Return the value as a string, or as JSON for structured types.

    The use case refuses a mismatch.
    """
    if kind in {"string", "int", "bool"}:
        return text
    try:
        return coerce_text(OBJECT, text) if kind == "object" else parse_json(text, is_written=True)
    except (CoercionError, ValueError):
        return text


def _rows(request: PageRequest, properties: Sequence[Property]) -> list[tuple[str, str, str, bool]]:
    """Return the rows of the form.

    Each has name, type, value, and whether the value is a hidden secret.
    """
    form = request.form
    if form.has("value"):
        rows = list(zip(form.all("name"), form.all("type"), form.all("value"), strict=False))
    else:
        rows = [(entry.name, entry.type, compact(entry.value)) for entry in properties]
    shown = [(name, kind, "" if is_secret_name(name) else value, is_secret_name(name)) for name, kind, value in rows]
    return [*shown, *[("", "string", "", False)] * _BLANK_ROWS]


def _path(request: PageRequest) -> str:
    return f"{HOME}/environments/{request.path('id')}"
