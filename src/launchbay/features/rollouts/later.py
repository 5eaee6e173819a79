"""The instances of rollouts, wave after wave, and their way back.

The transaction that accepts a job also notes it, so that a crash loses none and repeats none (promise 15).
"""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.errors import LaunchbayError
from launchbay.features.generations.usecases import rollback
from launchbay.features.rollouts import rows as store
from launchbay.features.rollouts.rows import NextRow, TakenRow
from launchbay.features.rollouts.usecases import FINISHED, RETURNED, RETURNING, RUNNING
from launchbay.model.job import Cause
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, actor_of
from launchbay.usecases.reconfigure import reconfigure
from launchbay.usecases.submodule_shapes import same_configuration
from launchbay.usecases.workflows import reason_to_wait, run_workflow

log = structlog.get_logger(__name__)


class Move(NamedTuple):
    """An instance that is changed or checked next, or goes back."""

    instance: NextRow
    is_back: bool


class Begun(NamedTuple):
    """A job, and the instance's status in the rollout while it runs."""

    status: str
    job_id: str


class RolloutWork(LaterWork[TakenRow, Move]):
    """Moves the instances of rollouts."""

    task = "rollouts"
    noun = "rollout"
    due = (store.list_open,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_open(connection)

    async def take(self, connection: Connection, row_id: str) -> TakenRow | None:
        return await store.take(connection, rollout_id=row_id)

    async def next(self, connection: Connection, row: TakenRow) -> Move | bool:
        """Note the ends of jobs; return which instance is next, if any."""
        has_check = row.health_workflow is not None
        await store.settle(connection, rollout_id=row.id, has_check=has_check, busy_s=limits.BULK_BUSY_S)
        is_back = row.status == RETURNING
        found = await (self._next_back if is_back else self._next)(connection, row)
        return found if isinstance(found, bool) else Move(found, is_back)

    async def _next(self, connection: Connection, rollout: TakenRow) -> NextRow | bool:
        states = await store.count_states(connection, rollout_id=rollout.id, wave=rollout.wave)
        assert states is not None, "it counts"
        if rollout.status != RUNNING:
            return False
        if states.failed >= rollout.failures_bound:
            log.info("rollout.stopped", rollout=rollout.id, failed=states.failed)
            stop = store.take_back if rollout.on_failure == "takeBack" else store.stop
            await stop(connection, rollout_id=rollout.id)
            return rollout.on_failure == "takeBack"
        if states.waiting and states.running < rollout.max_parallel:
            return await store.get_next(connection, rollout_id=rollout.id, wave=rollout.wave) or False
        return not (states.waiting or states.running) and await self._leave_wave(connection, rollout)

    async def _leave_wave(self, connection: Connection, rollout: TakenRow) -> bool:
        """Begin the next wave after the pause, or end the last one.

        Return whether another step is possible.
        """
        if rollout.wave >= rollout.waves:
            await store.finish(connection, rollout_id=rollout.id, status=FINISHED)
            log.info("rollout.ended", rollout=rollout.id)
            return False
        if not rollout.is_wave_done:
            await store.end_wave(connection, rollout_id=rollout.id)
            return not rollout.waits
        if rollout.is_paused_enough:
            await store.begin_wave(connection, rollout_id=rollout.id)
        return rollout.is_paused_enough

    async def _next_back(self, connection: Connection, rollout: TakenRow) -> NextRow | bool:
        await store.skip_waiting(connection, rollout_id=rollout.id)
        states = await store.count_states(connection, rollout_id=rollout.id, wave=rollout.wave)
        assert states is not None, "it counts"
        if states.begun:
            if states.running >= rollout.max_parallel:
                return False
            return await store.get_next_back(connection, rollout_id=rollout.id) or False
        if not states.running:
            await store.finish(connection, rollout_id=rollout.id, status=RETURNED)
            log.info("rollout.taken_back", rollout=rollout.id)
        return False

    async def act(self, row: TakenRow, item: Move) -> Begun:
        """Do what is next for an instance as who began the rollout."""
        instance = item.instance
        seed = ("rollout", row.id, instance.place, row.status, instance.status)
        ctx = Context(self.app, await actor_of(self.app, row), cause=Cause("rollout", row.id), item=seed)
        if item.is_back:
            _, started = await rollback(ctx, instance.instance_id, instance.generation)
            return Begun("Returning", started.job_id)
        if instance.status == "Unchecked":
            started = await run_workflow(ctx, instance.instance_id, row.health_workflow or "", {})
            return Begun("Checking", started.job_id)
        async with ctx.read() as work:
            record = await work.lookup.instance(instance.instance_id, Permission.EDIT_INSTANCE)
            body = await same_configuration(work, record, version=row.version, parameters={})
        return Begun("Running", (await reconfigure(ctx, instance.instance_id, body)).job_id)

    async def note(self, connection: Connection, row: TakenRow, item: Move, done: Begun) -> None:
        place = item.instance.place
        await store.begin_instance(connection, rollout_id=row.id, place=place, status=done.status, job_id=done.job_id)

    async def put_off(self, connection: Connection, row: TakenRow, item: Move, refusal: LaunchbayError) -> None:
        """Note a refusal. An instance that is busy is tried again."""
        place = item.instance.place
        if refusal.code in PASSING:
            await store.postpone_instance(
                connection,
                rollout_id=row.id,
                place=place,
                message=reason_to_wait(refusal),
                pause_s=pause_of(refusal, self.app.clock.now(), limits.BULK_BUSY_PAUSE_S),
            )
        else:
            await store.refuse_instance(
                connection, rollout_id=row.id, place=place, message=str(refusal), is_back=item.is_back
            )
