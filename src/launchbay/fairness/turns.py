"""Turns of requests (decision 0098).

While several organizations send requests, each has the same small number of them under way. An event loop serves what
is ready in order: whoever has most requests under way gets most of it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from launchbay.tenants import TurnQueue, group_of

TURN_S = 0.25  # a request that takes longer mostly waits, and lets the next one begin
CHUNK_TURN_S = 10.0  # a chunk of a list waits for nothing but the database
COMPUTE_TURN_S = 120.0  # a request that computes holds a connection and a thread until its end
ALONE = 16  # requests under way of an organization that is alone
ANSWERS_ALONE = 4  # answers of requests that have waited
CHUNKS_ALONE = 2  # chunks of lists: more don't get through one interpreter any faster
REST = 1.0  # of an organization that floods, as a multiple of what its request took
REST_AFTER_JOB = 6.0  # the same where the request started a job, which takes several times as long
TOGETHER = 4  # of all, while there are several organizations; at least one of each
ACTIVE_S = 0.1  # after its last request, an organization still counts


def _end_nothing() -> None:
    """End a turn that was never taken."""


@dataclass(slots=True, eq=False)
class _Caller:
    who: str
    seen_at_s: float = 0.0
    under_way: int = 0
    waiting: TurnQueue[asyncio.Future[None]] = field(default_factory=TurnQueue)
    is_looked_at: bool = False  # again and again, while some wait


class RequestTurns:
    """Lets the requests of organizations begin in turn. The order within an organization stays.

    Organizations that count together have one share, in which they take turns.

    `alone` requests may be under way of an organization that is alone: in `among`, by default in these turns. With
    `rests_alone`, one that floods has one under way and rests even then. Those count too that send requests to other
    servers of this machine.
    """

    def __init__(self, alone: int = ALONE, among: "RequestTurns | None" = None, *, rests_alone: bool = False) -> None:
        self._alone = alone
        self._rests_alone = rests_alone
        self.elsewhere: Mapping[str, int] = {}  # organizations, and to how many other servers of this machine they send
        self._among = among or self
        self._callers: dict[str, _Caller] = {}
        self._pruned_at_s = 0.0

    async def begin(
        self, who: str, most_s: float = TURN_S, rest: float = REST, *, until_s: float | None = None
    ) -> Callable[[], None]:
        """Wait for a turn of a tenant; return what ends it.

        The turn ends by itself after `most_s`. Who has none at `until_s`, a time of the event loop, continues without.
        """
        loop = asyncio.get_running_loop()
        caller = self.notice(who)
        if self._among is not self:
            self._among.notice(who)
        if caller.waiting or (caller.under_way and caller.under_way >= self._most(caller)):
            if not await self._wait(caller, who, until_s):
                return _end_nothing
        else:
            caller.under_way += 1
        began_s = loop.time()
        timer = loop.call_later(most_s, self._end, caller)

        def end() -> None:
            if timer.cancelled() or timer.when() <= loop.time():
                return
            timer.cancel()
            if self._is_flooding(caller):
                loop.call_later(self._rest(caller, rest) * (loop.time() - began_s), self._end, caller)
            else:
                self._end(caller)

        return end

    async def _wait(self, caller: _Caller, tenant: str, until_s: float | None) -> bool:
        admitted = asyncio.get_running_loop().create_future()
        caller.waiting.put(tenant, admitted)
        self._look_later(caller)
        try:
            async with asyncio.timeout_at(until_s):
                await admitted
        except TimeoutError:
            caller.waiting.discard(tenant, admitted)
            if not admitted.cancelled():  # admitted in the moment in which its time was over
                self._end(caller)
            return False
        except asyncio.CancelledError:
            if admitted.cancelled():
                caller.waiting.discard(tenant, admitted)
            else:
                self._end(caller)
            raise
        return True

    def _look_later(self, caller: _Caller) -> None:
        """Admit some soon: nobody reports that another organization sends no more requests."""
        if not caller.is_looked_at:
            caller.is_looked_at = True
            asyncio.get_running_loop().call_later(ACTIVE_S, self._look_again, caller)

    def _look_again(self, caller: _Caller) -> None:
        caller.is_looked_at = False
        self._admit(caller)
        if caller.waiting:
            self._look_later(caller)

    def _end(self, caller: _Caller) -> None:
        caller.under_way -= 1
        self._admit(caller)

    def _admit(self, caller: _Caller) -> None:
        while caller.waiting and caller.under_way < self._most(caller):
            admitted = caller.waiting.take()
            if not admitted.done():
                caller.under_way += 1
                admitted.set_result(None)

    def _most(self, caller: _Caller) -> int:
        if self._is_flooding(caller):
            return 1
        others = self._others(caller)
        return max(1, min(self._alone, TOGETHER) // (1 + others)) if others else self._alone

    def _is_flooding(self, caller: _Caller) -> bool:
        """Return whether an organization keeps others waiting.

        It has one request under way then, and rests after each as long as it took.
        """
        return len(caller.waiting) > TOGETHER and (self._rests_alone or self._others(caller) > 0)

    def _rest(self, caller: _Caller, rest: float) -> float:
        """Return the rest for an organization that floods: so that all servers together work for it as one would."""
        servers = 1 + self._among.elsewhere.get(caller.who, 0)
        return servers * (1 + rest) - 1

    def _others(self, caller: _Caller) -> int:
        """Return how many other organizations send requests."""
        self.active()  # forgets others
        active: Collection[str] = self._among.active()
        if self._among.elsewhere:
            active = {*active, *self._among.elsewhere}
        return len(active) - (caller.who in active)

    def active(self) -> Collection[str]:
        """Return the organizations that send requests."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._pruned_at_s > ACTIVE_S / 4:
            self._pruned_at_s = now_s
            self._callers = {
                who: each
                for who, each in self._callers.items()
                if each.under_way or each.waiting or now_s - each.seen_at_s < ACTIVE_S
            }
        return self._callers.keys()

    def under_way(self, who: str) -> int:
        """Return how many turns a tenant and what counts with it have now."""
        group = group_of(who)
        return self._callers[group].under_way if group in self._callers else 0

    def notice(self, who: str) -> _Caller:
        """Count a tenant as one that sends requests."""
        group = group_of(who)
        caller = self._callers.get(group)
        if caller is None:
            caller = self._callers[group] = _Caller(group)
        caller.seen_at_s = asyncio.get_running_loop().time()
        return caller
