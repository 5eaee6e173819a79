"""Deletes old data: instances, jobs, log lines, events, audit entries, and leftovers (conformance.md).

`Retention` runs every minute, `Cleaner` every five minutes. A round is a few small statements, so no other session
waits for it, and a crash loses nothing. Processes take turns. Log lines, events and audit entries go by the partition,
somewhat later than their age asks for (decision 0094); `Retention` makes the partitions, too.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from launchbay import limits
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.throttle import REPEATED_S
from launchbay.clock import Clock
from launchbay.engine.audit import EngineAudit
from launchbay.store import access_tokens, audit, events, jobs, users, wrong_sign_ins
from launchbay.store.database import Connection, Database
from launchbay.store.events import WATCH_EXPIRY_S

RETENTION_INTERVAL_S = 60.0
RETENTION_BATCH_ROWS = 2_000  # of each table in one transaction
RETENTION_BATCH_INSTANCES = 50  # instances in one transaction
PAUSE_S = 0.05  # between batches, to let more urgent statements through
PARTITIONS = (
    8  # of what is kept for some days; with more, a list would look into more, and with fewer, more stays too long
)
SHORTEST_PARTITION_DAYS = 1 / 24
LONGEST_PARTITION_DAYS = 7.0
KEPT_FOREVER_PARTITION_DAYS = 91.0  # nothing is dropped, but the setting may change
_DAY_S = 86_400.0
_FIRST_PLACE = (datetime(1970, 1, 1, tzinfo=UTC), "")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """Days to keep data, fractions allowed; 0 keeps it forever."""

    destroyed_days: float
    history_days: float
    log_days: float
    audit_days: float


class Retention:
    """Applies the retention policy; every process may run one, and they take turns."""

    def __init__(self, database: Database, policy: RetentionPolicy, clock: Clock, secret_key: SecretKey) -> None:
        self._database = database
        self._policy = policy
        self._clock = clock
        self._audit = EngineAudit(secret_key)
        # Where the next round continues. Old jobs that stay, as the last of their instance, are checked once a day.
        self._place = _FIRST_PLACE
        self._pass_started_s = clock.monotonic_s()

    async def purge(self) -> bool:
        """Run one round; return True if there is more to delete."""
        async with self._database.transaction() as connection:
            if not await jobs.claim_retention_turn(connection):
                return False
            deleted = {
                "instances": await self._destroyed(connection),
                "jobs": await self._jobs(connection),
            }
            await self._make_partitions(connection)
        deleted["partitions"] = await self._drop_partitions()
        counts = {name: count for name, (count, _) in deleted.items() if count}
        if counts:
            log.info("retention.purged", **counts)
        has_more = any(more for _, more in deleted.values())
        if has_more:
            await asyncio.sleep(PAUSE_S)
        return has_more

    async def _make_partitions(self, connection: Connection) -> None:
        days = {
            "log_lines": self._policy.log_days,
            "instance_events": float(limits.EVENT_RETENTION_DAYS),
            "instance_history": self._policy.history_days,
        }
        widths = {table: partition_days(kept) for table, kept in days.items()}
        block_days = min(widths.values())
        await jobs.begin_block(
            connection,
            sequence="instance_changes",
            block_s=block_days * _DAY_S,
            parents=list(widths),
            spans=[int(width / block_days) for width in widths.values()],
        )
        await jobs.begin_block(
            connection,
            sequence="audit_numbers",
            block_s=partition_days(self._policy.audit_days) * _DAY_S,
            parents=["audit_entries"],
            spans=[1],
        )

    async def _drop_partitions(self) -> tuple[int, bool]:
        """Drop old partitions, each table in its own transaction, which locks it."""
        dropped = 0
        for table, days in (
            ("log_lines", self._policy.log_days),
            ("instance_events", limits.EVENT_RETENTION_DAYS),
            ("instance_history", self._policy.history_days),
            ("audit_entries", self._policy.audit_days),
        ):
            if not days:
                continue
            async with self._database.transaction() as connection:
                if not await jobs.claim_retention_turn(connection):
                    break
                count = await jobs.drop_partitions(connection, parent=table, days=days)
            if count is None:
                log.info("retention.busy", table=table)
            else:
                dropped += count
        return dropped, False

    async def _destroyed(self, connection: Connection) -> tuple[int, bool]:
        days = self._policy.destroyed_days
        if not days:
            return 0, False
        bounds = {"days": days, "instances": RETENTION_BATCH_INSTANCES}
        deletes = [jobs.delete_jobs_of_destroyed]
        if not self._policy.log_days:
            deletes.insert(0, jobs.delete_log_lines_of_destroyed)
        for delete in deletes:
            if await delete(connection, **bounds, count=RETENTION_BATCH_ROWS) >= RETENTION_BATCH_ROWS:
                return 0, True
        deleted = await jobs.delete_destroyed(connection, **bounds)
        for instance in deleted:
            await self._audit.instance_deleted(connection, instance)
        return len(deleted), len(deleted) >= RETENTION_BATCH_INSTANCES

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
        elif self._clock.monotonic_s() - self._pass_started_s > _DAY_S:
            self._place, self._pass_started_s = _FIRST_PLACE, self._clock.monotonic_s()
        return count, len(seen) >= RETENTION_BATCH_ROWS


def partition_days(kept_days: float) -> float:
    """Return the width of partitions for rows that stay `kept_days`, or forever (0)."""
    if not kept_days:
        return KEPT_FOREVER_PARTITION_DAYS
    return max(SHORTEST_PARTITION_DAYS, min(LONGEST_PARTITION_DAYS, kept_days / PARTITIONS))


CLEANER_INTERVAL_S = 300.0
CLEANER_BATCH_ROWS = 5_000  # in one statement; a larger one would hold its locks longer


class Cleaner:
    """Deletes expired watches, keys and tokens; every process may run one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def clean(self) -> bool:
        """Run one round; return True if there is more to delete."""
        async with self._database.connection() as connection:
            await events.delete_stale_watches(connection, seconds=WATCH_EXPIRY_S)
            old_keys = await audit.delete_idempotency_keys(
                connection, hours=limits.IDEMPOTENCY_KEY_HOURS, count=CLEANER_BATCH_ROWS
            )
            old_tokens = await users.delete_expired_refresh_tokens(connection, count=CLEANER_BATCH_ROWS)
            ended_tokens = await access_tokens.delete_expired(connection, count=CLEANER_BATCH_ROWS)
            old_attempts = max(
                await wrong_sign_ins.delete_empty(connection, count=CLEANER_BATCH_ROWS),
                await wrong_sign_ins.delete_old_passwords(connection, life_s=REPEATED_S, count=CLEANER_BATCH_ROWS),
            )
        rounds = (old_keys, old_tokens, ended_tokens, old_attempts)
        return max(rounds) >= CLEANER_BATCH_ROWS
