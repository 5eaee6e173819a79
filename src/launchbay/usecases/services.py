"""Services, their parameters and their commands (reference §4, Service instances)."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from launchbay.auth import permissions
from launchbay.auth.audit import record_once
from launchbay.auth.permissions import Permission
from launchbay.auth.secret_key import UnsealFailed
from launchbay.errors import BadRequest, Conflict, FieldErrors
from launchbay.ids import NamedRow, new_id
from launchbay.limits import COMMAND_REPORTS
from launchbay.model.secret_reference import SecretReference, reference_in
from launchbay.planning.arguments import check_size
from launchbay.service_types.builtin import CATALOG, SharedInstances
from launchbay.service_types.contract import (
    REDACTED,
    ParameterScope,
    SecretProvider,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    ServiceParameters,
    ServiceType,
    changed_parameters,
    validate_arguments,
)
from launchbay.service_types.resource_pool import ABANDONED_AFTER_S, ResourcePool, resources_of
from launchbay.service_types.secrets import (
    SECRET_NAME,
    VAULT,
    ServiceSeal,
    is_reference,
    open_secrets,
    open_stored,
    open_values,
    parse_reference,
    provided_reference,
    reference,
    require_stored,
    resolve_references,
    seal_parameters,
)
from launchbay.store import environments, machines
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.environments import OfferedService
from launchbay.store.services import HolderRow, RevisionRow, Service, SharedRow, UserRow
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.places import UNSEEN

_SHOWN = 5
_REVISIONS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterUpdate:
    """A change of a service's parameters.

    The caller's lookup decides which vaults they may name. With `allows_holes`, secrets may be set later, in the
    service or in the vault that a parameter names. What already lacks one may lack it further: only what the request
    changes is checked.
    """

    work: Work
    organization_id: str
    kind: ServiceType
    allows_holes: bool = False

    async def validate(self, given: Mapping[str, Any], stored: ServiceParameters | None = None) -> ServiceParameters:
        """Return the parameters to store; `stored` are those of an existing service.

        Raises FieldErrors with everything that is wrong, by parameter, and NotAllowed for a vault that is not the
        caller's to read.
        """
        old = ServiceParameters() if stored is None else stored
        new = await self._references(given)
        stays = {name for name in old.secret if given.get(name, REDACTED) == REDACTED}
        kept = {name: value for name, value in old.secret.items() if is_reference(value) and name in stays}
        values = await self._values(kept, allows_holes=True) | await self._values(new, allows_holes=self.allows_holes)
        now = ServiceParameters(
            old.open,
            {
                name: values[name] if name in kept else value
                for name, value in old.secret.items()
                if name not in kept or name in values
            },
        )
        scope = ParameterScope(
            connection=self.work.connection,
            organization_id=self.organization_id,
            previous=now.everything(),
            egress=self.work.app.egress.for_environment(self.organization_id),
        )
        wanted = {
            name: values[name] if name in new else value
            for name, value in given.items()
            if name not in kept and (name not in new or name in values)
        }
        holes = {name for name in {**kept, **new} if name not in values}
        required = self._required_secrets({**now.open, **given})
        if self.allows_holes:
            holes |= {name for name in required if name not in now.secret and given.get(name) is None}
        elif stored is not None:
            holes |= {name for name in required if name not in old.secret and name not in given}
        checked = await changed_parameters(self.kind, scope, now, wanted, set_later=holes)
        return ServiceParameters(checked.open, {**checked.secret, **kept, **new})

    def _required_secrets(self, values: Mapping[str, Any]) -> set[str]:
        return {
            name
            for name, parameter in self.kind.parameters.items()
            if parameter.secret and parameter.required and not values.get(parameter.unless)
        }

    async def _references(self, given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """Return the stored form of parameters that refer to vault secrets."""
        found: dict[str, dict[str, str]] = {}
        problems: dict[str, list[str]] = {}
        for name, value in given.items():
            parameter = self.kind.parameters.get(name)
            if parameter is None or not is_reference(value):
                continue
            if not parameter.secret:
                problems[name] = ["This parameter isn't a secret, so it can't refer to a vault. Enter a value."]
                continue
            try:
                secret, wanted = parse_reference(value)
            except ValueError as error:
                problems[name] = [str(error)]
                continue
            vaults = await store.list_vaults_with(
                self.work.connection, organization_id=self.organization_id, name=secret, vault_id=wanted
            )
            if not vaults and wanted and self.allows_holes:
                vault = await self.work.lookup.service(wanted, Permission.RUN_SERVICE_COMMAND)
                if vault.organization_id == self.organization_id:
                    found[name] = reference(vault.id, secret)
                    continue
            if not vaults:
                problems[name] = [f"No vault of the organization has a secret {secret[:80]!r}; set it there first."]
                if wanted is None and (of_provider := reference_in(secret)) is not None:
                    problems[name] = await self._provider_problems(parameter, of_provider)
                    found[name] = {SECRET_NAME: secret}
            elif len(vaults) > 1:
                known = ", ".join(f"{each.id} ({each.name})" for each in vaults[:_SHOWN])
                problems[name] = [f"Several vaults have a secret {secret[:80]!r}; name one with `{VAULT}`: {known}."]
            else:
                await self.work.lookup.service(vaults[0].id, Permission.RUN_SERVICE_COMMAND)
                found[name] = reference(vaults[0].id, secret)
        if any(problems.values()):
            raise FieldErrors({name: each for name, each in problems.items() if each})
        return found

    async def _provider_problems(self, parameter: ServiceParameter, wanted: SecretReference) -> list[str]:
        """Return why a parameter can't stand for a secret of a provider.

        Raises NotAllowed for a provider that is not the caller's to use.
        """
        if parameter.goes_to or isinstance(self.kind, SecretProvider):
            return ["This parameter can't refer to a provider, because its service signs in with it."]
        rows = await store.list_by_organization(self.work.connection, organization_id=self.organization_id)
        providers = [
            each
            for each in rows
            if each.name == wanted.provider
            if isinstance(self.work.app.service_types.find(each.type_id), SecretProvider)
        ]
        for each in providers:
            await self.work.lookup.service(each.id, Permission.RUN_SERVICE_COMMAND)
        known = "No vault of the organization has this secret, and no provider of secrets is named"
        return [] if providers else [f"{known} {wanted.provider[:80]!r}."]

    async def _values(self, references: Mapping[str, Any], *, allows_holes: bool) -> dict[str, Any]:
        values: dict[str, Any] = {}
        problems: dict[str, list[str]] = {}
        for name, value in references.items():
            if provided_reference(value) is not None:
                continue
            try:
                values |= await resolve_references(self.work.app.secret_key, self.work.connection, {name: value})
            except Conflict as gone:
                if not allows_holes:
                    problems[name] = list(gone.messages)
        if problems:
            raise FieldErrors(problems)
        return values


async def fingerprints(work: Work, service_ids: Sequence[str]) -> dict[str, str]:
    """Return by ID what tells whether a service was replaced.

    That is its type, parameters and secrets. A secret of a vault that a parameter stands for counts with its value.
    """
    found = {}
    for row in await environments.list_bound_services(work.connection, service_ids=list(service_ids)):
        try:
            secrets = await open_secrets(work.app.secret_key, work.connection, row.id)
        except (Conflict, UnsealFailed) as error:
            secrets = {"": str(error)}
        found[row.id] = work.fingerprint([row.id, row.type_id, msgspec.json.decode(row.parameters), secrets])
    return found


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service as everybody sees it who may read it: secret parameters are masked."""

    record: Service
    name: str
    type_name: str
    zone_name: str
    interfaces: list[str]
    parameters: dict[str, Any]


