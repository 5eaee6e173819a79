"""Service instances: their types, parameters and commands (reference §4, Service instances)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from launchbay.console.fields import (
    ARGUMENT,
    PARAMETER,
    Field,
    field_text,
    fill_fields,
    values,
    with_errors,
)
from launchbay.console.forms import FIX_FIELDS
from launchbay.console.rendering import actor_name, change_words
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, FieldErrors, LaunchbayError
from launchbay.features.impact.usecases import Impact, impact_of_service
from launchbay.features.secret_providers.usecases import ProviderTest, count_readers, read_use, try_provider
from launchbay.model.instance import InstanceStatus
from launchbay.pages.versions import groups_of
from launchbay.service_types.contract import REDACTED, CommandArgument, SecretProvider, ServiceCommand, ServiceParameter
from launchbay.service_types.key_pairs import fingerprint
from launchbay.store.audit import AuditRow
from launchbay.store.fleet import FleetRow
from launchbay.store.machines import HostKeyRow
from launchbay.usecases import secrets, services
from launchbay.usecases.applications import list_applications
from launchbay.usecases.browsing import read_audit_page
from launchbay.usecases.environments import list_contents
from launchbay.usecases.fleet import InstanceFilter, list_instances
from launchbay.usecases.organizations import (
    AuditFilter,
    forget_host_key,
    list_changes,
    list_host_keys,
    list_last_changes,
)

_SECRET_ARGUMENTS = frozenset({"value", "privateKey"})  # of commands that store them

routes = Routes()
_USERS = 50
_LOG_ROWS = 6
_WAITING = 20
_CHANGES = 4  # fields of one entry
CLOUD_ACCOUNT = "builtin:cloud_account"
_VAULT, _POOL = "builtin:cobalt_secure_store", "builtin:static_resource_pool"
_CATALOG = "builtin:shared_instances_catalog"
# Types whose page has a part of its own: what they hold.
_PARTS = {_VAULT: "vault", CLOUD_ACCOUNT: "cloud", _POOL: "pool", _CATALOG: "catalog"}


@routes.get("/console/organizations/{id}/services", query=("type",))
async def list_all(
    request: PageRequest, problem: LaunchbayError | None = None, *, fields: Sequence[Field] | None = None
) -> Response:
    """Show the services, and the form of the chosen type."""
    organization_id, type_id = request.path("id"), request.form.text("type") or request.query("type")
    ask, ctx = request.ask, request.ctx
    request.ask_frame(organization_id)
    users, offered = ask(services.count_users(ctx, organization_id)), ask(_offered(request, organization_id))
    host_keys, asked = ask(_host_keys(request, organization_id)), ask(services.list_services(ctx, organization_id))
    types = await services.list_service_types(ctx, organization_id)
    readers = ask(count_readers(ctx, organization_id))
    rows = await asked
    chosen = next((kind for kind in types if kind.id == type_id), None)
    if fields is None:
        fields = _fields({} if chosen is None else chosen.parameters)
    return await request.page(
        "services.html",
        section="services",
        organization_id=organization_id,
        problem=problem,
        rows=rows,
        changed=request.ask(list_last_changes(request.ctx, organization_id, [row.id for row in rows])),
        users={**await users, **await readers},
        offered=await offered,
        host_keys=await host_keys,
        types=types,
        type_names={kind.id: kind.name for kind in types},
        chosen=chosen,
        fields=fields,
        name=request.form.text("name"),
    )


async def _offered(request: PageRequest, organization_id: str) -> dict[str, list[tuple[str, str]]]:
    """Return the environments that offer each service, by its ID."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in await list_contents(request.ctx, organization_id):
        for service_id in msgspec.json.decode(row.services, type=list[str]):
            found.setdefault(service_id, []).append((row.id, row.name))
    return found


async def _host_keys(request: PageRequest, organization_id: str) -> list[tuple[HostKeyRow, str]]:
    """Return the pinned keys with their fingerprints, for who may forget them."""
    if not (await request.permissions(organization_id)).forget_host_keys():
        return []
    return [(row, fingerprint(row.public_key)) for row in await list_host_keys(request.ctx, organization_id)]


@routes.post("/console/organizations/{id}/hostKeys/forget", again=list_all)
async def forget_key(request: PageRequest) -> Response:
    """Forget the key of a host: the next one that it shows is pinned."""
    host = request.form.text("host")
    await forget_host_key(request.ctx, request.path("id"), host)
    target = f"{HOME}/organizations/{request.path('id')}/services#host-keys"
    return request.redirect(target, f"The key of {host} is forgotten.")


