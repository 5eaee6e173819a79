"""The instances of bulk runs, one after the other.

The transaction that accepts the job of an instance also notes it, so that a crash loses none and repeats none.
"""

from collections.abc import Sequence

import structlog

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.features.bulk import rows as store
from launchbay.features.bulk.rows import NextRow, TakenRow
from launchbay.features.bulk.usecases import RUNNING, STOPPED, Act, open_act, seal
from launchbay.model.expiry import NEVER
from launchbay.model.job import JobStatus
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.fleet import put_labels
from launchbay.usecases.instances import set_destroy_at
from launchbay.usecases.jobs import resume_job
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, actor_of
from launchbay.usecases.reconfigure import reconfigure
from launchbay.usecases.submodule_shapes import same_configuration
from launchbay.usecases.workflows import destroy, reason_to_wait, run_workflow

log = structlog.get_logger(__name__)


class BulkWork(LaterWork[TakenRow, NextRow]):
    """Acts on the instances of bulk runs."""

    task = "bulk"
    noun = "bulk run"
    due = (store.list_open,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_open(connection)

    async def take(self, connection: Connection, row_id: str) -> TakenRow | None:
        return await store.take(connection, bulk_id=row_id)

    async def next(self, connection: Connection, row: TakenRow) -> NextRow | bool:
        """Note the ends of jobs; return which instance is next, if any."""
        if row.sealed_act is None:  # an older server began it; a refusal of the act must not undo this
            await seal(connection, self.app.secret_key, row.id, row.act)
            return True
        await store.settle(connection, bulk_id=row.id)
        states = await store.count_states(connection, bulk_id=row.id)
        assert states is not None, "the run is locked"
        is_waiting = states.is_waiting
        is_enough = row.stop_after_failures is not None and states.failed >= row.stop_after_failures
        if row.status == RUNNING and is_waiting and is_enough:
            message = f"Stopped after {states.failed} failures."
            await store.set_status(connection, bulk_id=row.id, status=STOPPED)
            await store.drop_waiting(connection, bulk_id=row.id, message=message)
            is_waiting = False
        if not is_waiting and not states.running:
            await store.finish(connection, bulk_id=row.id)
            log.info("bulk.ended", bulk=row.id)
        if row.status != RUNNING or not is_waiting or states.running >= row.max_parallel:
            return False
        return await store.get_next(connection, bulk_id=row.id) or False

    async def act(self, row: TakenRow, item: NextRow) -> str | None:
        """Do the act as who began the run; return its job."""
        assert row.sealed_act is not None, "it was sealed before"
        act, instance_id = open_act(self.app, row.id, row.sealed_act), item.instance_id
        ctx = Context(self.app, await actor_of(self.app, row), item=("bulk", row.id, item.place))
        if act.act == "run":
            return (await run_workflow(ctx, instance_id, act.workflow or "", act.parameters)).job_id
        if act.act == "destroy":
            return (await destroy(ctx, instance_id, {})).job_id
        if act.act == "resume":
            return await _resume(ctx, instance_id, act)
        if act.act == "reconfigure":
            return await _reconfigure(ctx, instance_id, act)
        if act.act == "extend":
            in_ms = NEVER if act.expires_in_ms is None else act.expires_in_ms
            await set_destroy_at(ctx, instance_id, in_ms if in_ms == NEVER else to_ms(self.app.clock.now()) + in_ms)
        else:
            await put_labels(ctx, "instance", instance_id, act.labels, merges=True)
        return None

    async def note(self, connection: Connection, row: TakenRow, item: NextRow, done: str | None) -> None:
        await store.begin_instance(connection, bulk_id=row.id, place=item.place, job_id=done)

    async def put_off(self, connection: Connection, row: TakenRow, item: NextRow, refusal: LaunchbayError) -> None:
        """Note a refusal. A busy instance is tried again for a time.

        So is one that others use which the run destroys too.
        """
        passes = refusal.code in PASSING or (
            refusal.code == "InstanceInUse"
            and await store.has_users_left(connection, bulk_id=row.id, instance_id=item.instance_id)
        )
        if passes:
            pause_s = pause_of(refusal, self.app.clock.now(), limits.BULK_BUSY_PAUSE_S)
            await store.postpone_instance(
                connection,
                bulk_id=row.id,
                place=item.place,
                message=reason_to_wait(refusal),
                pause_s=pause_s,
                longest_pause_s=max(pause_s, limits.BULK_BUSY_LONGEST_PAUSE_S),
                give_up_s=limits.BULK_BUSY_S,
            )
        else:
            await store.refuse_instance(connection, bulk_id=row.id, place=item.place, message=str(refusal))


async def _reconfigure(ctx: Context, instance_id: str, act: Act) -> str:
    """Keep what the act doesn't name."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        body = await same_configuration(work, record, version=act.version, parameters=act.parameters)
    return (await reconfigure(ctx, instance_id, body)).job_id


async def _resume(ctx: Context, instance_id: str, act: Act) -> str:
    async with ctx.read() as work:
        last = await store.get_last_job(work.connection, instance_id=instance_id)
    if last is None or last.status == JobStatus.SUCCEEDED:
        raise BadRequest("The last job didn't fail, so there is nothing to resume.", code="JobSucceeded")
    resumed = await resume_job(ctx, instance_id, last.id, act.parameters, declared_only=act.declared_only)
    return resumed.job_id
