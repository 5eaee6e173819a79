"""Environments: policies, markers, properties, services (manifest-language §8)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.rendering import compact
from launchbay.console.request import HOME, Page, Visit
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.model.environment import Marker, Property
from launchbay.model.redaction import is_secret_name
from launchbay.usecases import environments
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_environment
from launchbay.usecases.environments import instances_offered
from launchbay.usecases.services import list_services

_BLANK_ROWS = 2
_INSTANCES_SHOWN = 10
TYPES = ("string", "int", "bool", "object", "list<string>", "map<string,string>")


async def list_all(visit: Visit) -> Response:
    """Show the environments of an organization."""
    return await _list(visit, None)


async def create(visit: Visit) -> Response:
    """Create an environment."""
    try:
        created = await environments.create_environment(visit.ctx, visit.path("id"), visit.form.text("name"))
    except BadRequest as error:
        return await _list(visit, error)
    return visit.go(f"{HOME}/environments/{created}", "The environment is there. It offers nothing yet.")


async def show(visit: Visit) -> Response:
    """Show an environment."""
    return await _show(visit, None)


async def rename(visit: Visit) -> Response:
    """Give the environment another name."""
    name = visit.form.text("name")
    return await _changed(visit, lambda: environments.rename_environment(visit.ctx, visit.path("id"), name), "Renamed.")


async def clone(visit: Visit) -> Response:
    """Copy the environment."""
    try:
        name = visit.form.text("name") or None
        copy = await environments.clone_environment(visit.ctx, visit.path("id"), name)
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/environments/{copy.id}", "This is the copy.")


async def make_default(visit: Visit) -> Response:
    """Make it the one that launches without an environment go to."""
    environment = await read_environment(visit.ctx, visit.path("id"))
    await environments.set_default_environment(visit.ctx, environment.organization_id, environment.id)
    return visit.go(_path(visit), f"{environment.name} is the default environment now.")


async def replace_policies(visit: Visit) -> Response:
    """Replace the policies."""
    document = visit.form.raw("policies")
    return await _changed(
        visit,
        lambda: environments.replace_policies(visit.ctx, visit.path("id"), document),
        "The policies are kept.",
    )


async def replace_markers(visit: Visit) -> Response:
    """Replace the markers: one on each line."""
    lines = [line.strip() for line in visit.form.raw("markers").splitlines() if line.strip()]
    markers = [Marker(line) for line in lines]
    return await _changed(
        visit,
        lambda: environments.replace_markers(visit.ctx, visit.path("id"), markers),
        "The markers are kept.",
    )


async def replace_properties(visit: Visit) -> Response:
    """Replace the properties: one in each row that has a name."""
    before = await environments.read_properties(visit.ctx, visit.path("id"))
    try:
        properties = _sent_properties(visit, {entry.name: entry for entry in before})
        await environments.replace_properties(visit.ctx, visit.path("id"), properties)
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{_path(visit)}#properties", "The properties are kept.")


async def replace_services(visit: Visit) -> Response:
    """Make the environment offer the services that are ticked."""
    chosen = visit.form.all("service")
    return await _changed(
        visit,
        lambda: environments.replace_services(visit.ctx, visit.path("id"), chosen),
        "The services are kept.",
    )


async def delete_page(visit: Visit) -> Response:
    """Ask whether the environment is really to go."""
    return await _confirm(visit, None)


async def delete(visit: Visit) -> Response:
    """Delete the environment."""
    environment = await read_environment(visit.ctx, visit.path("id"))
    try:
        await environments.delete_environment(visit.ctx, environment.id)
    except BadRequest as error:
        return await _confirm(visit, error)
    target = f"{HOME}/organizations/{environment.organization_id}/environments"
    return visit.go(target, f"{environment.name} is deleted.")


def _sent_properties(visit: Visit, before: dict[str, Property]) -> list[Property]:
    """Return the properties of the form's rows; the value of a secret that was left empty stays as it is."""
    found: list[Property] = []
    form = visit.form
    names, kinds = ([text.strip() for text in form.all(field)] for field in ("name", "type"))
    for name, kind, text in zip(names, kinds, form.all("value"), strict=False):
        if not name:
            continue
        known = before.get(name)
        if text == "" and known is not None and is_secret_name(name):
            found.append(Property(name, known.value, kind))
        else:
            found.append(Property(name, _value(kind, text), kind))
    return found