async def list_services(ctx: Context, organization_id: str) -> list[OfferedService]:
    """Return the services of an organization that the caller may read, by name."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_organization(work.connection, organization_id=organization_id)
    return await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.service)


async def count_users(ctx: Context, organization_id: str) -> dict[str, int]:
    """Return how many instances use each service, by ID, where some do."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.count_users(work.connection, organization_id=organization_id)
    return {row.id: row.users for row in rows}


async def list_users(ctx: Context, service_id: str, count: int) -> list[UserRow]:
    """Return some readable instances that use a service, by name."""
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        rows = await store.list_users(work.connection, service_id=service.id, count=count)
        return [row for row in rows if _may_read(work, service.organization_id, row)]


class SharedEntry(NamedTuple):
    """An entry of a catalog. What is gone or hidden is None."""

    revision_id: str
    instance_id: str
    revision: RevisionRow | None
    instance: SharedRow | None


class Catalog(NamedTuple):
    """A catalog of shared instances, and the revisions that others can be shared under."""

    entries: list[SharedEntry]
    revisions: list[RevisionRow]


async def read_catalog(ctx: Context, service_id: str) -> Catalog | None:
    """Return the entries of a catalog; None for another service."""
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        if service.type_id != SharedInstances.id:
            return None
        organization_id = service.organization_id
        shared: Mapping[str, str] = msgspec.json.decode(service.parameters).get(CATALOG) or {}
        instances = await store.list_shared(work.connection, organization_id=organization_id, ids=list(shared.values()))
        revisions = await store.list_revisions(
            work.connection, organization_id=organization_id, ids=list(shared), count=_REVISIONS
        )
        by_id = {row.id: row for row in instances if _may_read(work, organization_id, row)}
        known = {
            row.id: row
            for row in revisions
            if work.lookup.allows(organization_id, Permission.READ, permissions.application(row.application_id))
        }
    entries = [
        SharedEntry(revision, instance, known.get(revision), by_id.get(instance))
        for revision, instance in shared.items()
    ]
    return Catalog(entries, list(known.values()))


