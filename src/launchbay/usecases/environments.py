"""Environments: policies, markers, properties, services, the default one (reference §4, Environments)."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.concurrency import computed
from launchbay.egress.addresses import POLICY_CHECKS
from launchbay.errors import BadRequest, Conflict, NotAllowed
from launchbay.ids import new_id
from launchbay.manifest.policies import PolicyValue, read_policies, write_policies
from launchbay.model.environment import Marker, Property, validate_markers, validate_properties
from launchbay.model.instance import InstanceStatus
from launchbay.model.labels import read_selector
from launchbay.model.values import size_of
from launchbay.store import environments as store
from launchbay.store import instances, organizations, services
from launchbay.store.database import unique_violation_as
from launchbay.store.environments import (
    Environment,
    EnvironmentContents,
    EnvironmentRow,
    OfferedInstance,
    OfferedService,
)
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import AppContext, Context, Work, as_invalid_id, name_taken, validate_name

_NUMBERED_COPIES = 100


class Clone(NamedTuple):
    """What a clone became."""

    id: str
    name: str


async def list_environments(ctx: Context, organization_id: str, labels: str | None = None) -> list[EnvironmentRow]:
    """Return the environments of an organization that the caller may read, by name.

    `labels` is a selector of their labels. Raises BadRequest for a wrong one.
    """
    selector = None if labels is None else read_selector(labels)
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_organization(work.connection, organization_id=organization_id)
        if selector is not None:
            listed = await store.list_labels(work.connection, organization_id=organization_id)
            labels_by_id = {row.id: msgspec.json.decode(row.labels) for row in listed}
            rows = [row for row in rows if selector.fits(labels_by_id.get(row.id, {}))]
    return await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.environment)


async def list_contents(
    ctx: Context, organization_id: str, ids: Sequence[str] | None = None
) -> list[EnvironmentContents]:
    """Return the environments that the caller may read with what they give, by name.

    With `ids`, only those of them.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        wanted = None if ids is None else list(ids)
        rows = await store.list_contents(work.connection, organization_id=organization_id, ids=wanted)
    return await work.lookup.permitted(organization_id, Permission.READ, rows, permissions.environment)


async def create_environment(ctx: Context, organization_id: str, name: str) -> str:
    """Create an empty environment and return its id.

    Raises BadRequest for a name that is bad or taken.
    """
    environment_id = new_id()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(
            organization_id, Permission.CREATE_ENVIRONMENT, permissions.environment(environment_id)
        )
        name = validate_name(name)
        with unique_violation_as(*name_taken("an environment", name)):
            await store.insert(
                work.connection,
                environment_id=environment_id,
                organization_id=organization.id,
                name=name,
                is_default=False,
            )
        after = {"name": name}
        await work.audit("create_environment", organization, after=after, at=permissions.environment(environment_id))
    return environment_id


async def rename_environment(ctx: Context, environment_id: str, name: str) -> None:
    """Give an environment another name.

    Raises BadRequest for a name that is bad or taken.
    """
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        name = validate_name(name)
        await store.lock(work.connection, environment_id=environment.id)
        await work.decide("rename_environment", environment, kind="edit")  # a refusal has the present name
        with unique_violation_as(*name_taken("an environment", name)):
            await store.rename(work.connection, environment_id=environment.id, name=name)
        before, after = {"name": environment.name}, {"name": name}
        await work.audit("rename_environment", environment, before, after)


async def clone_environment(ctx: Context, environment_id: str, name: str | None) -> Clone:
    """Copy an environment with everything that it offers; without a name it is a numbered "Copy of" the source.

    Raises BadRequest for a name that is bad or taken.
    """
    clone_id = new_id()
    async with ctx.begin() as work:
        source = await work.lookup.environment(environment_id, Permission.READ)
        work.lookup.require(source.organization_id, Permission.CREATE_ENVIRONMENT, permissions.environment(clone_id))
        candidates = _copy_names(source.name, clone_id) if name is None else [validate_name(name)]
        for candidate in candidates:
            if await store.clone(work.connection, environment_id=clone_id, source_id=source.id, name=candidate):
                after = {"name": candidate, "source": source.id}
                await work.audit("clone_environment", source, after=after, at=permissions.environment(clone_id))
                return Clone(clone_id, candidate)
    sentence, code, field = name_taken("an environment", candidates[0])
    raise BadRequest(sentence, code=code, field=field)


