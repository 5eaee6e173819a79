"""Environments: policies, markers, properties, services, the default one (reference §4, Environments)."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.audit import Document
from launchbay.auth.permissions import Actor, Permission
from launchbay.egress.addresses import ALLOW_POLICY, policy_problem
from launchbay.errors import BadRequest, Conflict, NotAllowed
from launchbay.ids import new_id
from launchbay.manifest.policies import read_policies, write_policies
from launchbay.model.environment import Marker, Property, checked_markers, checked_properties
from launchbay.model.instance import InstanceStatus
from launchbay.store import environments as store
from launchbay.store.database import Connection, refuse_duplicate
from launchbay.store.environments import Environment, EnvironmentRow, OfferedInstance, OfferedService
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Desk, checked_name, named_in_body

_SUFFIX_CHARS = 6


class Clone(NamedTuple):
    """What a clone became."""

    id: str
    name: str


async def list_environments(desk: Desk, actor: Actor, organization_id: str) -> list[EnvironmentRow]:
    """Return the environments of an organization that the caller may read, by name."""
    async with desk.database.connection() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
        rows = await store.of_organization(connection, organization_id=organization.id)
    return [row for row in rows if lookup.allows(organization.id, Permission.READ, permissions.environment(row.id))]


async def create_environment(desk: Desk, actor: Actor, organization_id: str, name: str) -> str:
    """Create an empty environment and return its id. Raises BadRequest for a name that is bad or taken."""
    environment_id = new_id()
    async with desk.database.transaction() as connection:
        organization = await desk.lookups.on(connection, actor).organization(
            organization_id, Permission.CREATE_ENVIRONMENT, permissions.environment(environment_id)
        )
        name = checked_name(name)
        with refuse_duplicate(*_taken(name)):
            await store.insert(
                connection,
                environment_id=environment_id,
                organization_id=organization.id,
                name=name,
                is_default=False,
            )
        after = {"name": name}
        await _record(desk, connection, actor, "create_environment", (environment_id, organization.id), after=after)
    return environment_id


async def rename_environment(desk: Desk, actor: Actor, environment_id: str, name: str) -> None:
    """Give an environment another name. Raises BadRequest for a name that is bad or taken."""
    async with desk.database.transaction() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.EDIT_ENVIRONMENT)
        name = checked_name(name)
        with refuse_duplicate(*_taken(name)):
            await store.rename(connection, environment_id=environment.id, name=name)
        before, after = {"name": environment.name}, {"name": name}
        await _record(desk, connection, actor, "rename_environment", _key(environment), before, after)


async def clone_environment(desk: Desk, actor: Actor, environment_id: str, name: str | None) -> Clone:
    """Copy an environment with everything that it offers; without a name one is generated.

    Raises BadRequest for a name that is bad or taken.
    """
    clone_id = new_id()
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        source = await lookup.environment(environment_id, Permission.READ)
        lookup.require(source.organization_id, Permission.CREATE_ENVIRONMENT, permissions.environment(clone_id))
        if name is not None:
            candidates = [checked_name(name)]
        else:
            stem = source.name[: limits.NAME_CHARS - len(clone_id) - 1]
            candidates = [f"{stem} {clone_id[-_SUFFIX_CHARS:]}", f"{stem} {clone_id}"]
        for candidate in candidates:
            if await store.clone(connection, environment_id=clone_id, source_id=source.id, name=candidate) is not None:
                key, after = (clone_id, source.organization_id), {"name": candidate, "source": source.id}
                await _record(desk, connection, actor, "clone_environment", key, after=after)
                return Clone(clone_id, candidate)
    sentence, code = _taken(candidates[0])
    raise BadRequest(sentence, code=code)


async def delete_environment(desk: Desk, actor: Actor, environment_id: str) -> None:
    """Delete an environment. Raises BadRequest for the default one, and for one with instances of whatever status."""
    async with desk.database.transaction() as connection:
        environment = await desk.lookups.on(connection, actor).environment(
            environment_id, Permission.DELETE_ENVIRONMENT
        )
        is_default = await store.lock(connection, environment_id=environment.id)
        if is_default:
            raise BadRequest(
                "The default environment cannot be deleted; make another one the default first.",
                code="DefaultEnvironment",
            )
        count = await store.instance_count(connection, environment_id=environment.id) or 0
        if count:
            raise BadRequest(
                f"The environment {environment.name!r} has instances ({count}); delete them first.",
                "Destroyed instances count too, until they are deleted.",
                code="EnvironmentInUse",
            )
        await store.delete(connection, environment_id=environment.id)
        before = {"name": environment.name}
        await _record(desk, connection, actor, "delete_environment", _key(environment), before)


async def set_default_environment(desk: Desk, actor: Actor, organization_id: str, environment_id: str) -> None:
    """Make an environment the one that launches without an environment go to."""
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        organization = await lookup.organization(organization_id)
        with named_in_body("environmentId"):
            environment = await lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        if environment.organization_id != organization.id:
            raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
        await store.lock_defaults(connection, organization_id=organization.id)
        before = {"default": await store.default_id(connection, organization_id=organization.id)}
        await store.clear_default(connection, organization_id=organization.id)
        if await store.make_default(connection, environment_id=environment.id) == 0:
            raise Conflict("The environment was deleted at the same moment; choose another one.")
        after = {"default": environment.id}
        await _record(desk, connection, actor, "set_default_environment", _key(environment), before, after)


async def read_policies_document(desk: Desk, actor: Actor, environment_id: str) -> str:
    """Return the policies as the YAML document that an import takes."""
    async with desk.database.connection() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.READ)
    return write_policies(msgspec.json.decode(environment.policies))


async def replace_policies(desk: Desk, actor: Actor, environment_id: str, document: str) -> None:
    """Replace all policies by those of a YAML document. Raises BadRequest with line and column of what is wrong."""
    async with desk.database.transaction() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.EDIT_ENVIRONMENT)
        policies = read_policies(document)
        problem = policy_problem(str(policies.get(ALLOW_POLICY, "")))
        if problem is not None:
            raise BadRequest(f"The policy {ALLOW_POLICY!r}: {problem}", code="InvalidPolicies")
        text = msgspec.json.encode(policies).decode()
        await store.set_policies(connection, environment_id=environment.id, policies=text)
        before = {"policies": desk.audit.fingerprints(msgspec.json.decode(environment.policies))}
        after = {"policies": desk.audit.fingerprints(policies)}
        await _record(desk, connection, actor, "replace_policies", _key(environment), before, after)


async def read_markers(desk: Desk, actor: Actor, environment_id: str) -> list[Marker]:
    """Return the markers in the order in which they were given."""
    async with desk.database.connection() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.READ)
    return msgspec.json.decode(environment.markers, type=list[Marker])


async def replace_markers(desk: Desk, actor: Actor, environment_id: str, markers: Sequence[Marker]) -> None:
    """Replace all markers. Raises BadRequest for bad or repeated names."""
    async with desk.database.transaction() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.EDIT_ENVIRONMENT)
        text = msgspec.json.encode(checked_markers(markers)).decode()
        await store.set_markers(connection, environment_id=environment.id, markers=text)
        before = {"markers": msgspec.json.decode(environment.markers)}
        after = {"markers": msgspec.json.decode(text)}
        await _record(desk, connection, actor, "replace_markers", _key(environment), before, after)


async def read_properties(desk: Desk, actor: Actor, environment_id: str) -> list[Property]:
    """Return the properties in the order in which they were given."""
    async with desk.database.connection() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.READ)
    return msgspec.json.decode(environment.properties, type=list[Property])


async def replace_properties(desk: Desk, actor: Actor, environment_id: str, properties: Sequence[Property]) -> None:
    """Replace all properties. Raises BadRequest for bad or repeated names, unknown types and values that do not fit."""
    async with desk.database.transaction() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.EDIT_ENVIRONMENT)
        checked = checked_properties(properties)
        text = msgspec.json.encode(checked).decode()
        await store.set_properties(connection, environment_id=environment.id, properties=text)
        old = msgspec.json.decode(environment.properties, type=list[Property])
        before, after = ({"properties": _fingerprints(desk, entries)} for entries in (old, checked))
        await _record(desk, connection, actor, "replace_properties", _key(environment), before, after)


async def read_services(desk: Desk, actor: Actor, environment_id: str) -> list[OfferedService]:
    """Return the services that an environment offers, by name."""
    async with desk.database.connection() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.READ)
        return await store.services(connection, environment_id=environment.id)


async def replace_services(desk: Desk, actor: Actor, environment_id: str, service_ids: Sequence[str]) -> None:
    """Make an environment offer exactly these services of its organization.

    The permission is for the environment together with each service that comes or goes. Raises BadRequest naming the
    ids that are no services of the organization.
    """
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        environment = await lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        wanted = set(service_ids)
        if len(wanted) > limits.ENVIRONMENT_ENTRIES:
            raise BadRequest(f"An environment offers at most {limits.ENVIRONMENT_ENTRIES} services.", code="TooMany")
        await store.lock_services(connection, environment_id=environment.id)
        known = await store.known_services(
            connection, organization_id=environment.organization_id, service_ids=list(wanted)
        )
        unknown = sorted(wanted - {row.id for row in known})
        if unknown:
            shown = ", ".join(repr(service_id[:40]) for service_id in unknown[:20])
            raise BadRequest(
                f"The organization has no service with the id {shown}.",
                "GET organizations/{id}/services lists those that it has.",
                code="UnknownId",
            )
        offered = {row.id for row in await store.services(connection, environment_id=environment.id)}
        for service_id in sorted(wanted ^ offered):
            lookup.require(
                environment.organization_id,
                Permission.EDIT_ENVIRONMENT,
                permissions.environment(environment.id),
                permissions.service(service_id),
            )
        await store.remove_services(connection, environment_id=environment.id, service_ids=sorted(offered - wanted))
        await store.add_services(connection, environment_id=environment.id, service_ids=sorted(wanted - offered))
        before, after = {"services": sorted(offered)}, {"services": sorted(wanted)}
        await _record(desk, connection, actor, "replace_environment_services", _key(environment), before, after)


def _key(environment: Environment) -> tuple[str, str]:
    return environment.id, environment.organization_id


def _fingerprints(desk: Desk, properties: Sequence[Property]) -> dict[str, str]:
    return desk.audit.fingerprints({entry.name: entry.value for entry in properties})


async def _record(
    desk: Desk,
    connection: Connection,
    actor: Actor,
    operation: str,
    key: tuple[str, str],
    before: Document | None = None,
    after: Document | None = None,
) -> None:
    """Write a change of an environment into the audit log; `key` is its id and its organization's."""
    environment_id, organization_id = key
    await desk.audit.record(
        connection,
        actor,
        operation,
        str(permissions.environment(environment_id)),
        organization_id=organization_id,
        before=before,
        after=after,
    )