@routes.post("/console/organizations/{id}/services")
async def create(request: PageRequest) -> Response:
    form, type_id = request.form, request.form.text("type")
    kind = request.app.service_types.find(type_id)
    fields = fill_fields(_fields({} if kind is None else kind.parameters), form, PARAMETER)
    problem: LaunchbayError = BadRequest(FIX_FIELDS)
    try:
        if not any(field.error for field in fields):
            created = await services.create_service(
                request.ctx,
                request.path("id"),
                name=form.text("name"),
                type_id=type_id,
                zone_id=None,
                parameters=values(fields),
            )
            return request.redirect(
                f"{HOME}/services/{created}", "Service created. Offer it in an environment to use it."
            )
    except BadRequest as error:
        fields, rest = with_errors(fields, error.messages)
        problem = BadRequest(*rest, field=error.field) if rest else problem
    return await list_all(request, problem, fields=fields)


@routes.get("/console/services/{id}", query=("do",))
async def show(
    request: PageRequest,
    problem: LaunchbayError | None = None,
    *,
    fields: Sequence[Field] | None = None,
    ran: str = "",
    results: Mapping[str, Any] | None = None,
    arguments: Sequence[Field] | None = None,
    impact: Impact | None = None,
    tested: ProviderTest | None = None,
) -> Response:
    """Show a service: what it holds, who uses it, and its forms."""
    view = await services.read_service(request.ctx, request.path("id"))
    kind = request.app.service_types.find(view.record.type_id)
    known: Mapping[str, ServiceCommand] = {} if kind is None else kind.commands
    commands = {
        name: (command, arguments if arguments is not None and name == ran else _fields(command.arguments))
        for name, command in known.items()
        if not command.secret_results  # revealed with a reason instead
    }
    organization_id = view.record.organization_id
    permissions = await request.permissions(organization_id)
    ask, ctx = request.ask, request.ctx
    request.ask_frame(organization_id)
    asked_users = ask(services.list_users(ctx, view.record.id, _USERS + 1))
    asked_kept = ask(secrets.list_service_secrets(ctx, view.record.id))
    users, offered = ask(services.count_users(ctx, organization_id)), ask(_offered(request, organization_id))
    resources = ask(services.list_resources(ctx, view.record.id))
    waiting = ask(services.list_waiting(ctx, view.record.id, _WAITING))
    catalog = ask(services.read_catalog(ctx, view.record.id))
    is_provider = isinstance(kind, SecretProvider)
    use = await read_use(ctx, view.record.id) if is_provider else None
    readers = ask(count_readers(ctx, organization_id)) if is_provider else None
    applications = await list_applications(ctx, organization_id) if is_provider else []
    log: list[AuditRow] = []
    people: Mapping[str, str] = {}
    if permissions.view_audit():
        log, people = await read_audit_page(
            request.ctx, organization_id, AuditFilter(about=view.record.id), before=None, count=_LOG_ROWS
        )
    instances, kept = await asked_users, await asked_kept
    return await request.page(
        "service.html",
        section="services",
        organization_id=view.record.organization_id,
        problem=problem,
        view=view,
        seen=request.seen(f"/{view.record.id}", _stored(view, {} if kind is None else kind.parameters)),
        users={**await users, **({} if readers is None else await readers)}.get(view.record.id, 0),
        offered=(await offered).get(view.record.id, []),
        resources=await resources,
        waiting=await waiting,
        catalog=await catalog,
        instances=instances[:_USERS],
        more_instances=len(instances) > _USERS,
        kept=kept.secrets,
        key_pairs=[(row, fingerprint(row.public_key or "")) for row in kept.key_pairs],
        part="provider" if is_provider else _PARTS.get(view.record.type_id, ""),
        provider_use=use,
        provider_test=tested,
        tested_paths=request.form.text("paths"),
        applications=[(row.id, row.name) for row in applications],
        running=await _shareable(request, organization_id) if view.record.type_id == _CATALOG else [],
        log=[(row, actor_name(row, people), *_noted(row, people)) for row in log],
        impact=impact,
        impact_groups=[] if impact is None else groups_of(impact),
        name=request.form.text("name", view.name),
        fields=_fields({} if kind is None else kind.parameters, view.parameters) if fields is None else fields,
        commands=commands,
        ran=ran,
        opened=ran or request.query("do"),
        results=results,
    )


@routes.post("/console/services/{id}")
async def update(request: PageRequest) -> Response:
    """Change name and parameters. An empty field removes its parameter, but keeps a secret."""
    view = await services.read_service(request.ctx, request.path("id"))
    kind = request.app.service_types.find(view.record.type_id)
    declared = {} if kind is None else kind.parameters
    fields = fill_fields(_fields(declared, view.parameters), request.form, PARAMETER)
    problem: LaunchbayError = BadRequest(FIX_FIELDS)
    try:
        if not any(field.error for field in fields):
            changed: dict[str, Any] = dict(values(fields))
            changed |= {field.name: None for field in fields if field.name not in changed and not field.is_kept}
            name = request.form.text("name")
            if request.form.text("do") == "preview":
                impact = await impact_of_service(request.ctx, view.record.id, changed)
                return await show(request, fields=fields, impact=impact)
            async with request.unless_changed("services", view.record.id, partial(_read, request, declared)):
                await services.update_service(request.ctx, view.record.id, name, changed)
            return request.redirect(f"{HOME}/services/{view.record.id}", "Service saved.")
    except (FieldErrors, BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.messages)
        problem = BadRequest(*rest, field=error.field) if rest else problem
    return await show(request, problem, fields=fields)