def _copy_names(name: str, clone_id: str) -> list[str]:
    """Return names to try for a copy; the last one is free."""
    stem = f"Copy of {name}"[: limits.NAME_CHARS - len(clone_id) - 1]
    return [stem, *(f"{stem} ({number})" for number in range(2, _NUMBERED_COPIES)), f"{stem} {clone_id}"]


async def delete_environment(ctx: Context, environment_id: str) -> None:
    """Delete an environment.

    Raises BadRequest for the default one, and for one with instances of whatever status.
    """
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.DELETE_ENVIRONMENT)
        is_default = await store.lock(work.connection, environment_id=environment.id)
        if is_default:
            raise BadRequest(
                "The default environment can't be deleted. Make another one the default first.",
                code="DefaultEnvironment",
            )
        count = await store.count_instances(work.connection, environment_id=environment.id) or 0
        if count:
            raise BadRequest(
                f"The environment {environment.name!r} has instances ({count}); delete them first.",
                "Destroyed instances count too, until they are deleted.",
                code="EnvironmentInUse",
            )
        await work.decide("delete_environment", environment, kind="edit")  # its freeze and rules go with it
        await store.delete(work.connection, environment_id=environment.id)
        before = {"name": environment.name}
        await work.audit("delete_environment", environment, before)


async def set_default_environment(ctx: Context, organization_id: str, environment_id: str) -> None:
    """Make an environment the one that launches without an environment go to."""
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        with as_invalid_id("environmentId"):
            environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        if environment.organization_id != organization.id:
            raise BadRequest("The environment belongs to another organization.", code="ForeignEnvironment")
        await organizations.lock(work.connection, organization_id=organization.id)
        before = {"default": await store.get_default_id(work.connection, organization_id=organization.id)}
        await store.clear_default(work.connection, organization_id=organization.id)
        if await store.make_default(work.connection, environment_id=environment.id) == 0:
            raise Conflict("The environment was deleted by another request. Choose a different one.")
        after = {"default": environment.id}
        await work.audit("set_default_environment", environment, before, after)


async def read_environment(ctx: Context, environment_id: str) -> Environment:
    """Return an environment."""
    async with ctx.read() as work:
        return await work.lookup.environment(environment_id, Permission.READ)


async def read_policies_document(ctx: Context, environment_id: str) -> str:
    """Return the policies as the YAML document that an import takes."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
    return write_policies(msgspec.json.decode(environment.policies))


def validate_policies(document: str) -> dict[str, PolicyValue]:
    """Return the policies of a YAML document.

    Raises BadRequest with line and column of what is wrong.
    """
    return read_policies(document, POLICY_CHECKS)


async def replace_policies(ctx: Context, environment_id: str, document: str) -> None:
    """Replace all policies by those of a YAML document.

    Raises BadRequest with line and column of what is wrong.
    """
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        policies = validate_policies(document)
        text = msgspec.json.encode(policies).decode()
        await store.set_policies(work.connection, environment_id=environment.id, policies=text)
        before = {"policies": work.fingerprints(msgspec.json.decode(environment.policies))}
        after = {"policies": work.fingerprints(policies)}
        await work.audit("replace_policies", environment, before, after)


async def read_markers(ctx: Context, environment_id: str) -> list[Marker]:
    """Return the markers in the order in which they were given."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
    return msgspec.json.decode(environment.markers, type=list[Marker])