def _may_read(work: Work, organization_id: str, row: UserRow | SharedRow | HolderRow) -> bool:
    at = (permissions.instance(row.application_id, row.id), permissions.environment(row.environment_id))
    return work.lookup.allows(organization_id, Permission.READ, *at)


class PoolResource(NamedTuple):
    """A resource of a pool, and who holds it since when.

    `holder` is None for a free one, and the instance for a holder that isn't an instance. `is_known` is false for a
    resource that the pool no longer has.
    """

    id: str
    holder: str | None
    instance_id: str | None
    since: datetime | None
    is_known: bool


async def list_resources(ctx: Context, service_id: str) -> list[PoolResource] | None:
    """Return the resources of a pool with their holders; None for another service."""
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        if service.type_id != ResourcePool.id:
            return None
        rows = await store.list_acquired(work.connection, service_id=service.id)
        held = {row.resource_id: row for row in rows if row.holder is not None}
        holders = await _holders(work, service, [row.holder or "" for row in held.values()])
    known = resources_of(msgspec.json.decode(service.parameters))
    found: list[PoolResource] = []
    for resource_id in dict.fromkeys([*known, *held]):
        row = held.get(resource_id)
        if row is None or row.holder is None:
            found.append(PoolResource(resource_id, None, None, None, is_known=True))
            continue
        holder = holders[row.holder]
        is_known = resource_id in known
        found.append(PoolResource(resource_id, holder.name, holder.instance_id, row.changed_at, is_known=is_known))
    return found


class Holder(NamedTuple):
    """Who has a resource of a pool, or waits for one.

    `name` is that of the instance, or any text. Without an ID there is no such instance, or the caller may not read it.
    """

    name: str
    instance_id: str | None


async def _holders(work: Work, service: Service, texts: Sequence[str]) -> dict[str, Holder]:
    """Return holders by their texts, which begin with the ID of an instance."""
    owners = {text: text.partition(":")[0] for text in texts}
    ids = sorted(set(owners.values()))
    named = await store.list_instance_names(work.connection, organization_id=service.organization_id, ids=ids)
    shown = {
        row.id: Holder(row.name, row.id) if _may_read(work, service.organization_id, row) else Holder(UNSEEN, None)
        for row in named
    }
    return {text: shown.get(owner) or Holder(text, None) for text, owner in owners.items()}


async def list_waiting(ctx: Context, service_id: str, count: int) -> list[Holder]:
    """Return the first who wait for a resource of a pool, in order."""
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        waiting = await store.list_waiting(
            work.connection, service_id=service.id, silent_s=ABANDONED_AFTER_S, count=count
        )
        holders = await _holders(work, service, waiting)
    return [holders[text] for text in waiting]


