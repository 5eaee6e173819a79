"""Instances on which nothing runs: the rule that ends them (`idle_ms` in `features/lifetimes/rules.py`).

The transaction that begins the destroy also begins the time again, so that a crash loses none and repeats none.
"""

from collections.abc import Sequence
from typing import Literal

import structlog

from launchbay.auth.permissions import Actor, Method
from launchbay.errors import LaunchbayError
from launchbay.features.lifetimes import rows as store
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause
from launchbay.store import instances
from launchbay.store.database import Connection
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING
from launchbay.usecases.workflows import destroy_idle

log = structlog.get_logger(__name__)
_ROUND = 100  # destroyed before the others of the process have theirs
_BUSY_PAUSE_S = 60
_REFUSED_PAUSE_S = 3_600


class IdleWork(LaterWork[InstanceRecord, Literal["destroy"]]):
    """Destroys instances on which nothing has run for long."""

    task = "idle instances"
    noun = "end of the idle instance"
    every_s = 10.0

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        await store.move_idle_ends(connection, ahead_s=0, instance_id=None)
        return await store.list_idle(connection, but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> InstanceRecord | None:
        """Lock as a deletion does: the instance first."""
        record = await instances.get_record(connection, instance_id=row_id)
        if record is None or await store.take_idle(connection, instance_id=row_id) is None:
            return None
        return record

    async def next(self, connection: Connection, row: InstanceRecord) -> Literal["destroy"] | bool:
        if row.status is InstanceStatus.DESTROYED:
            await store.remove_idle_end(connection, instance_id=row.id)
            return True
        # A run may have ended since the round began; none begins while the instance is locked.
        await store.move_idle_ends(connection, ahead_s=0, instance_id=row.id)
        is_due = await store.take_idle(connection, instance_id=row.id) is not None
        return is_due and "destroy"

    async def act(self, row: InstanceRecord, item: Literal["destroy"]) -> None:
        actor = Actor(row.owner_id, "engine/idle", "idle", "", Method.ENGINE)
        async with self.app.database.connection() as connection:
            is_of_environment = await store.is_idle_by_environment(connection, instance_id=row.id)
        cause = Cause("idle", row.id, "environment" if is_of_environment else "application")  # whose rule it is
        async with Context(self.app, actor, cause=cause).begin() as work:
            await destroy_idle(work, row)

    async def note(self, connection: Connection, row: InstanceRecord, item: Literal["destroy"], done: None) -> None:
        await store.begin_idle_again(connection, instance_id=row.id)

    async def put_off(
        self,
        connection: Connection,
        row: InstanceRecord,
        item: Literal["destroy"],
        refusal: LaunchbayError,
    ) -> None:
        """Try a busy instance again soon, and another one much later."""
        pause_s = _REFUSED_PAUSE_S
        if refusal.code in PASSING:
            pause_s = min(_REFUSED_PAUSE_S, round(pause_of(refusal, self.app.clock.now(), _BUSY_PAUSE_S)))
        else:
            log.warning("idle.refused", instance=row.id, reason=str(refusal))
        await store.postpone_idle_end(connection, instance_id=row.id, pause_s=pause_s)
