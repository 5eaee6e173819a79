"""Environments: policies, markers, properties, services (manifest-language §8)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.rendering import compact
from launchbay.console.request import HOME, PageRequest, PageRoute
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.model.environment import Marker, Property
from launchbay.model.redaction import is_secret_name
from launchbay.usecases import environments
from launchbay.usecases.browsing import InstanceFilter, browse_instances, read_environment
from launchbay.usecases.environments import list_offered_instances
from launchbay.usecases.services import list_services

_BLANK_ROWS = 2
_INSTANCES_SHOWN = 10
TYPES = ("string", "int", "bool", "object", "list<string>", "map<string,string>")


async def list_all(request: PageRequest) -> Response:
    """Show the environments of an organization."""
    return await _list(request, None)


async def create(request: PageRequest) -> Response:
    """Create an environment."""
    try:
        created = await environments.create_environment(request.ctx, request.path("id"), request.form.text("name"))
    except BadRequest as error:
        return await _list(request, error)
    return request.redirect(f"{HOME}/environments/{created}", "The environment is there. It offers nothing yet.")


async def show(request: PageRequest) -> Response:
    """Show an environment."""
    return await _show(request, None)


async def rename(request: PageRequest) -> Response:
    """Give the environment another name."""
    name = request.form.text("name")
    return await _changed(
        request, lambda: environments.rename_environment(request.ctx, request.path("id"), name), "Renamed."
    )


async def clone(request: PageRequest) -> Response:
    """Copy the environment."""
    try:
        name = request.form.text("name") or None
        copy = await environments.clone_environment(request.ctx, request.path("id"), name)
    except BadRequest as error:
        return await _show(request, error)
    return request.redirect(f"{HOME}/environments/{copy.id}", "This is the copy.")


async def make_default(request: PageRequest) -> Response:
    """Make it the one that launches without an environment go to."""
    environment = await read_environment(request.ctx, request.path("id"))
    await environments.set_default_environment(request.ctx, environment.organization_id, environment.id)
    return request.redirect(_path(request), f"{environment.name} is the default environment now.")


async def replace_policies(request: PageRequest) -> Response:
    """Replace the policies."""
    document = request.form.raw("policies")
    return await _changed(
        request,
        lambda: environments.replace_policies(request.ctx, request.path("id"), document),
        "The policies are kept.",
    )


async def replace_markers(request: PageRequest) -> Response:
    """Replace the markers: one on each line."""
    lines = [line.strip() for line in request.form.raw("markers").splitlines() if line.strip()]
    markers = [Marker(line) for line in lines]
    return await _changed(
        request,
        lambda: environments.replace_markers(request.ctx, request.path("id"), markers),
        "The markers are kept.",
    )


async def replace_properties(request: PageRequest) -> Response:
    """Replace the properties: one in each row that has a name."""
    before = await environments.read_properties(request.ctx, request.path("id"))
    try:
        properties = _sent_properties(request, {entry.name: entry for entry in before})
        await environments.replace_properties(request.ctx, request.path("id"), properties)
    except BadRequest as error:
        return await _show(request, error)
    return request.redirect(f"{_path(request)}#properties", "The properties are kept.")


async def replace_services(request: PageRequest) -> Response:
    """Make the environment offer the services that are ticked."""
    chosen = request.form.all("service")
    return await _changed(
        request,
        lambda: environments.replace_services(request.ctx, request.path("id"), chosen),
        "The services are kept.",
    )


async def delete_page(request: PageRequest) -> Response:
    """Ask whether the environment is really to go."""
    return await _confirm(request, None)


async def delete(request: PageRequest) -> Response:
    """Delete the environment."""
    environment = await read_environment(request.ctx, request.path("id"))
    try:
        await environments.delete_environment(request.ctx, environment.id)
    except BadRequest as error:
        return await _confirm(request, error)
    target = f"{HOME}/organizations/{environment.organization_id}/environments"
    return request.redirect(target, f"{environment.name} is deleted.")


def _sent_properties(request: PageRequest, before: dict[str, Property]) -> list[Property]:
    """Return the properties of the form's rows; the value of a secret that was left empty stays as it is."""
    found: list[Property] = []
    form = request.form
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


async def _changed(request: PageRequest, change: Callable[[], Awaitable[object]], said: str) -> Response:
    try:
        await change()
    except BadRequest as error:
        return await _show(request, error)
    return request.redirect(_path(request), said)


async def _list(request: PageRequest, problem: LaunchbayError | None) -> Response:
    organization_id = request.path("id")
    return await request.page(
        "environments.html",
        section="environments",
        organization_id=organization_id,
        problem=problem,
        rows=await environments.list_environments(request.ctx, organization_id),
        name=request.form.text("name"),
    )


async def _show(request: PageRequest, problem: LaunchbayError | None) -> Response:
    ctx, form = request.ctx, request.form
    environment = await read_environment(ctx, request.path("id"))
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
    return await request.page(
        "environment.html",
        section="environments",
        organization_id=environment.organization_id,
        problem=problem,
        environment=environment,
        is_default=any(row.id == environment.id and row.is_default for row in listed),
        policies=form.raw("policies", policies),
        markers=form.raw("markers", "\n".join(marker.name for marker in markers)),
        properties=_rows(request, await environments.read_properties(ctx, environment.id)),
        types=TYPES,
        offered={row.id for row in offered},
        services=await list_services(ctx, environment.organization_id),
        instances=instances,
        offered_instances=await list_offered_instances(ctx, environment.id),
    )


def _rows(request: PageRequest, properties: Sequence[Property]) -> list[tuple[str, str, str, bool]]:
    """Return the rows of the form: name, type, value, whether the value is a secret that is not shown."""
    form = request.form
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


async def _confirm(request: PageRequest, problem: LaunchbayError | None) -> Response:
    environment = await read_environment(request.ctx, request.path("id"))
    return await request.page(
        "confirm.html",
        section="environments",
        organization_id=environment.organization_id,
        problem=problem,
        heading=f"Delete {environment.name}?",
        sentences=("Its policies, markers and properties go with it. Services stay.",),
        action=f"{_path(request)}/delete",
        back=_path(request),
        label="Delete the environment",
        allowed=(await request.permissions(environment.organization_id)).delete_environment(environment.id),
        needed=Permission.DELETE_ENVIRONMENT,
    )


def _path(request: PageRequest) -> str:
    return f"{HOME}/environments/{request.path('id')}"


ROUTES = (
    PageRoute("GET", "/console/organizations/{id}/environments", list_all),
    PageRoute("POST", "/console/organizations/{id}/environments", create),
    PageRoute("GET", "/console/environments/{id}", show),
    PageRoute("POST", "/console/environments/{id}/name", rename),
    PageRoute("POST", "/console/environments/{id}/clone", clone),
    PageRoute("POST", "/console/environments/{id}/default", make_default),
    PageRoute("POST", "/console/environments/{id}/policies", replace_policies),
    PageRoute("POST", "/console/environments/{id}/markers", replace_markers),
    PageRoute("POST", "/console/environments/{id}/properties", replace_properties),
    PageRoute("POST", "/console/environments/{id}/services", replace_services),
    PageRoute("GET", "/console/environments/{id}/delete", delete_page),
    PageRoute("POST", "/console/environments/{id}/delete", delete),
)
