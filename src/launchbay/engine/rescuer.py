"""Requeues the jobs of dead workers; runs eight times per lease in every worker process.

A worker is dead if its heartbeat stayed the same for the length of a lease while another process watched it. Only the
watcher's monotonic time counts, and only while it could watch: no two clocks are compared.
See docs/decisions/0081-a-worker-is-dead-when-it-was-seen-silent.md.
"""

import psycopg

from launchbay.clock import Clock
from launchbay.engine.queue import Queue, WorkerHeartbeat
from launchbay.store.database import unavailable


class Rescuer:
    """Watches the heartbeats of all workers. Call `check` every `interval_s`."""

    def __init__(self, queue: Queue, clock: Clock, stalled_after_s: float) -> None:
        self._queue = queue
        self._clock = clock
        self._stalled_after_s = stalled_after_s
        self.interval_s = stalled_after_s / 8
        self._seen_at: dict[WorkerHeartbeat, float] = {}  # in watched seconds
        self._watched_s = 0.0
        self._checked_at_s = clock.monotonic_s()

    async def check(self) -> None:
        """Record new heartbeats and requeue the jobs of workers that were silent too long. Raises Unavailable."""
        try:
            heartbeats = await self._queue.heartbeats()
            self._add_watched_time()
            self._seen_at = {each: self._seen_at.get(each, self._watched_s) for each in heartbeats}
            silent = [each for each, at in self._seen_at.items() if self._watched_s - at >= self._stalled_after_s]
            await self._queue.rescue(silent)
        except psycopg.Error as error:
            raise unavailable(error) or error from error

    def _add_watched_time(self) -> None:
        """Add the time since the last check, at most two intervals.

        While this process was suspended or the database unavailable, no heartbeat could be seen: silence means nothing.
        """
        now = self._clock.monotonic_s()
        self._watched_s += min(now - self._checked_at_s, 2 * self.interval_s)
        self._checked_at_s = now