async def _read(request: PageRequest, declared: Mapping[str, ServiceParameter]) -> dict[str, str]:
    return _stored(await services.read_service(request.ctx, request.path("id")), declared)


def _stored(view: services.ServiceView, declared: Mapping[str, ServiceParameter]) -> dict[str, str]:
    """Return what the form shows, by its fields; secrets are not in it."""
    return {
        "name": view.name,
        **{f"{PARAMETER}{field.name}": field.value for field in _fields(declared, view.parameters)},
    }


@routes.post("/console/services/{id}/command")
async def run(request: PageRequest) -> Response:
    view = await services.read_service(request.ctx, request.path("id"))
    name = request.form.text("command")
    kind = request.app.service_types.find(view.record.type_id)
    command = None if kind is None else kind.commands.get(name)
    fields = fill_fields(_fields({} if command is None else command.arguments), request.form, f"{ARGUMENT}{name}:")
    problem: LaunchbayError = BadRequest(FIX_FIELDS)
    try:
        if not any(field.error for field in fields):
            results = await services.run_command(
                request.ctx, view.record.id, name, values(fields), include_intermediate=False
            )
            return await show(request, ran=name, results=results[-1])
    except (FieldErrors, BadRequest, Conflict) as error:
        fields, rest = with_errors(fields, error.messages)
        problem = BadRequest(*rest, field=error.field) if rest else problem
    return await show(request, problem, ran=name, arguments=fields)


@routes.post("/console/services/{id}/test", again=show, refusals=(BadRequest, Conflict))
async def test(request: PageRequest) -> Response:
    """Test a provider of secrets."""
    form = request.form
    paths = [line.strip() for line in form.text("paths").splitlines() if line.strip()]
    found = await try_provider(
        request.ctx, request.path("id"), form.text("environment"), paths, form.text("application") or None
    )
    return await show(request, tested=found)


@routes.post("/console/services/{id}/delete", again=show, refusals=(BadRequest, Conflict))
async def delete(request: PageRequest) -> Response:
    view = await services.read_service(request.ctx, request.path("id"))
    await services.delete_service(request.ctx, view.record.id)
    target = f"{HOME}/organizations/{view.record.organization_id}/services"
    return request.redirect(target, f"Service {view.name} deleted.")


def _noted(row: AuditRow, names: Mapping[str, str]) -> tuple[str, str]:
    """Return an entry of the audit log in words, and its reason or what it changed."""
    after: Mapping[str, Any] = msgspec.json.decode(row.after or "{}", type=dict[str, Any])
    if row.operation == "reveal_service_secret":
        return f"revealed {after.get('name')}", str(after.get("reason", ""))
    if row.operation == "run_service_command":
        return f"ran {after.get('command')}", ""
    if row.operation == "update_service":
        changes = list_changes(row.before, row.after)
        return "changed it", "; ".join(change_words(each, names) for each in changes[:_CHANGES])
    return {"create_service": "created it"}.get(row.operation, row.operation.replace("_", " ")), ""


async def _shareable(request: PageRequest, organization_id: str) -> Sequence[FleetRow]:
    """Return running instances that could be shared."""
    wanted = InstanceFilter(statuses=[InstanceStatus.RUNNING])
    page = await list_instances(request.ctx, organization_id, wanted, sort="-created", after=None, count=_USERS)
    return page.rows


def _fields(
    declared: Mapping[str, ServiceParameter] | Mapping[str, CommandArgument], given: Mapping[str, Any] | None = None
) -> list[Field]:
    given = given or {}
    fields: list[Field] = []
    for name, parameter in declared.items():
        is_sealed = parameter.secret if isinstance(parameter, ServiceParameter) else name in _SECRET_ARGUMENTS
        is_kept = is_sealed and name in given
        value = given.get(name)
        is_shown = name in given and not is_kept and value != REDACTED
        fields.append(
            Field(
                name=name,
                label=name,
                declared=parameter.type,
                required=parameter.required and not (isinstance(parameter, ServiceParameter) and parameter.unless),
                description=parameter.description,
                suggestions={each: each for each in parameter.choices}
                if isinstance(parameter, ServiceParameter)
                else {},
                value=field_text(value) if is_shown else "",
                given=(value,) if is_shown else (),
                is_kept=is_kept,
                is_sealed=is_sealed,
            )
        )
    return fields
