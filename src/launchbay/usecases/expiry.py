"""When an instance is destroyed by itself (api-decisions, "Beyond the reference": destroyAt)."""

from datetime import datetime, timedelta

from launchbay.auth import permissions
from launchbay.auth.permissions import Actor, Permission
from launchbay.clock import Clock, from_ms, to_ms
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.ids import new_id
from launchbay.limits import INTERVAL_LONGEST_MS
from launchbay.model.instance import InstanceStatus
from launchbay.store import instances as store
from launchbay.usecases.desk import Desk

NEVER = -1


async def set_destroy_at(desk: Desk, actor: Actor, instance_id: str, destroy_at_ms: int) -> None:
    """Set when an instance is destroyed, in ms since the Unix epoch; NEVER lets it live on.

    A job that is under way then ends first. Raises BadRequest for a time that has passed, for a destroyed instance, and
    for one that is offered as a service: those never expire.
    """
    async with desk.database.transaction() as connection:
        record = await desk.lookups.on(connection, actor).instance(instance_id, Permission.EDIT_INSTANCE)
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id} and goes with that one.",
                code="SubmoduleInstance",
            )
        destroy_at = _checked(destroy_at_ms, desk.clock)
        locked = await store.expiry_lock(connection, instance_id=record.id)
        if locked is None:
            raise NotFound(f"The instance {record.id} has just been deleted.")
        if locked.status == InstanceStatus.DESTROYED:
            raise BadRequest("The instance is destroyed already.", code="InstanceDestroyed")
        if destroy_at is None:
            await store.clear(connection, instance_id=record.id)
        elif locked.is_offered:
            raise BadRequest(
                "The instance is offered as a service, which never expires; withdraw it from its environments first.",
                code="InstanceOffered",
            )
        else:
            await store.move(
                connection,
                instance_id=record.id,
                destroy_at=destroy_at,
                schedule_id=new_id(),
                owner_id=actor.user_id,
            )
        await desk.audit.record(
            connection,
            actor,
            "set_destroy_at",
            str(permissions.instance(record.application_id, record.id)),
            organization_id=record.organization_id,
            before={"destroyAt": None if locked.destroy_at is None else to_ms(locked.destroy_at)},
            after={"destroyAt": None if destroy_at is None else destroy_at_ms},
        )


def _checked(destroy_at_ms: int, clock: Clock) -> datetime | None:
    if destroy_at_ms == NEVER:
        return None
    now = clock.now()
    longest = now + timedelta(milliseconds=INTERVAL_LONGEST_MS)
    if not to_ms(now) < destroy_at_ms <= to_ms(longest):
        raise BadRequest(
            f"destroyAt is {destroy_at_ms}; give a time to come, in milliseconds since 1970 (now it is {to_ms(now)}), "
            "or -1 for never. To destroy the instance now, run destroy.",
            code="InvalidDestroyAt",
        )
    return from_ms(destroy_at_ms)
