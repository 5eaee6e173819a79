"""Offering an instance as a service in environments (api-decisions, "Beyond the reference")."""

from collections.abc import Sequence

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission
from launchbay.errors import BadRequest, Conflict, NotAllowed
from launchbay.model.instance import InstanceStatus
from launchbay.store import environments as store
from launchbay.store.database import Connection
from launchbay.store.environments import OfferedInstance
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.desk import Desk

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
