"""Instances that go back because their reconfiguration failed.

The transaction that accepts the rollback also deletes what made it due: a crash loses none and repeats none.
"""

from collections.abc import Sequence

import structlog

from launchbay import limits
from launchbay.auth.permissions import Actor, Method
from launchbay.errors import LaunchbayError, NotAllowed
from launchbay.features.generations import rows as store
from launchbay.features.generations.rows import DueRollback
from launchbay.features.generations.usecases import rollback
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, acting_token

log = structlog.get_logger(__name__)
_ROUND = 20


class RollbackWork(LaterWork[DueRollback, DueRollback]):
    """Rolls back instances, by the IDs of the jobs that failed."""

    task = "rollbacks"
    noun = "rollback of job"
    due = (store.list_due,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due(connection, but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> DueRollback | None:
        return await store.take_due(connection, job_id=row_id)

    async def next(self, connection: Connection, row: DueRollback) -> DueRollback | bool:
        return row

    async def act(self, row: DueRollback, item: DueRollback) -> None:
        if row.is_held:  # it may have stopped because somebody changed what the way back would overwrite
            raise NotAllowed(
                "A plan was approved for the change, but not for its rollback.",
                "Roll it back yourself, or make a change set with the former configuration and with plans.",
            )
        ctx = Context(self.app, await self._owner(row), change_set=row.change_set_id)
        await rollback(ctx, row.instance_id, None)

    async def note(self, connection: Connection, row: DueRollback, item: DueRollback, done: None) -> None:
        await store.delete_due(connection, job_id=row.job_id)

    async def put_off(
        self,
        connection: Connection,
        row: DueRollback,
        item: DueRollback,
        refusal: LaunchbayError,
    ) -> None:
        """Wait for a busy instance, or tell the job's log why nothing follows."""
        if refusal.code in PASSING:
            pause_s = pause_of(refusal, self.app.clock.now(), limits.BULK_BUSY_PAUSE_S)
            await store.postpone_due(connection, job_id=row.job_id, pause_s=pause_s)
            return
        log.warning("rollback.refused", job=row.job_id, reason=str(refusal))
        await store.delete_due(connection, job_id=row.job_id)
        await store.note_refusal(
            connection,
            job_id=row.job_id,
            instance_id=row.instance_id,
            text=f"The instance isn't rolled back: {refusal}",
        )

    async def _owner(self, due: DueRollback) -> Actor:
        """Return who asked for the reconfiguration, with no more rights than then.

        Raises NotAllowed if the account was deleted, or the access token has ended.
        """
        if due.email is None or due.name is None:
            raise NotAllowed("The account that asked for the reconfiguration was deleted.")
        token = await acting_token(self.app, due.token_id)
        return Actor(due.owner_id, "engine/rollback", due.name, "", Method.ENGINE, token=token)
