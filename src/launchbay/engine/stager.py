"""Turns due schedules into jobs: scheduled and triggered workflows, expiries, signals (conformance.md, "States").

Every process may run a stager: it skips rows that another one has locked. A schedule fires once, because the
transaction that accepts its job deletes it. It never fires early, because only the database's clock decides.

The permissions of the person who scheduled a workflow are checked again when it fires. If they no longer allow it, its
job fails with the reason. Schedules of the manifest and expiries belong to the instance and need no permission.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec
import structlog

from launchbay.auth.lookup import Lookups
from launchbay.auth.permissions import Permission, on_behalf
from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.clock import Clock, to_ms
from launchbay.engine.audit import EngineAudit
from launchbay.engine.ending import InstanceSnapshot, follow_ups, pushed_signals
from launchbay.engine.runner import parse_links
from launchbay.errors import BadRequest, Conflict, InvalidManifest, Unavailable, WorkflowFailed, internal_error
from launchbay.manifest.graph import NOTHING_COMPILED, CompiledManifest
from launchbay.manifest.scaling import component_at, scaled
from launchbay.model.changes import Proposal
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause, Origin, OriginKind, Plan, seed_of_item
from launchbay.model.scalars import decode_json
from launchbay.model.schedule import next_due
from launchbay.planning.acceptance import Dispatch, accept
from launchbay.planning.compiled import CompiledManifests
from launchbay.planning.decisions import Change, ChangeRule, RuleBusy, refusal_of
from launchbay.planning.names import DESTROY, in_use, is_forced
from launchbay.planning.plans import plan_destroy, plan_refused, plan_run, plan_trigger
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import linked_components, linked_signals, return_values
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import instances, schedules
from launchbay.store.database import Connection, Database, DatabaseError
from launchbay.store.schedules import DueRow, TargetRow
from launchbay.telemetry import metrics

log = structlog.get_logger(__name__)
BATCH_ROWS = 20  # in one transaction; a larger one would hold its locks longer
# By the kind of schedule: what its job says began it.
_ORIGINS: dict[str, tuple[OriginKind, str]] = {"expiry": ("expiry", "end of its lifetime"), "trigger": ("trigger", "")}
# Deleted before they fire: their next row, which must be unique for the component, may be written in the same round.
_RECURRING = frozenset({"cron", "trigger", "signals"})


async def refresh_signals(
    connection: Connection, instance_id: str, manifest: CompiledManifest, now: datetime, secret_key: SecretKey
) -> None:
    """Update an idle instance with linked signals, and queue what follows (language §7).

    It needs no job, and the history shows none. The caller's transaction holds the lock of the instance.
    """
    consumer = await schedules.get_consumer(connection, instance_id=instance_id)
    assert consumer is not None, "the caller holds the instance"
    secrets = Secrets(TextSeal(secret_key, consumer.organization_id))
    state = InstanceState.from_text(secrets.opened_json(consumer.state))
    manifest, _ = scaled(manifest, {}, lambda path, _: state.quantity(path))
    links = parse_links(consumer.links)
    targets = [link.instance_id for link in links.values() if link.is_instance]
    published = {
        row.id: await secrets.read(row.return_values)
        for row in await schedules.list_linked_values(connection, instance_ids=targets)
    }
    for component, link in linked_components(manifest, links):
        if state.is_launched(component.path):
            for pin, value in linked_signals(component, link, published.get(link.instance_id, {})):
                state.publish(component.path, pin.interface, pin.name, value)
    values_now = return_values(manifest, state)
    snapshot = InstanceSnapshot(
        manifest=manifest,
        state=state,
        parent_signals=await secrets.read(consumer.fed_signals),
        links=links,
        values_before=await secrets.read(consumer.return_values),
        values_now=values_now,
        secrets=secrets,
    )
    follows = replace(follow_ups(snapshot, now), pushed_signals=await pushed_signals(snapshot))
    await schedules.save_refreshed_signals(
        connection,
        instance_id=instance_id,
        state=await secrets.sealed_json(state.to_text()),
        state_version=STATE_VERSION,
        return_values=await secrets.stored(values_now),
        **follows.columns(),
    )


class Stager:
    """Fires due schedules; `fire_due` is one round."""

    def __init__(
        self,
        database: Database,
        dispatch: Dispatch,
        manifests: CompiledManifests,
        clock: Clock,
        secret_key: SecretKey,
        lookups: Lookups,
        change_rules: Sequence[ChangeRule] = (),
    ) -> None:
        self._database = database
        self._lookups = lookups
        self._change_rules = change_rules
        self._dispatch = dispatch
        self._manifests = manifests
        self._clock = clock
        self._secret_key = secret_key
        self._audit = EngineAudit(secret_key)
        self._next_s: float | None = None  # when the next schedule is due, by the event loop's clock

    def seconds_to_next(self) -> float:
        """Return in how many seconds the next known schedule is due."""
        return math.inf if self._next_s is None else max(self._next_s - asyncio.get_running_loop().time(), 0.0)

    async def fire_due(self) -> int:
        """Fire a batch of due schedules, oldest first; return the number of rows.

        Schedules whose instance or environment is being changed, or that are behind another due schedule, wait for the
        next round.
        They aren't blocked: only the end of a job unblocks schedules, and there may be no job.
        """
        async with self._database.connection() as connection:
            next_s = await schedules.get_next_s(connection, state_version=STATE_VERSION)
        is_due = next_s is not None and next_s <= 0
        self._next_s = None if next_s is None or is_due else asyncio.get_running_loop().time() + next_s
        if not is_due:
            return 0
        done: list[str] = []
        postponed = 0
        has_accepted = False
        async with self._database.transaction() as connection:
            due = await schedules.take_due(connection, count=BATCH_ROWS, state_version=STATE_VERSION)
            for schedule in due:
                # A look at signals locks other instances, and an accepted job may have the lock of all places.
                if schedule.kind == "signals" and has_accepted:
                    postponed += 1
                    continue
                target = await self._lock_target(connection, schedule)
                if await self._must_wait(connection, schedule, target):
                    postponed += 1
                    continue
                try:
                    refusal = await self._refusal(connection, schedule, target)
                except RuleBusy:
                    postponed += 1
                    continue
                has_accepted = has_accepted or schedule.kind != "signals"
                if await self._fire(connection, schedule, target, refusal):
                    done.append(schedule.id)
            if done:
                await schedules.delete(connection, schedule_ids=done)
        return len(due) - postponed

    async def unblock_forgotten(self) -> None:
        """Unblock schedules whose job crashed before it could unblock them."""
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

    async def _fire(
        self, connection: Connection, schedule: DueRow, target: TargetRow | None, refusal: str | None
    ) -> bool:
        """Fire a schedule; return whether it must be deleted before the commit.

        `refusal` is what rules say against it.
        """
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
        manifest, plan = await self._plan(connection, schedule, target, refusal)
        try:
            job_id = await self._accept(connection, schedule, target, manifest, plan)
        except Conflict as error:  # by a limit of how many jobs run at a time
            refused = plan_refused(schedule.workflow, str(error), InstanceStatus(target.status))
            job_id = await self._accept(connection, schedule, target, manifest, refused)
        assert job_id is not None, "the instance is locked, idle and not destroyed"
        await self._audit.schedule_fired(connection, schedule, job_id, target.organization_id, target.application_id)
        if schedule.kind == "cron":
            await self._schedule_next(connection, schedule, manifest)
        metrics.lateness.labels(schedule.kind).observe((schedule.taken_at - schedule.due_at).total_seconds())
        log.info(
            "schedule.fired",
            schedule=schedule.id,
            kind=schedule.kind,
            workflow=schedule.workflow,
            instance=schedule.instance_id,
            job=job_id,
        )
        return schedule.kind not in _RECURRING

    async def _accept(
        self, connection: Connection, schedule: DueRow, target: TargetRow, manifest: CompiledManifest, plan: Plan
    ) -> str | None:
        kind, name = _ORIGINS.get(schedule.kind, ("schedule", schedule.workflow))
        plan = msgspec.structs.replace(plan, key_seed=seed_of_item("schedule", schedule.id, to_ms(schedule.due_at)))
        return await accept(
            connection,
            self._dispatch,
            target.organization_id,
            schedule.instance_id,
            schedule.owner_id,
            plan,
            manifest,
            version=target.version,
            origin=Origin(kind, schedule.id, name),
            may_refuse=schedule.kind != "expiry",
        )

    async def _refresh_signals(self, connection: Connection, schedule: DueRow, target: TargetRow) -> None:
        try:
            manifest = await self._manifests.get(connection, target.application_id, target.version)
        except InvalidManifest as error:  # a plug-in is missing; the instance's next job reports it to the owner
            log.warning("signals.refresh_failed", instance=schedule.instance_id, error=str(error))
            return
        try:
            await refresh_signals(connection, schedule.instance_id, manifest, self._clock.now(), self._secret_key)
        except WorkflowFailed as failure:  # too much to keep; the instance's next job fails by it visibly
            log.warning("signals.refresh_failed", instance=schedule.instance_id, error=str(failure))

    async def _schedule_next(self, connection: Connection, schedule: DueRow, manifest: CompiledManifest) -> None:
        """Write the next run of a manifest's own schedule; missed times count as one."""
        component = component_at(manifest, schedule.component)
        cron = None if component is None else component.schedule.get(schedule.workflow)
        due_at = None if cron is None else next_due(cron, schedule.taken_at)
        if due_at is not None:
            await schedules.schedule_next(
                connection,
                schedule_id=schedule.id,
                instance_id=schedule.instance_id,
                workflow=schedule.workflow,
                component=schedule.component,
                owner_id=schedule.owner_id,
                due_at=due_at,
            )

    async def _lost_right(self, connection: Connection, schedule: DueRow) -> str | None:
        """Return why the scheduler of a workflow may no longer run it, or None."""
        if schedule.asked_by == "rule":
            return None
        needed = Permission.SCHEDULE_INSTANCE_WORKFLOW
        if schedule.workflow == DESTROY or schedule.asked_by == "undo":
            needed = Permission.EDIT_INSTANCE
        lookup = self._lookups.bind(connection, on_behalf(schedule.owner_id))
        lost = await lookup.lost_right(schedule.instance_id, schedule.workflow, [needed])
        return None if lost is None else f"{lost} Somebody with the permission must schedule it again."

    async def _refusal(self, connection: Connection, schedule: DueRow, target: TargetRow | None) -> str | None:
        """Return why rules refuse what is due. Raises RuleBusy.

        They are asked about what a person or the rule for idle instances has scheduled. The end of a lifetime, and
        what takes a destroy back, were decided before. A rule that can't be asked refuses: raising would take the
        same schedules again and again, and hold up all others.
        """
        if target is None or target.job_id is not None or target.status == InstanceStatus.DESTROYED:
            return None
        if schedule.kind in _RECURRING or schedule.kind == "expiry" or schedule.asked_by == "undo":
            return None
        change = Change(
            operation="run_workflow",
            kind="destroy" if schedule.workflow == DESTROY else "run",
            organization_id=target.organization_id,
            actor=on_behalf(schedule.owner_id),
            application_id=target.application_id,
            environment_id=target.environment_id,
            instance_id=schedule.instance_id,
            cause=Cause("idle", schedule.instance_id) if schedule.asked_by == "rule" else None,
            is_later=True,
            never_waits=True,
            clock=self._clock,
            proposed=Proposal(workflow=schedule.workflow, parameters=decode_json(schedule.parameters)),
            stamp=target.organization_stamp,
        )
        try:
            refusal = await refusal_of(connection, self._change_rules, change)
        except (RuleBusy, Unavailable, DatabaseError):
            raise
        except Exception:
            log.exception("schedule.rule_failed", schedule=schedule.id, instance=schedule.instance_id)
            return internal_error(f"schedule {schedule.id}")
        return None if refusal is None else " ".join(refusal.sentences)

    async def _plan(
        self, connection: Connection, schedule: DueRow, target: TargetRow, refusal: str | None
    ) -> tuple[CompiledManifest, Plan]:
        """Return the manifest and the plan.

        Work that is no longer possible becomes a job that fails with the reason.

        Raising here instead would fire the schedule again immediately, and block all later ones.
        """
        prior = InstanceStatus(target.status)
        manifest = NOTHING_COMPILED
        try:
            manifest = await self._manifests.get(connection, target.application_id, target.version)
            if schedule.kind == "expiry":
                return manifest, plan_destroy(prior)
            if schedule.kind in {"cron", "trigger"}:
                return manifest, plan_trigger(manifest, schedule.component, schedule.workflow, prior)
            refused = await self._lost_right(connection, schedule) or refusal
            if refused is not None:
                return manifest, plan_refused(schedule.workflow, refused, prior)
            parameters = decode_json(schedule.parameters)
            if schedule.workflow == DESTROY and not is_forced(parameters):
                users = await instances.list_users(connection, instance_id=schedule.instance_id)
                if users:
                    refusal = in_use(schedule.instance_id, [f"{user.name!r} ({user.id})" for user in users])
                    return manifest, plan_refused(schedule.workflow, refusal, prior)
            return manifest, plan_run(manifest, schedule.workflow, parameters, prior)
        except BadRequest as error:
            refusal = str(error)
        except (Unavailable, DatabaseError):
            raise
        except Exception:
            log.exception("schedule.planning_failed", schedule=schedule.id, instance=schedule.instance_id)
            refusal = internal_error(f"schedule {schedule.id}")
        return manifest, plan_refused(schedule.workflow, refusal, prior)
