"""Frees the jobs of dead workers. See docs/decisions/0081-a-worker-is-dead-when-it-was-seen-silent.md.

No clock is compared with another here. A worker is dead when its heartbeat stood still while somebody watched, for as
long as its lease is; the watcher's own monotonic time counts, and only as far as it did look.
"""

import psycopg

from launchbay.clock import Clock
from launchbay.engine.queue import Queue, WorkerHeartbeat
from launchbay.store.database import unavailable


class Rescuer:
    """Watches the heartbeats of all workers; `look` is one round, to be made every `interval_s`."""

    def __init__(self, queue: Queue, clock: Clock, stalled_after_s: float) -> None:
        self._queue = queue
        self._clock = clock
        self._stalled_after_s = stalled_after_s
        self.interval_s = stalled_after_s / 8
        self._seen_at: dict[WorkerHeartbeat, float] = {}  # in seconds of watching
        self._watched_s = 0.0
        self._looked_at_s = clock.monotonic_s()

    async def check(self) -> None:
        """Note who has beaten, and free the jobs of those who have been silent for too long. Raises Unavailable."""
        try:
            beats = await self._queue.heartbeats()
            self._reset()
            self._seen_at = {beat: self._seen_at.get(beat, self._watched_s) for beat in beats}
            silent = [beat for beat, at in self._seen_at.items() if self._watched_s - at >= self._stalled_after_s]
            await self._queue.rescue(silent)
        except psycopg.Error as error:
            raise unavailable(error) or error from error

    def _reset(self) -> None:
        """Count the time since the last look, as far as it can be called watching.

        While this process stood still, or the database was away, nobody could be heard, and silence means nothing.
        """
        now = self._clock.monotonic_s()
        self._watched_s += min(now - self._looked_at_s, 2 * self.interval_s)
        self._looked_at_s = now