async def replace_markers(ctx: Context, environment_id: str, markers: Sequence[Marker]) -> None:
    """Replace all markers. Raises BadRequest for bad or repeated names."""
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        text = msgspec.json.encode(validate_markers(markers)).decode()
        await store.set_markers(work.connection, environment_id=environment.id, markers=text)
        before = {"markers": msgspec.json.decode(environment.markers)}
        after = {"markers": msgspec.json.decode(text)}
        await work.audit("replace_markers", environment, before, after)


async def read_properties(ctx: Context, environment_id: str) -> list[Property]:
    """Return the properties in the order in which they were given."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
    return msgspec.json.decode(environment.properties, type=list[Property])


async def replace_properties(ctx: Context, environment_id: str, properties: Sequence[Property]) -> None:
    """Replace all properties.

    Raises BadRequest for bad or repeated names, unknown types and values that do not fit.
    """
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)

        def checked() -> tuple[str, dict[str, dict[str, str]], dict[str, dict[str, str]]]:
            entries = validate_properties(properties)
            old = msgspec.json.decode(environment.properties, type=list[Property])
            before, after = ({"properties": _fingerprints(ctx.app, each)} for each in (old, entries))
            return msgspec.json.encode(entries).decode(), before, after

        size = size_of([each.value for each in properties], limits.INLINE_BYTES)
        text, before, after = await computed(len(environment.properties) + size, checked)
        await store.set_properties(work.connection, environment_id=environment.id, properties=text)
        await work.audit("replace_properties", environment, before, after)


async def read_services(ctx: Context, environment_id: str) -> list[OfferedService]:
    """Return the services that an environment offers, by name."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        return await store.list_services(work.connection, environment_id=environment.id)


async def plan_services(work: Work, environment: Environment, service_ids: Sequence[str]) -> list[OfferedService]:
    """Return what `replace_services` would make an environment offer, with the same errors."""
    wanted = set(service_ids)
    if len(wanted) > limits.ENVIRONMENT_ENTRIES:
        raise _too_many_services()
    rows = await services.list_by_organization(work.connection, organization_id=environment.organization_id)
    _refuse_unknown("service", wanted.difference(row.id for row in rows))
    offered = {row.id for row in await store.list_services(work.connection, environment_id=environment.id)}
    _require_services(work, environment, wanted ^ offered)
    return [row for row in rows if row.id in wanted]


def _too_many_services() -> BadRequest:
    return BadRequest(f"An environment offers at most {limits.ENVIRONMENT_ENTRIES} services.", code="TooMany")


def _require_services(work: Work, environment: Environment, changed: set[str]) -> None:
    for service_id in sorted(changed):
        work.lookup.require(
            environment.organization_id,
            Permission.EDIT_ENVIRONMENT,
            permissions.environment(environment.id),
            permissions.service(service_id),
        )


async def replace_services(ctx: Context, environment_id: str, service_ids: Sequence[str]) -> None:
    """Make an environment offer exactly these services of its organization.

    The permission is for the environment together with each service that comes or goes. Raises BadRequest with the
    IDs that aren't services of the organization.
    """
    async with ctx.begin() as work:
        environment = await work.lookup.environment(environment_id, Permission.EDIT_ENVIRONMENT)
        wanted = set(service_ids)
        if len(wanted) > limits.ENVIRONMENT_ENTRIES:
            raise _too_many_services()
        await store.lock_services(work.connection, environment_id=environment.id)
        known = await store.list_known_services(
            work.connection, organization_id=environment.organization_id, service_ids=list(wanted)
        )
        _refuse_unknown("service", wanted.difference(known))
        offered = {row.id for row in await store.list_services(work.connection, environment_id=environment.id)}
        _require_services(work, environment, wanted ^ offered)
        await store.remove_services(
            work.connection, environment_id=environment.id, service_ids=sorted(offered - wanted)
        )
        await store.add_services(work.connection, environment_id=environment.id, service_ids=sorted(wanted - offered))
        before, after = {"services": sorted(offered)}, {"services": sorted(wanted)}
        await work.audit("replace_environment_services", environment, before, after)


