"""Throws away what has served its time: old answers under keys, events that nobody will ask for, expired tokens."""

from launchbay import limits
from launchbay.store import audit, events, users, webhooks
from launchbay.store.database import Database
from launchbay.store.events import FORGET_S

CLEAN_S = 300.0
BATCH = 5_000  # one transaction; a larger one would hold its locks longer


class Cleaner:
    """Cleans up; every process may run one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def clean(self) -> bool:
        """Do one round; True when there is more to do at once."""
        async with self._database.connection() as connection:
            await events.forget_watches(connection, seconds=FORGET_S)
            old_keys = await audit.forget(connection, hours=limits.IDEMPOTENCY_KEY_HOURS, count=BATCH)
            old_events = await events.forget_events(connection, days=limits.EVENTS_KEPT_DAYS, count=BATCH)
            excess = await webhooks.drop_excess(
                connection,
                most=limits.WEBHOOK_PENDING,
                count=BATCH,
                reason="Too many deliveries wait for this webhook.",
            )
            old_deliveries = await webhooks.forget_deliveries(connection, days=limits.WEBHOOK_LOG_DAYS, count=BATCH)
            old_tokens = await users.forget_expired(connection, count=BATCH)
        return max(old_keys, old_events, excess, old_deliveries, old_tokens) >= BATCH
