"""Instances on which nothing runs: the rule that ends them (`idle_ms` in `features/lifetimes/rules.py`)."""

import structlog

from launchbay.auth.permissions import Actor, Method
from launchbay.errors import LaunchbayError, Unavailable
from launchbay.features.lifetimes import rows as store
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause
from launchbay.store import instances
from launchbay.store.database import DatabaseError
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.later import Turns
from launchbay.usecases.workflows import destroy_idle

log = structlog.get_logger(__name__)
POLL_S = 10.0
_ROUND = 100  # destroyed before the others of the process get their turn
_BUSY_PAUSE_S = 60
_REFUSED_PAUSE_S = 3_600


class IdleRunner:
    """Destroys instances on which nothing has run for long; `advance` is one round.

    The transaction that begins the destroy also begins the time again, so that a crash loses none and repeats none.
    """

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._turns = Turns("idle instance", self._end)

    async def advance(self) -> bool:
        """Destroy what is due. Return True if there may be more."""
        async with self._app.database.connection() as connection:
            await store.move_idle_ends(connection, ahead_s=0, instance_id=None)
            due = await store.list_idle(connection, but=self._turns.waiting, count=_ROUND)
        await self._turns.give(due)
        return len(due) == _ROUND

    async def _end(self, instance_id: str) -> bool:
        try:
            async with self._app.database.transaction() as connection:
                # In the order of a deletion: the instance first.
                record = await instances.get_record(connection, instance_id=instance_id)
                if record is None or await store.take_idle(connection, instance_id=instance_id) is None:
                    return False
                if record.status is InstanceStatus.DESTROYED:
                    await store.remove_idle_end(connection, instance_id=instance_id)
                    return False
                # A run may have ended since the round began; none begins while the instance is locked.
                await store.move_idle_ends(connection, ahead_s=0, instance_id=instance_id)
                if await store.take_idle(connection, instance_id=instance_id) is None:
                    return False
                actor = Actor(record.owner_id, "engine/idle", "idle", "", Method.ENGINE)
                ctx = Context(self._app, actor, cause=Cause("idle", instance_id))
                with self._app.database.joined(connection):
                    async with ctx.begin() as work:
                        await destroy_idle(work, record)
                await store.begin_idle_again(connection, instance_id=instance_id)
        except (Unavailable, DatabaseError):
            raise
        except LaunchbayError as refusal:
            is_busy = refusal.code == "InstanceBusy"
            if not is_busy:
                log.warning("idle.refused", instance=instance_id, reason=str(refusal))
            async with self._app.database.connection() as connection:
                pause_s = _BUSY_PAUSE_S if is_busy else _REFUSED_PAUSE_S
                await store.postpone_idle_end(connection, instance_id=instance_id, pause_s=pause_s)
        return False