def _fingerprints(app: AppContext, properties: Sequence[Property]) -> dict[str, str]:
    return app.audit.fingerprints({entry.name: entry.value for entry in properties})


_FINAL = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


async def list_offers(ctx: Context, instance_id: str) -> list[str]:
    """Return the environments that offer an instance."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_environments_by_instance(work.connection, instance_id=record.id)


async def list_offering_environments(ctx: Context, instance_id: str) -> list[tuple[str, str]]:
    """Return ID and name of the environments that offer an instance.

    The name of one that the caller can't read is its ID.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        rows = await store.list_offering(work.connection, instance_id=record.id)
    readable = await work.lookup.permitted(record.organization_id, Permission.READ, rows, permissions.environment)
    names = {row.id: row.name for row in readable} | {row.id: row.id for row in rows if row not in readable}
    return list(names.items())


async def list_offered_instances(ctx: Context, environment_id: str) -> list[OfferedInstance]:
    """Return the instances that an environment offers as services, oldest first."""
    async with ctx.read() as work:
        environment = await work.lookup.environment(environment_id, Permission.READ)
        return await store.list_offered_instances(work.connection, environment_id=environment.id)


async def replace_offers(ctx: Context, instance_id: str, environment_ids: Sequence[str]) -> None:
    """Offer an instance in exactly these environments; it then never expires.

    The permission is for the instance together with each environment that comes or goes. Those that use the instance
    already keep it until they are reconfigured. Raises BadRequest with the IDs that aren't environments, and for an
    instance that is destroyed; NotAllowed for one of a submodule.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id}. Offer that one, "
                "or a separate instance.",
                code="SubmoduleInstance",
            )
        wanted = set(environment_ids)
        await _check_environments(work, record, wanted)
        await _check_instance(work, record, is_offered=bool(wanted))
        offered = set(await store.list_environments_by_instance(work.connection, instance_id=record.id))
        for environment_id in sorted(wanted ^ offered):
            work.lookup.require(
                record.organization_id,
                Permission.EDIT_ENVIRONMENT,
                permissions.environment(environment_id),
                permissions.instance(record.application_id, record.id),
            )
        for environment_id in sorted((wanted ^ offered) | {record.environment_id}):
            await work.decide("replace_instance_environments", record, kind="edit", environment_id=environment_id)
        await store.delete_offers(work.connection, instance_id=record.id, environment_ids=sorted(offered - wanted))
        if wanted:
            await store.insert_offers(work.connection, instance_id=record.id, environment_ids=sorted(wanted))
        before, after = {"environments": sorted(offered)}, {"environments": sorted(wanted)}
        await work.audit("replace_instance_environments", record, before, after)


async def _check_environments(work: Work, record: InstanceRecord, wanted: set[str]) -> None:
    if len(wanted) > limits.ENVIRONMENT_ENTRIES:
        raise BadRequest(
            f"An instance is offered in at most {limits.ENVIRONMENT_ENTRIES} environments.", code="TooMany"
        )
    known = await store.list_known_environments(
        work.connection, organization_id=record.organization_id, environment_ids=sorted(wanted)
    )
    _refuse_unknown("environment", wanted.difference(known))


def _refuse_unknown(noun: str, ids: set[str]) -> None:
    if ids:
        shown = ", ".join(repr(object_id[:40]) for object_id in sorted(ids)[:20])
        raise BadRequest(
            f"The organization has no {noun} with the id {shown}.",
            f"List the {noun}s of the organization.",
            code="UnknownId",
        )


async def _check_instance(work: Work, record: InstanceRecord, *, is_offered: bool) -> None:
    status = await instances.lock_status(work.connection, instance_id=record.id)
    if status is None:
        raise Conflict("The instance was deleted by another request.")
    if is_offered and InstanceStatus(status) in _FINAL:
        raise BadRequest(f"The instance is {status}; it can no longer be offered.", code="InstanceDestroyed")
