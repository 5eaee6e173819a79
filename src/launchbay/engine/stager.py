"""Turns what falls due into jobs: scheduled workflows and expiries (api-decisions, "States").

Every process may run one: rows that another holds are skipped. A schedule disappears in the transaction that accepts
its job, so it fires once; and it is never early, because only the database's clock decides.
"""

from datetime import datetime

import msgspec
import psycopg
import structlog

from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.clock import Clock
from launchbay.engine.audit import EngineAudit
from launchbay.engine.ending import InstanceSnapshot, follow_ups
from launchbay.engine.runner import parse_links
from launchbay.errors import BadRequest, InvalidManifest, Unavailable
from launchbay.manifest.graph import NOTHING_COMPILED, CompiledManifest
from launchbay.manifest.scaling import component_at, expanded, scalers
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Plan
from launchbay.model.schedule import next_due
from launchbay.planning import CompiledManifests, accept, plan_destroy, plan_refused, plan_run, plan_trigger
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import linked_components, linked_signals, return_values
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import schedules
from launchbay.store.database import Connection, Database
from launchbay.store.schedules import DueRow, TargetRow
from launchbay.telemetry import metrics

# An idle instance looks again at the signals of the instances that it stands on (manifest-language §7: "at once").
#
# No job is needed for that, and none shows in the history: signals are taken over, return values follow, and what they
# trigger is put into the queue, all in the transaction of the stager's round, which holds the instance.


async def refresh_signals(
    connection: Connection, instance_id: str, manifest: CompiledManifest, now: datetime, secret_key: SecretKey
) -> None:
    """Take over the signals of linked instances, and queue what follows. The caller holds the idle instance."""
    onlooker = await schedules.get_consumer(connection, instance_id=instance_id)
    assert onlooker is not None, "the caller holds the instance"
    secrets = Secrets(TextSeal(secret_key, onlooker.organization_id))
    state = InstanceState.from_text(secrets.opened_json(onlooker.state))
    manifest = expanded(manifest, {path: state.quantity(path) for path in scalers(manifest)})
    links = parse_links(onlooker.links)
    targets = [link.instance_id for link in links.values() if link.is_instance]
    published = {
        row.id: secrets.opened(msgspec.json.decode(row.return_values))
        for row in await schedules.list_linked_values(connection, instance_ids=targets)
    }
    for component, link in linked_components(manifest, links):
        if state.is_launched(component.path):
            for pin, value in linked_signals(component, link, published.get(link.instance_id, {})):
                state.publish(component.path, pin.interface, pin.name, value)
    values_now = return_values(manifest, state)
    moment = InstanceSnapshot(
        manifest=manifest,
        state=state,
        parent_signals=secrets.opened(msgspec.json.decode(onlooker.fed_signals)),
        links=links,
        values_before=secrets.opened(msgspec.json.decode(onlooker.return_values)),
        values_now=values_now,
        secrets=secrets,
    )
    follows = follow_ups(moment, now)
    await schedules.save_refreshed_signals(
        connection,
        instance_id=instance_id,
        state=secrets.sealed_json(state.to_text()),
        state_version=STATE_VERSION,
        return_values=msgspec.json.encode(secrets.sealed(values_now)).decode(),
        **follows.columns(),
    )


log = structlog.get_logger(__name__)
BATCH_ROWS = 20  # one transaction; a larger one would hold its locks longer
# Their next row, which is the only one of its kind for its component, may be written before the end of the round.
_RECURRING = frozenset({"cron", "trigger", "signals"})


