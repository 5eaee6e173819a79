"""The bound of what an organization may have waiting: beyond it, new work is refused until some of it has started."""

from launchbay import limits
from launchbay.clock import Clock
from launchbay.errors import Unavailable
from launchbay.store import jobs
from launchbay.store.database import Connection

_SAMPLE_S = 1.0  # how old a count may be; meanwhile a process may accept what it can in that time
_RETRY_AFTER_S = 5


class Backlog:
    """Counts, for each organization at most once a second, the jobs that wait for a place to run."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._sampled: dict[str, tuple[float, int]] = {}

    async def refuse_beyond(self, connection: Connection, organization_id: str) -> None:
        """Raise Unavailable, which says when to come again, while the organization has too many jobs waiting.

        Each organization has a bound of its own, so that one that asks for too much keeps out nobody else.
        """
        now_s = self._clock.monotonic_s()
        at_s, waiting = self._sampled.get(organization_id, (float("-inf"), 0))
        if now_s - at_s >= _SAMPLE_S:
            waiting = await jobs.backlog(connection, organization_id=organization_id, most=self._most) or 0
            if len(self._sampled) >= limits.BACKLOGS_KNOWN:
                self._sampled.clear()
            self._sampled[organization_id] = (now_s, waiting)
        if waiting >= self._most:
            raise Unavailable(
                f"Your organization has {waiting} or more jobs that wait to be started, and more are not taken now.",
                f"Try again in {_RETRY_AFTER_S} s. The operator can raise LAUNCHBAY_QUEUE_LIMIT or add workers.",
                code="QueueFull",
                retry_after_s=_RETRY_AFTER_S,
            )
