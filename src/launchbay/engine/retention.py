"""Throws away what is over: destroyed instances, ended jobs, log lines, audit entries (api-decisions, "States").

Each round is one small transaction of one process, so that nobody waits for it and a crash costs nothing.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from launchbay import limits
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.engine.audit import EngineAudit
from launchbay.store import audit, events, jobs, users, webhooks
from launchbay.store.database import Connection, Database
from launchbay.store.events import WATCH_EXPIRY_S
from launchbay.store.statements import Change

RETENTION_INTERVAL_S = 60.0
RETENTION_BATCH_ROWS = 2_000  # rows of a kind in one transaction
RETENTION_BATCH_INSTANCES = 50  # instances in one transaction
PAUSE_S = 0.05  # between batches, for those who have more urgent business with the database
_DAY_S = 86_400.0
_FIRST_PLACE = (datetime(1970, 1, 1, tzinfo=UTC), "")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """For how many days things are kept, or parts of a day; 0 keeps them for ever."""

    destroyed_days: float
    history_days: float
    log_days: float
    audit_days: float


class Retention:
    """Throws away what is old; every process may run one, and they take turns."""

    def __init__(self, database: Database, policy: RetentionPolicy, clock: Clock, secret_key: SecretKey) -> None:
        self._database = database
        self._policy = policy
        self._clock = clock
        self._audit = EngineAudit(secret_key)
        # Old jobs that stay, being among the last of their instance, are looked at again only a day later.
        self._place = _FIRST_PLACE
        self._begun_s = clock.monotonic_s()

    async def purge(self) -> bool:
        """Do one round; True when there is more to do at once."""
        async with self._database.transaction() as connection:
            if not await jobs.claim_retention_turn(connection):
                return False
            dropped = {
                "instances": await self._destroyed(connection),
                "jobs": await self._jobs(connection),
                "log_lines": await self._dropped(jobs.delete_log_lines, self._policy.log_days, connection),
                "audit_entries": await self._dropped(jobs.delete_audit_entries, self._policy.audit_days, connection),
            }
        counts = {name: count for name, (count, _) in dropped.items() if count}
        if counts:
            log.info("retention.purged", **counts)
        has_more = any(more for _, more in dropped.values())
        if has_more:
            await asyncio.sleep(PAUSE_S)
        return has_more

    @staticmethod
    async def _dropped(drop: Change, days: float, connection: Connection) -> tuple[int, bool]:
        if not days:
            return 0, False
        count = await drop(connection, days=days, count=RETENTION_BATCH_ROWS)
        return count, count >= RETENTION_BATCH_ROWS

    async def _destroyed(self, connection: Connection) -> tuple[int, bool]:
        days = self._policy.destroyed_days
        if not days:
            return 0, False
        for drop in (jobs.delete_log_lines_of_destroyed, jobs.delete_jobs_of_destroyed):
            if (
                await drop(connection, days=days, count=RETENTION_BATCH_ROWS, instances=RETENTION_BATCH_INSTANCES)
                >= RETENTION_BATCH_ROWS
            ):
                return 0, True
        dropped = await jobs.delete_destroyed(connection, days=days, instances=RETENTION_BATCH_INSTANCES)
        for instance in dropped:
            await self._audit.dropped(connection, instance)
        return len(dropped), len(dropped) >= RETENTION_BATCH_INSTANCES

    async def _jobs(self, connection: Connection) -> tuple[int, bool]:
        if not self._policy.history_days:
            return 0, False
        at, job_id = self._place
        seen = await jobs.list_ended_jobs(
            connection,
            days=self._policy.history_days,
            kept=limits.JOBS_RETAINED,
            after_at=at,
            after_id=job_id,
            count=RETENTION_BATCH_ROWS,
        )
        over = [job.id for job in seen if job.may_go]
        count = await jobs.delete_jobs(connection, ids=over) if over else 0
        if seen:
            self._place = (seen[-1].finished_at, seen[-1].id)
        elif self._clock.monotonic_s() - self._begun_s > _DAY_S:
            self._place, self._begun_s = _FIRST_PLACE, self._clock.monotonic_s()
        return count, len(seen) >= RETENTION_BATCH_ROWS


CLEANER_INTERVAL_S = 300.0
CLEANER_BATCH_ROWS = 5_000  # one transaction; a larger one would hold its locks longer


class Cleaner:
    """Cleans up; every process may run one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def clean(self) -> bool:
        """Do one round; True when there is more to do at once."""
        async with self._database.connection() as connection:
            await events.delete_stale_watches(connection, seconds=WATCH_EXPIRY_S)
            old_keys = await audit.delete_idempotency_keys(
                connection, hours=limits.IDEMPOTENCY_KEY_HOURS, count=CLEANER_BATCH_ROWS
            )
            old_events = await events.delete_old_events(
                connection, days=limits.EVENT_RETENTION_DAYS, count=CLEANER_BATCH_ROWS
            )
            excess = await webhooks.delete_excess(
                connection,
                most=limits.WEBHOOK_PENDING,
                count=CLEANER_BATCH_ROWS,
                reason="Too many deliveries wait for this webhook.",
            )
            old_deliveries = await webhooks.delete_old_deliveries(
                connection, days=limits.WEBHOOK_LOG_DAYS, count=CLEANER_BATCH_ROWS
            )
            old_tokens = await users.delete_expired_refresh_tokens(connection, count=CLEANER_BATCH_ROWS)
        return max(old_keys, old_events, excess, old_deliveries, old_tokens) >= CLEANER_BATCH_ROWS
