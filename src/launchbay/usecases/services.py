"""Service instances: what there is, what it takes, what can be done with it (reference §4, Service instances)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.auth import permissions
from launchbay.auth.audit import Document
from launchbay.auth.lookup import Lookup
from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import BadRequest, Conflict, FieldErrors
from launchbay.ids import NamedRow, new_id
from launchbay.service_types.contract import MASK, ServiceParameters, ServiceType
from launchbay.service_types.secrets import open_stored, seal_parameters
from launchbay.store import machines
from launchbay.store import services as store
from launchbay.store.database import Connection
from launchbay.store.environments import OfferedService
from launchbay.store.services import Service
from launchbay.usecases.desk import Desk
from launchbay.usecases.names import checked_name
from launchbay.usecases.service_parameters import Change


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service as everybody sees it who may read it: secret parameters are masked."""

    record: Service
    name: str
    type_name: str
    zone_name: str
    interfaces: list[str]
    parameters: dict[str, Any]


async def list_services(desk: Desk, actor: Actor, organization_id: str) -> list[OfferedService]:
    """Return the services of an organization that the caller may read, by name."""
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
        rows = await store.of_organization(connection, organization_id=organization.id)
    return [row for row in rows if lookup.allows(organization.id, Permission.READ, permissions.service(row.id))]


async def list_zones(desk: Desk, actor: Actor, organization_id: str) -> list[NamedRow]:
    """Return the zones of an organization, by name."""
    async with desk.database.connection() as connection:
        organization = await desk.lookups.on(connection, actor).organization(organization_id)
        return await store.zones(connection, organization_id=organization.id)


async def list_service_types(desk: Desk, actor: Actor, organization_id: str) -> list[ServiceType]:
    """Return the types that services can be made of, by id."""
    async with desk.database.connection() as connection:
        await desk.lookups.on(connection, actor).organization(organization_id)
    return desk.service_types.all()


async def create_service(
    desk: Desk,
    actor: Actor,
    organization_id: str,
    *,
    name: str,
    type_id: str,
    zone_id: str | None,
    parameters: Mapping[str, Any],
) -> str:
    """Create a service and return its id.

    Raises BadRequest for a bad name, an unknown type or zone, and everything that is wrong with the parameters.
    """
    service_id = new_id()
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(
            organization_id, Permission.CREATE_SERVICE, permissions.service(service_id)
        )
        name = checked_name(name)
        kind = desk.service_types.find(type_id)
        if kind is None:
            known = ", ".join(known.id for known in desk.service_types.all())
            raise BadRequest(f"There is no service type {type_id[:80]!r}. Types: {known}.", code="UnknownServiceType")
        zone_id = await _zone(connection, organization.id, zone_id)
        try:
            checked = await _change(desk, connection, lookup, organization.id, kind).checked(parameters)
        except FieldErrors as error:
            # Only update and command answer by field (reference §7).
            raise BadRequest(*error.sentences, code="InvalidParameters") from error
        await store.insert(
            connection,
            service_id=service_id,
            organization_id=organization.id,
            zone_id=zone_id,
            name=name,
            type_id=kind.id,
            parameters=_text(checked.open),
        )
        await seal_parameters(desk.secret_key, connection, service_id, checked.secret)
        after = {"name": name, "typeId": kind.id, "parameters": desk.audit.fingerprints(checked.everything())}
        await record(desk, connection, actor, "create_service", (service_id, organization.id), after=after)
    return service_id


async def read_service(desk: Desk, actor: Actor, service_id: str) -> ServiceView:
    """Return a service with its secret parameters masked."""
    async with desk.database.connection() as connection:
        service = await desk.lookups.on(connection, actor).service(service_id, Permission.READ)
        names = [row.name for row in await store.secrets(connection, service_id=service.id)]
        return await _view(desk, connection, service, service.name, msgspec.json.decode(service.parameters), names)