def _value(kind: str, text: str) -> Any:
    """Return what was typed, as JSON where the type has structure; what does not fit is refused with its name."""
    if kind in {"string", "int", "bool"}:
        return text
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.MsgspecError:
        return text


async def _changed(visit: Visit, change: Callable[[], Awaitable[object]], said: str) -> Response:
    try:
        await change()
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(_path(visit), said)


async def _list(visit: Visit, problem: LaunchbayError | None) -> Response:
    organization_id = visit.path("id")
    return await visit.page(
        "environments.html",
        section="environments",
        organization_id=organization_id,
        problem=problem,
        rows=await environments.list_environments(visit.ctx, organization_id),
        name=visit.form.text("name"),
    )


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    ctx, form = visit.ctx, visit.form
    environment = await read_environment(ctx, visit.path("id"))
    listed = await environments.list_environments(ctx, environment.organization_id)
    markers = await environments.read_markers(ctx, environment.id)
    offered = await environments.read_services(ctx, environment.id)
    instances = await browse_instances(
        ctx,
        environment.organization_id,
        InstanceFilter(environment_id=environment.id),
        None,
        _INSTANCES_SHOWN,
    )
    policies = await environments.read_policies_document(ctx, environment.id)
    return await visit.page(
        "environment.html",
        section="environments",
        organization_id=environment.organization_id,
        problem=problem,
        environment=environment,
        is_default=any(row.id == environment.id and row.is_default for row in listed),
        policies=form.raw("policies", policies),
        markers=form.raw("markers", "\n".join(marker.name for marker in markers)),
        properties=_rows(visit, await environments.read_properties(ctx, environment.id)),
        types=TYPES,
        offered={row.id for row in offered},
        services=await list_services(ctx, environment.organization_id),
        instances=instances,
        offered_instances=await instances_offered(ctx, environment.id),
    )


def _rows(visit: Visit, properties: Sequence[Property]) -> list[tuple[str, str, str, bool]]:
    """Return the rows of the form: name, type, value, whether the value is a secret that is not shown."""
    form = visit.form
    if form.has("value"):
        sent = zip(form.all("name"), form.all("type"), form.all("value"), strict=False)
        rows = [(name, kind, "" if is_secret_name(name) else value, is_secret_name(name)) for name, kind, value in sent]
    else:
        rows = [
            (
                entry.name,
                entry.type,
                "" if is_secret_name(entry.name) else compact(entry.value),
                is_secret_name(entry.name),
            )
            for entry in properties
        ]
    return [*rows, *[("", "string", "", False)] * _BLANK_ROWS]


async def _confirm(visit: Visit, problem: LaunchbayError | None) -> Response:
    environment = await read_environment(visit.ctx, visit.path("id"))
    return await visit.page(
        "confirm.html",
        section="environments",
        organization_id=environment.organization_id,
        problem=problem,
        heading=f"Delete {environment.name}?",
        sentences=("Its policies, markers and properties go with it. Services stay.",),
        action=f"{_path(visit)}/delete",
        back=_path(visit),
        label="Delete the environment",
        allowed=(await visit.may(environment.organization_id)).delete_environment(environment.id),
        needed=Permission.DELETE_ENVIRONMENT,
    )


def _path(visit: Visit) -> str:
    return f"{HOME}/environments/{visit.path('id')}"


PAGES = (
    Page("GET", "/console/organizations/{id}/environments", list_all),
    Page("POST", "/console/organizations/{id}/environments", create),
    Page("GET", "/console/environments/{id}", show),
    Page("POST", "/console/environments/{id}/name", rename),
    Page("POST", "/console/environments/{id}/clone", clone),
    Page("POST", "/console/environments/{id}/default", make_default),
    Page("POST", "/console/environments/{id}/policies", replace_policies),
    Page("POST", "/console/environments/{id}/markers", replace_markers),
    Page("POST", "/console/environments/{id}/properties", replace_properties),
    Page("POST", "/console/environments/{id}/services", replace_services),
    Page("GET", "/console/environments/{id}/delete", delete_page),
    Page("POST", "/console/environments/{id}/delete", delete),
)