async def list_zones(ctx: Context, organization_id: str) -> list[NamedRow]:
    """Return the zones of an organization, by name."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await store.list_zones(work.connection, organization_id=organization_id)


async def list_service_types(ctx: Context, organization_id: str) -> list[ServiceType]:
    """Return the types that services can be made of, by id."""
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
    return ctx.app.service_types.all()


async def create_service(
    ctx: Context,
    organization_id: str,
    *,
    name: str,
    type_id: str,
    zone_id: str | None,
    parameters: Mapping[str, Any],
    allows_holes: bool = False,
) -> str:
    """Create a service and return its id.

    With `allows_holes`, its secrets may be set later. Raises BadRequest for a bad name, an unknown type or zone, and
    everything that is wrong with the parameters.
    """
    service_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.CREATE_SERVICE, permissions.service(service_id)
        )
        name = validate_name(name)
        kind = ctx.app.service_types.find(type_id)
        if kind is None:
            known = ", ".join(known.id for known in ctx.app.service_types.all())
            raise BadRequest(f"There is no service type {type_id[:80]!r}. Types: {known}.", code="UnknownServiceType")
        zone_id = await _zone(work, organization.id, zone_id)
        try:
            check_size(parameters)
            update = ParameterUpdate(work=work, organization_id=organization.id, kind=kind, allows_holes=allows_holes)
            checked = await update.validate(parameters)
        except FieldErrors as error:
            # Only update and command answer by field (reference §7).
            raise BadRequest(*error.messages, code="InvalidParameters") from error
        await store.insert(
            work.connection,
            service_id=service_id,
            organization_id=organization.id,
            zone_id=zone_id,
            name=name,
            type_id=kind.id,
            parameters=msgspec.json.encode(checked.open).decode(),
        )
        await seal_parameters(ctx.app.secret_key, work.connection, service_id, checked.secret)
        after = {"name": name, "typeId": kind.id, "parameters": work.fingerprints(checked.everything())}
        await work.audit("create_service", organization, after=after, at=permissions.service(service_id))
    return service_id


async def read_service(ctx: Context, service_id: str) -> ServiceView:
    """Return a service with its secret parameters masked."""
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.READ)
        names = [row.name for row in await store.list_secrets(work.connection, service_id=service.id)]
        return await _view(work, service, service.name, msgspec.json.decode(service.parameters), names)


class DescribedService(NamedTuple):
    """A service as files describe it.

    `references` has by name what secret parameters refer to, or None. `entries` are kinds and names of what a vault
    keeps.
    """

    id: str
    name: str
    type_id: str
    parameters: dict[str, Any]
    references: dict[str, Mapping[str, str] | None]
    entries: list[tuple[str, str]]


async def describe_services(ctx: Context, organization_id: str) -> list[DescribedService]:
    """Return the services that the caller may read, by name.

    Who may not edit a service sees no reference, and who may not run its commands no entry.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_full(work.connection, organization_id=organization_id)
        secrets = await store.list_all_secrets(work.connection, organization_id=organization_id)
        entries = await store.list_all_entries(work.connection, organization_id=organization_id)
    sealed: dict[str, dict[str, bytes]] = {}
    for secret in secrets:
        sealed.setdefault(secret.service_id, {})[secret.name] = secret.sealed
    kept: dict[str, list[tuple[str, str]]] = {}
    for entry in entries:
        kept.setdefault(entry.service_id, []).append((entry.kind, entry.name))
    found = []
    for row in await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.service):
        at, closed = permissions.service(row.id), sealed.get(row.id, {})
        opened: Mapping[str, Any] = {}
        if work.lookup.allows(organization_id, Permission.EDIT_SERVICE, at):
            with suppress(UnsealFailed):
                opened = open_values(work.app.secret_key, row.id, closed)
        found.append(
            DescribedService(
                row.id,
                row.name,
                row.type_id,
                {name: each for name, each in msgspec.json.decode(row.parameters).items() if name not in closed},
                {name: opened[name] if is_reference(opened.get(name)) else None for name in closed},
                kept.get(row.id, []) if work.lookup.allows(organization_id, Permission.RUN_SERVICE_COMMAND, at) else [],
            )
        )
    return found


