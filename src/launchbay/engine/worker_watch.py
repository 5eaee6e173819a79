"""Which workers are dead, by this process's monotonic time.

No two clocks are compared (decision 0081).
"""

from collections.abc import Collection

from launchbay.clock import Clock
from launchbay.store.dispatch import WorkerBeat, WorkerRow


class WorkerWatch:
    """Looks for workers that are silent.

    PostgreSQL ends the session of a killed process at once. A worker whose connection broke has a new one after some
    tenths of a second, so half a lease of silence is enough where the session was seen to go (decision 0116).
    """

    def __init__(self, clock: Clock, stalled_after_s: float) -> None:
        self._clock = clock
        self._stalled_after_s = stalled_after_s
        self._beat_seen_s: dict[WorkerBeat, float] = {}  # in watched seconds, as all here
        self._session_seen_s: dict[int, float] = {}  # by worker, the last time
        self._watched_s = 0.0
        self._looked_at_s = clock.monotonic_s()

    def dead(self, workers: Collection[WorkerRow]) -> list[WorkerBeat]:
        """Return workers that were silent for a lease, or half without a session.

        While this process was suspended or the database unavailable, no heartbeat could be seen: silence means nothing.
        So the time since the last look counts for a quarter of a lease at most.
        """
        now_s = self._clock.monotonic_s()
        since_s, most_s = now_s - self._looked_at_s, self._stalled_after_s / 4
        self._looked_at_s = now_s
        self._watched_s += min(since_s, most_s)
        if since_s > most_s:
            self.forget_sessions()
        beats = {row.id: (row.id, row.beat_at) for row in workers}
        self._beat_seen_s = {each: self._beat_seen_s.get(each, self._watched_s) for each in beats.values()}
        self._session_seen_s = {id_: at for id_, at in self._session_seen_s.items() if id_ in beats}
        self._session_seen_s |= {row.id: self._watched_s for row in workers if row.has_session}
        return [each for each in beats.values() if self._is_dead(each)]

    def forget_sessions(self) -> None:
        """Wait for the whole lease of whoever has no session now: it may have ended with all others."""
        self._session_seen_s.clear()

    def _is_dead(self, beat: WorkerBeat) -> bool:
        silent_s = self._watched_s - self._beat_seen_s[beat]
        worker_id, _ = beat
        gone_s = self._watched_s - self._session_seen_s.get(worker_id, self._watched_s)
        return silent_s >= self._stalled_after_s or min(silent_s, gone_s) >= self._stalled_after_s / 2