async def update_service(
    desk: Desk, actor: Actor, service_id: str, name: str | None, parameters: Mapping[str, Any] | None
) -> ServiceView:
    """Change a service and return it as it is now: what is not named stays, null takes a parameter away.

    Raises FieldErrors with everything that is wrong, by field.
    """
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        service = await lookup.service(service_id, Permission.EDIT_SERVICE)
        row = await store.lock(connection, service_id=service.id)
        if row is None:
            raise Conflict("The service was deleted at the same moment.")
        old = ServiceParameters(
            msgspec.json.decode(row.parameters), await open_stored(desk.secret_key, connection, service.id)
        )
        problems: dict[str, Sequence[str]] = {}
        new_name, new = row.name, old
        try:
            new_name = row.name if name is None else checked_name(name)
        except BadRequest as error:
            problems["name"] = error.sentences
        try:
            new = await _changed(desk, connection, lookup, service, old, parameters) if parameters else old
        except FieldErrors as error:
            problems.update(error.fields)
        if problems:
            raise FieldErrors(problems)
        await store.update(connection, service_id=service.id, name=new_name, parameters=_text(new.open))
        changed = {key: value for key, value in new.secret.items() if key not in old.secret or old.secret[key] != value}
        await store.delete_secrets_but(connection, service_id=service.id, names=list(new.secret))
        await seal_parameters(desk.secret_key, connection, service.id, changed)
        before = {"name": row.name, "parameters": desk.audit.fingerprints(old.everything())}
        after = {"name": new_name, "parameters": desk.audit.fingerprints(new.everything())}
        await record(desk, connection, actor, "update_service", (service.id, service.organization_id), before, after)
        return await _view(desk, connection, service, new_name, new.open, list(new.secret))


async def delete_service(desk: Desk, actor: Actor, service_id: str) -> None:
    """Delete a service; the environments that offered it offer it no longer.

    Raises BadRequest while instances have machines that could not be taken down without it.
    """
    async with desk.database.transaction() as connection:
        service = await desk.lookups.on(connection, actor).service(service_id, Permission.EDIT_SERVICE)
        users = await machines.users_of_account(connection, account_id=service.id)
        if users:
            named = ", ".join(repr(user.name) for user in users)
            raise BadRequest(
                f"Instances make their machines with the cloud account {service.name!r}: {named}.",
                "Destroy them first: without the account nobody could take their machines down.",
                code="ServiceInUse",
            )
        await store.delete(connection, service_id=service.id)
        before = {"name": service.name, "typeId": service.type_id}
        await record(desk, connection, actor, "delete_service", (service.id, service.organization_id), before)


async def record(
    desk: Desk,
    connection: Connection,
    actor: Actor,
    operation: str,
    key: tuple[str, str],
    before: Document | None = None,
    after: Document | None = None,
) -> None:
    """Write a change of a service into the audit log; `key` is its id and its organization's."""
    service_id, organization_id = key
    await desk.audit.record(
        connection,
        actor,
        operation,
        str(permissions.service(service_id)),
        organization_id=organization_id,
        before=before,
        after=after,
    )


async def _zone(connection: Connection, organization_id: str, wanted: str | None) -> str:
    zones = await store.zones(connection, organization_id=organization_id)
    found = zones[:1] if wanted is None else [zone for zone in zones if zone.id == wanted]
    if not found:
        known = ", ".join(f"{zone.id} ({zone.name})" for zone in zones)
        raise BadRequest(f"The organization has no zone {str(wanted)[:40]!r}. Zones: {known}.", code="UnknownId")
    return found[0].id


async def _view(
    desk: Desk,
    connection: Connection,
    service: Service,
    name: str,
    open_parameters: Mapping[str, Any],
    secret_names: list[str],
) -> ServiceView:
    kind = desk.service_types.find(service.type_id)
    zone_name = await store.zone_name(connection, zone_id=service.zone_id)
    return ServiceView(
        record=service,
        name=name,
        type_name=service.type_id if kind is None else kind.name,
        zone_name=zone_name or "",
        interfaces=[] if kind is None else list(kind.interfaces),
        parameters={**open_parameters, **dict.fromkeys(secret_names, MASK)},
    )


async def _changed(
    desk: Desk,
    connection: Connection,
    lookup: Lookup,
    service: Service,
    old: ServiceParameters,
    given: Mapping[str, Any],
) -> ServiceParameters:
    kind = desk.service_types.find(service.type_id)
    if kind is None:
        raise BadRequest(
            f"The service type {service.type_id} is not installed on this server; its parameters cannot be checked.",
            "Install the package that brings it.",
            code="UnknownServiceType",
        )
    return await _change(desk, connection, lookup, service.organization_id, kind).checked(given, old)


def _change(desk: Desk, connection: Connection, lookup: Lookup, organization_id: str, kind: ServiceType) -> Change:
    return Change(desk=desk, connection=connection, lookup=lookup, organization_id=organization_id, kind=kind)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
