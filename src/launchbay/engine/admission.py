"""Which jobs and requests of one process continue, and which wait.

They share one event loop and one pool of connections. The policy:

1. **Running.** A process has `engine_concurrency` places for jobs that run; one that only waits takes none.
   An organization takes at most four times as many as it leaves free, and the last twentieth is for those that have
   none (`tenants.may_take`, decision 0080).
2. **Waiting.** A job without a place waits in the table `ready`. A claim takes few, so that other processes and
   organizations get theirs, and none of an organization of which enough wait here for their start.
3. **Starting.** STARTING jobs start at a time. Organizations take turns, however many jobs each has (decision 0119).
4. **Accepting.** A burst is accepted at once. When jobs have waited in `ready` for PATIENCE_S, nearly each start of a
   job lets one request through: a job needs several passes of the loop where its acceptance needs one, so that more and
   more would wait.

Decision 0186 has the figures of each rule, and of those that were dropped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from launchbay.tenants import Tenants, TurnQueue, may_take

MOST_CLAIMED = 32  # by one claim, which locks and announces nothing for long
MOST_CLAIMED_EACH = 4  # of an organization by one claim: those behind a long queue wait for few of its jobs
STARTING = 16  # more would only wait for each other at the ten connections of the pool
STARTING_S = 0.05  # after that long, a job that still runs mostly waits
PATIENCE_S = 2.0  # that jobs wait in `ready`, and then a request for a start
DRAINING = 10  # every so many starts lets no request through, so that fewer and fewer jobs wait


class Places:
    """How many jobs of each organization run, without those that only wait."""

    def __init__(self, most: int, tenants: Tenants) -> None:
        self._most = most
        self._tenants = tenants
        self._taken: Counter[str] = Counter()  # by organization

    @property
    def free(self) -> int:
        """How many places nobody has; below 0 after many waits have ended at once."""
        return self._most - self._taken.total()

    def may_take(self, organization_id: str) -> bool:
        """Return whether an organization may take one more place.

        The last ones stay free for those that have none yet, however long the others' jobs take.
        """
        together = sum(self._taken[each] for each in self._tenants.together(organization_id))
        return all(may_take(taken, self.free, self._most) for taken in (self._taken[organization_id], together))

    def full(self) -> list[str]:
        """Return the organizations that may take no more.

        Among them are those that have none, but whose creator has too many.
        """
        groups = {self._tenants.together(name) for name in self._taken}
        return [name for group in groups for name in group if not self.may_take(name)]

    def claimable(self) -> int:
        """Return how many jobs to claim at once.

        Few when few places are left, to share them with other processes.
        """
        return min(max(self.free // 4, 1), MOST_CLAIMED) if self.free > 0 else 0

    def take(self, organization_id: str) -> None:
        """Count a job that runs."""
        self._taken[organization_id] += 1

    def give_back(self, organization_id: str) -> None:
        """Count a job that ran no longer."""
        self._taken[organization_id] -= 1
        if not self._taken[organization_id]:
            del self._taken[organization_id]


@dataclass
class Precedence:
    """Whether a job may start, and a request bring another one.

    All times are in seconds of one clock.
    """

    starting: int = 0  # jobs
    started: int = 0  # jobs, so far
    started_at_s: float = float("-inf")  # when a job last did
    empty_at_s: float = float("-inf")  # when `ready` was last seen empty

    def may_start(self) -> bool:
        """Return whether one more job may start."""
        return self.starting < STARTING

    def start(self, now_s: float) -> bool:
        """Note that a job starts; return whether it lets a request through."""
        self.started_at_s = now_s
        self.started += 1
        return self.started % DRAINING != 0

    def must_wait(self, now_s: float) -> bool:
        """Return whether a request has to wait for the start of a job.

        Where all places are taken for long, none starts, and waiting for one helps nobody.
        """
        return now_s - self.empty_at_s > PATIENCE_S and now_s - self.started_at_s < PATIENCE_S


class Turns:
    """Waits that end in turns of their owners, however many each has.

    A turn that comes together with a cancellation is given back: by default, to the next.
    """

    def __init__(self, give_back: Callable[[], object] | None = None) -> None:
        self._waiting: TurnQueue[asyncio.Future[None]] = TurnQueue()
        self._give_back = give_back or self.give

    async def wait(self, owner: str, timeout_s: float | None = None) -> None:
        """Wait for a turn, or until the time is over."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, turn)
        try:
            await asyncio.wait({turn}, timeout=timeout_s)
        except asyncio.CancelledError:
            if turn.done():
                self._give_back()
            raise
        finally:
            if not turn.done():
                self._waiting.discard(owner, turn)
                turn.cancel()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def count(self, owner: str) -> int:
        """Return how many waits of an owner have not ended."""
        return self._waiting.count(owner)

    def give(self) -> bool:
        """Give a turn, and return whether anybody waited for it."""
        if not self._waiting:
            return False
        self._waiting.take().set_result(None)
        return True


class Admission:
    """Applies the policy to the jobs and requests of one process.

    Tenants are those of `tenants.py`.
    """

    def __init__(self, concurrency: int, tenants: Tenants) -> None:
        self.places = Places(concurrency, tenants)
        self._tenants = tenants
        self._precedence = Precedence()
        self._starts = Turns(self._end_start)
        self._requests = Turns()

    async def turn(self, tenant: str) -> None:
        """Wait until a request may bring a job."""
        if self._precedence.must_wait(_now_s()):
            await self._requests.wait(tenant, PATIENCE_S)

    async def start(self, tenant: str) -> Callable[[], None]:
        """Wait until a job may start; return what ends its start.

        The start ends by itself after STARTING_S.
        """
        if self._precedence.may_start():
            self._precedence.starting += 1
        else:
            await self._starts.wait(tenant)
        if self._precedence.start(_now_s()):
            self._requests.give()
        has_ended = False

        def end() -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                timer.cancel()
                self._end_start()

        timer = asyncio.get_running_loop().call_later(STARTING_S, end)
        return end

    def may_start(self) -> bool:
        """Return whether a job would start at once."""
        return self._precedence.may_start()

    def has_enough(self, organization_id: str) -> bool:
        """Return whether enough jobs of an organization wait for their start.

        No more are claimed then.
        """
        return self._starts.count(self._tenants.of(organization_id)) >= STARTING

    def ready_is_empty(self) -> None:
        """Let all requests continue: no job waits in `ready`."""
        self._precedence.empty_at_s = _now_s()
        while self._requests.give():
            pass

    def _end_start(self) -> None:
        self._precedence.starting -= 1
        if self._precedence.may_start() and self._starts.give():
            self._precedence.starting += 1


def _now_s() -> float:
    return asyncio.get_running_loop().time()