async def update_service(
    ctx: Context,
    service_id: str,
    name: str | None,
    parameters: Mapping[str, Any] | None,
    *,
    allows_holes: bool = False,
) -> ServiceView:
    """Change the given parameters of a service, and return it; null removes one.

    With `allows_holes`, its secrets may be set later.
    Raises FieldErrors with everything that is wrong, by field.
    """
    async with ctx.begin() as work:
        service = await work.lookup.service(service_id, Permission.EDIT_SERVICE)
        row = await store.lock(work.connection, service_id=service.id)
        if row is None:
            raise Conflict("The service was deleted by another request.")
        old = ServiceParameters(
            msgspec.json.decode(row.parameters), await open_stored(ctx.app.secret_key, work.connection, service.id)
        )
        problems: dict[str, Sequence[str]] = {}
        new_name, new = row.name, old
        try:
            new_name = row.name if name is None else validate_name(name)
        except BadRequest as error:
            problems["name"] = error.messages
        try:
            new = await _changed(work, service, old, parameters, allows_holes) if parameters else old
        except FieldErrors as error:
            problems.update(error.fields)
        if problems:
            raise FieldErrors(problems)
        await store.update(
            work.connection, service_id=service.id, name=new_name, parameters=msgspec.json.encode(new.open).decode()
        )
        changed = {key: value for key, value in new.secret.items() if key not in old.secret or old.secret[key] != value}
        await store.delete_secrets_except(work.connection, service_id=service.id, names=list(new.secret))
        await seal_parameters(ctx.app.secret_key, work.connection, service.id, changed)
        before = {"name": row.name, "parameters": work.fingerprints(old.everything())}
        after = {"name": new_name, "parameters": work.fingerprints(new.everything())}
        await work.audit("update_service", service, before, after)
        return await _view(work, service, new_name, new.open, list(new.secret))


async def plan_parameters(work: Work, service: Service, given: Mapping[str, Any]) -> ServiceParameters:
    """Return the parameters that `update_service` would store, with the same errors."""
    secret = await open_stored(work.app.secret_key, work.connection, service.id)
    old = ServiceParameters(msgspec.json.decode(service.parameters), secret)
    return await _changed(work, service, old, given) if given else old


async def delete_service(ctx: Context, service_id: str) -> None:
    """Delete a service; the environments that offered it offer it no longer.

    Raises BadRequest while instances have machines that could not be taken down without it, or read secrets from it.
    """
    async with ctx.begin() as work:
        service = await work.lookup.service(service_id, Permission.EDIT_SERVICE)
        users = await machines.list_users_of_account(work.connection, account_id=service.id)
        if users:
            named = ", ".join(map(repr, users))
            raise BadRequest(
                f"Instances make their machines with the cloud account {service.name!r}: {named}.",
                "Destroy them first: without the account, Launchbay couldn't destroy their machines.",
                code="ServiceInUse",
            )
        readers = await ctx.app.ports.service_users(work, service)
        if readers:
            raise BadRequest(
                f"Secrets of {service.name!r} are used by {', '.join(readers)}.",
                "Remove it from the services of these environments first.",
                code="ServiceInUse",
            )
        await work.decide("delete_service", service, kind="service")  # environments no longer offer it afterwards
        await store.delete(work.connection, service_id=service.id)
        before = {"name": service.name, "typeId": service.type_id}
        await work.audit("delete_service", service, before)


async def _zone(work: Work, organization_id: str, wanted: str | None) -> str:
    zones = await store.list_zones(work.connection, organization_id=organization_id)
    found = zones[:1] if wanted is None else [zone for zone in zones if zone.id == wanted]
    if not found:
        known = ", ".join(f"{zone.id} ({zone.name})" for zone in zones)
        raise BadRequest(f"The organization has no zone {str(wanted)[:40]!r}. Zones: {known}.", code="UnknownId")
    return found[0].id


