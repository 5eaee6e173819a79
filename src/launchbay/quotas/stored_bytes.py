"""Sizes of logs and journals (decision 0098), and numbers of instances (decision 0138).

Workers add what they write, every SAVE_S. Deletions are found by a look at the rows, which corrects the sums.
Triggers note each new and each destroyed instance, and `fold_instance_counts` adds these notes up.
"""

import time
from collections import Counter

import structlog

from launchbay.quotas.bounds import Quota, Quotas
from launchbay.store import quotas as store
from launchbay.store.database import Database

log = structlog.get_logger(__name__)
SAVE_S = 2.0
FOLD_S = 5.0
MEASURE_S = 30.0  # between two looks for an organization whose rows should be measured
MEASURED_AGAIN_S = 600.0
MEASURED_AT_ONCE = 16  # instances in one statement: with long histories, more would take longer than a statement may
MEASURED_PIECE_S = 0.5  # after a statement that took longer, fewer


async def fold_instance_counts(database: Database) -> None:
    """Add up how the numbers of instances have changed. Raises Unavailable."""
    async with database.connection() as connection:
        await store.fold_instance_counts(connection)


class StoredBytes:
    """What this process has written since the last `save`, and whose logs are full."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self._database = database
        self._quotas = quotas
        self._log_bytes: Counter[str] = Counter()
        self._journal_bytes: Counter[str] = Counter()
        self._full: set[str] = set()

    def add(self, organization_id: str, log_bytes: int, journal_bytes: int) -> None:
        """Count what a job of the organization has written."""
        self._log_bytes[organization_id] += log_bytes
        self._journal_bytes[organization_id] += journal_bytes

    def are_logs_full(self, organization_id: str) -> bool:
        """Return whether the quota of logs was used up at the last `save`."""
        return organization_id in self._full

    async def save(self) -> None:
        """Add what was written to the sums. Raises Unavailable."""
        asked = sorted({*self._log_bytes, *self._full})
        if not asked:
            return
        log_bytes, journal_bytes = self._log_bytes, self._journal_bytes
        self._log_bytes, self._journal_bytes = Counter(), Counter()
        try:
            async with self._database.connection() as connection:
                await self._quotas.read_own(connection)
                sums = await store.add_bytes(
                    connection,
                    organization_ids=asked,
                    log_bytes=[log_bytes[each] for each in asked],
                    journal_bytes=[journal_bytes[each] for each in asked],
                )
        except BaseException:
            self._log_bytes.update(log_bytes)
            self._journal_bytes.update(journal_bytes)
            raise
        allowed = {row.organization_id: self._quotas.allowed(row.organization_id, Quota.LOG_BYTES) for row in sums}
        self._full = {row.organization_id for row in sums if 0 < allowed[row.organization_id] <= row.log_bytes}

    async def measure(self) -> bool:
        """Measure one organization if that is due; return whether one was.

        It counts the instances again, too. Raises Unavailable, also for one that alone takes longer than a statement
        may: the sums stay.
        """
        async with self._database.connection() as connection:
            organization_id = await store.claim_measurement(connection, interval_s=MEASURED_AGAIN_S)
            if organization_id is None:
                return False
            if missing := await store.correct_instance_count(connection, organization_id=organization_id):
                log.error("quotas.instances_miscounted", organization_id=organization_id, missing=missing)
        started_s = time.monotonic()
        log_bytes = journal_bytes = 0
        last_id: str | None = ""
        instances = 1
        while last_id is not None:
            began_s = time.monotonic()
            async with self._database.connection() as connection:
                piece = await store.measure(
                    connection, organization_id=organization_id, after=last_id, instances=instances
                )
            assert piece is not None, "sums give a row"
            last_id = piece.last_id
            log_bytes += piece.log_bytes
            journal_bytes += piece.journal_bytes
            is_quick = time.monotonic() - began_s < MEASURED_PIECE_S
            instances = min(2 * instances, MEASURED_AT_ONCE) if is_quick else max(instances // 4, 1)
        async with self._database.connection() as connection:
            await store.set_measured(
                connection,
                organization_id=organization_id,
                log_bytes=log_bytes,
                journal_bytes=journal_bytes,
                took_s=time.monotonic() - started_s,
            )
        return True