class Stager:
    """Fires what is due; `fire_due` is one round."""

    def __init__(self, database: Database, manifests: CompiledManifests, clock: Clock, secret_key: SecretKey) -> None:
        self._database = database
        self._manifests = manifests
        self._clock = clock
        self._secret_key = secret_key
        self._audit = EngineAudit(secret_key)

    async def fire_due(self) -> int:
        """Fire a batch of due schedules, oldest first, and return how many rows it dealt with.

        Left for the next round are those whose instance somebody is changing at this moment, and those behind another
        one that is due. They are not blocked: only a job's end frees what is blocked, and there may be no job.
        """
        over: list[str] = []
        left = 0
        async with self._database.transaction() as connection:
            due = await schedules.take_due(connection, count=BATCH_ROWS, state_version=STATE_VERSION)
            for schedule in due:
                target = await self._lock_target(connection, schedule)
                if await self._must_wait(connection, schedule, target):
                    left += 1
                elif await self._fire(connection, schedule, target):
                    over.append(schedule.id)
            if over:
                await schedules.delete(connection, schedule_ids=over)
        return len(due) - left

    async def unblock_forgotten(self) -> None:
        """Free what waits for a job that ended in a crash before it could say so."""
        async with self._database.connection() as connection:
            await schedules.unblock_forgotten(connection)

    @staticmethod
    async def _lock_target(connection: Connection, schedule: DueRow) -> TargetRow | None:
        return await schedules.lock_target(
            connection, instance_id=schedule.instance_id, due_at=schedule.due_at, schedule_id=schedule.id
        )

    @staticmethod
    async def _must_wait(connection: Connection, schedule: DueRow, target: TargetRow | None) -> bool:
        if target is None:
            return bool(await schedules.target_exists(connection, instance_id=schedule.instance_id))
        return target.job_id is None and not target.is_turn and target.status != InstanceStatus.DESTROYED

    async def _fire(self, connection: Connection, schedule: DueRow, target: TargetRow | None) -> bool:
        """Return whether the schedule is over and must be removed before the commit."""
        if target is None or target.status == InstanceStatus.DESTROYED:
            return True
        if target.job_id is not None:
            await schedules.block(connection, schedule_id=schedule.id, instance_id=schedule.instance_id)
            return False
        if schedule.kind in _RECURRING:
            await schedules.delete(connection, schedule_ids=[schedule.id])
        if schedule.kind == "signals":
            await self._refresh_signals(connection, schedule, target)
            return False
        manifest, plan = await self._plan(connection, schedule, target)
        job_id = await accept(connection, schedule.instance_id, schedule.owner_id, plan, manifest)
        assert job_id is not None, "the instance is locked, idle and not destroyed"
        await self._audit.fired(connection, schedule, job_id, target.organization_id, target.application_id)
        if schedule.kind == "cron":
            await self._schedule_next(connection, schedule, manifest)
        metrics.lateness.labels(schedule.kind).observe((schedule.taken_at - schedule.due_at).total_seconds())
        log.info("schedule.fired", schedule=schedule.id, instance=schedule.instance_id, job=job_id)
        return schedule.kind not in _RECURRING

    async def _refresh_signals(self, connection: Connection, schedule: DueRow, target: TargetRow) -> None:
        try:
            manifest = await self._manifests.get(connection, target.application_id, target.version)
        except InvalidManifest as error:  # a plug-in is gone; the instance's next job says so to its owner
            log.warning("signals.refresh_failed", instance=schedule.instance_id, error=str(error))
            return
        await refresh_signals(connection, schedule.instance_id, manifest, self._clock.now(), self._secret_key)

    async def _schedule_next(self, connection: Connection, schedule: DueRow, manifest: CompiledManifest) -> None:
        """Set the next time of one of the manifest's own schedules; times that have passed meanwhile are one."""
        component = component_at(manifest, schedule.component)
        cron = None if component is None else component.schedule.get(schedule.workflow)
        due_at = None if cron is None else next_due(cron, schedule.taken_at)
        if due_at is not None:
            await schedules.schedule_next(
                connection,
                instance_id=schedule.instance_id,
                workflow=schedule.workflow,
                component=schedule.component,
                owner_id=schedule.owner_id,
                due_at=due_at,
            )

    async def _plan(self, connection: Connection, schedule: DueRow, target: TargetRow) -> tuple[CompiledManifest, Plan]:
        """Return what the job is to do. What cannot be done any more becomes a job that fails and says why.

        A schedule that raised here instead would come back at once, and keep all that are due after it from firing.
        """
        prior = InstanceStatus(target.status)
        manifest = NOTHING_COMPILED
        try:
            manifest = await self._manifests.get(connection, target.application_id, target.version)
            if schedule.kind == "expiry":
                return manifest, plan_destroy(prior)
            if schedule.kind in {"cron", "trigger"}:
                return manifest, plan_trigger(manifest, schedule.component, schedule.workflow, prior)
            return manifest, plan_run(manifest, schedule.workflow, msgspec.json.decode(schedule.parameters), prior)
        except BadRequest as error:
            refusal = str(error)
        except (Unavailable, psycopg.Error):
            raise
        except Exception:
            log.exception("schedule.planning_failed", schedule=schedule.id, instance=schedule.instance_id)
            refusal = f"Launchbay broke while planning this job; its log tells more under {schedule.id}. Report it."
        return manifest, plan_refused(schedule.workflow, refusal, prior)