async def _view(
    work: Work, service: Service, name: str, open_parameters: Mapping[str, Any], secret_names: list[str]
) -> ServiceView:
    kind = work.app.service_types.find(service.type_id)
    zone_name = await store.get_zone_name(work.connection, zone_id=service.zone_id)
    return ServiceView(
        record=service,
        name=name,
        type_name=service.type_id if kind is None else kind.name,
        zone_name=zone_name or "",
        interfaces=[] if kind is None else list(kind.interfaces),
        parameters={**open_parameters, **dict.fromkeys(secret_names, REDACTED)},
    )


async def _changed(
    work: Work,
    service: Service,
    old: ServiceParameters,
    given: Mapping[str, Any],
    allows_holes: bool = False,  # noqa: FBT001, FBT002 - as update_service says
) -> ServiceParameters:
    kind = work.app.service_types.find(service.type_id)
    if kind is None:
        raise BadRequest(
            f"The service type {service.type_id} is not installed on this server; its parameters cannot be checked.",
            "Install the package that provides it.",
            code="UnknownServiceType",
        )
    check_size(given)
    update = ParameterUpdate(work=work, organization_id=service.organization_id, kind=kind, allows_holes=allows_holes)
    new = await update.validate(given, old)
    takers = [name for name, parameter in kind.parameters.items() if parameter.takes_tokens]
    if any(old.open.get(name) != new.open.get(name) for name in takers):
        for environment_id in await store.list_offering(work.connection, service_id=service.id):
            environment = permissions.environment(environment_id)
            work.lookup.require(service.organization_id, Permission.EDIT_ENVIRONMENT, environment)
    return new


_COMMAND_FIELD = "commandname"


async def run_command(
    ctx: Context, service_id: str, command_name: str, arguments: Mapping[str, Any], *, include_intermediate: bool
) -> list[Mapping[str, Any]]:
    """Run a command and return its results, the final one last.

    Its name may have its interface before it: `strategy.get-shared-instance`.
    Raises FieldErrors for an unknown command and for arguments that do not fit, by argument.
    """
    async with ctx.read() as work:
        service = await work.lookup.service(service_id, Permission.RUN_SERVICE_COMMAND)
        kind = ctx.app.service_types.find(service.type_id)
        found = None if kind is None else _find_command(kind, command_name)
        if kind is None or found is None:
            known = ", ".join(kind.commands) if kind is not None and kind.commands else "none"
            raise FieldErrors(
                {_COMMAND_FIELD: [f"This service has no command {command_name[:80]!r}. Commands: {known}."]}
            )
        name, command = found
        check_size(arguments)
        checked = validate_arguments(command, arguments)
        secrets = await open_secrets(ctx.app.secret_key, work.connection, service.id)
        require_stored(secrets)
    database = ctx.app.database
    entry = _entry(ctx, service, name, checked)
    reports: deque[Mapping[str, Any]] = deque(maxlen=COMMAND_REPORTS)
    call = ServiceCall(
        service_id=service.id,
        organization_id=service.organization_id,
        parameters={**msgspec.json.decode(service.parameters), **secrets},
        arguments=checked,
        transaction=record_once(database, entry) if command.changes else database.transaction,
        report=reports.append,
        seal=ServiceSeal(ctx.app.secret_key, service.id),
    )
    # A command is a transaction of its own, or several where it waits in between.
    final = await kind.run(name, call)
    if not include_intermediate:
        return [final]
    # With intermediate results there is more than one item (reference §4): a command that reports none has begun.
    return [*(reports or [{}]), final]


def _find_command(kind: ServiceType, wanted: str) -> tuple[str, ServiceCommand] | None:
    """Return a command with its name."""
    for name, command in kind.commands.items():
        if wanted in {name, f"{command.interface}.{name}"}:
            return name, command
    return None


def _entry(
    ctx: Context, service: Service, command: str, arguments: Mapping[str, Any]
) -> Callable[[Connection], Awaitable[None]]:
    """Return what writes the audit entry of a command."""

    async def write(connection: Connection) -> None:
        work = Work(ctx, connection)
        after = {"command": command, "arguments": work.fingerprints(arguments)}
        if ctx.override is not None:  # which needs the caller's rights
            await work.lookup.service(service.id, Permission.RUN_SERVICE_COMMAND)
        await work.audit("run_service_command", service, after=after)

    return write