def _taken(name: str) -> tuple[str, str]:
    return f"There is an environment named {name!r} already. Choose another name.", "NameTaken"


_OVER = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


async def read_offers(desk: Desk, actor: Actor, instance_id: str) -> list[str]:
    """Return the environments that offer an instance."""
    async with desk.database.connection() as connection:
        record = await desk.lookups.on(connection, actor).instance(instance_id, Permission.READ)
        return [row.id for row in await store.environments_of(connection, instance_id=record.id)]


async def instances_offered(desk: Desk, actor: Actor, environment_id: str) -> list[OfferedInstance]:
    """Return the instances that an environment offers as services, oldest first."""
    async with desk.database.connection() as connection:
        environment = await desk.lookups.on(connection, actor).environment(environment_id, Permission.READ)
        return await store.offered_instances(connection, environment_id=environment.id)


async def replace_offers(desk: Desk, actor: Actor, instance_id: str, environment_ids: Sequence[str]) -> None:
    """Offer an instance in exactly these environments of its organization; one that is offered expires no more.

    The permission is for the instance together with each environment that comes or goes. Those that use the instance
    already keep it until they are reconfigured. Raises BadRequest naming the ids that are no environments, and for an
    instance that is destroyed; NotAllowed for one of a submodule.
    """
    async with desk.database.transaction() as connection:
        lookup = desk.lookups.on(connection, actor)
        record = await lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id} and goes with it; offer that "
                "one, or one of its own.",
                code="SubmoduleInstance",
            )
        wanted = set(environment_ids)
        await _check_environments(connection, record, wanted)
        await _check_instance(connection, record, is_offered=bool(wanted))
        offered = {row.id for row in await store.environments_of(connection, instance_id=record.id)}
        for environment_id in sorted(wanted ^ offered):
            lookup.require(
                record.organization_id,
                Permission.EDIT_ENVIRONMENT,
                permissions.environment(environment_id),
                permissions.instance(record.application_id, record.id),
            )
        await store.withdraw(connection, instance_id=record.id, environment_ids=sorted(offered - wanted))
        if wanted:
            await store.offer(connection, instance_id=record.id, environment_ids=sorted(wanted))
        await desk.audit.record(
            connection,
            actor,
            "replace_instance_environments",
            str(permissions.instance(record.application_id, record.id)),
            organization_id=record.organization_id,
            before={"environments": sorted(offered)},
            after={"environments": sorted(wanted)},
        )


async def _check_environments(connection: Connection, record: InstanceRecord, wanted: set[str]) -> None:
    if len(wanted) > limits.ENVIRONMENT_ENTRIES:
        raise BadRequest(
            f"An instance is offered in at most {limits.ENVIRONMENT_ENTRIES} environments.", code="TooMany"
        )
    known = await store.known_environments(
        connection, organization_id=record.organization_id, environment_ids=sorted(wanted)
    )
    unknown = sorted(wanted - {row.id for row in known})
    if unknown:
        shown = ", ".join(repr(environment_id[:40]) for environment_id in unknown[:20])
        raise BadRequest(
            f"The organization has no environment with the id {shown}.",
            "GET organizations/{id}/environments lists those that it has.",
            code="UnknownId",
        )


async def _check_instance(connection: Connection, record: InstanceRecord, *, is_offered: bool) -> None:
    status = await store.lock_instance(connection, instance_id=record.id)
    if status is None:
        raise Conflict("The instance was deleted at the same moment.")
    if is_offered and InstanceStatus(status) in _OVER:
        raise BadRequest(f"The instance is {status}; it cannot be offered any more.", code="InstanceDestroyed")
