"""Other servers of the same machine, which compete for its processors.

Requests take turns on all of them (decision 0118).
"""

import asyncio
import secrets
from collections import Counter
from pathlib import Path

import structlog

from launchbay.errors import Unavailable
from launchbay.fairness.turns import RequestTurns
from launchbay.ids import is_id
from launchbay.store import quotas as store
from launchbay.store.database import Database, DatabaseError

log = structlog.get_logger(__name__)


TELL_S = 1.0
_HEARD_S = 2.5  # what was told counts for so long
_LOOKS = 5  # in TELL_S: an organization with a few requests per second is seen
_STILL = 5  # times TELL_S after the last request, a server still tells and hears
_MOST_TOLD = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a machine


def this_machine() -> str:
    """Return what tells this machine from others, or "" if nothing does."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""


class OtherServers:
    """Tells other servers of this machine and database who sends requests here.

    It hears the same of them. A server that is idle for some seconds neither tells nor asks.
    """

    def __init__(self, database: Database, turns: RequestTurns, machine: str) -> None:
        self._database = database
        self.turns = turns
        self._machine = machine
        self._server = secrets.token_hex(8)

    async def keep_current(self) -> None:
        """Exchange every TELL_S until cancelled, at once when requests begin to come."""
        idle = _STILL + 1
        while self._machine:
            seen = set[str]()
            for _ in range(_LOOKS):
                await asyncio.sleep(TELL_S / _LOOKS)
                seen |= {*self.turns.active()}
                if seen and idle > _STILL:
                    break
            idle = 0 if seen else idle + 1
            try:
                if idle <= _STILL:
                    await self.exchange(sorted(filter(is_id, seen))[:_MOST_TOLD])
            except (Unavailable, DatabaseError) as error:
                self.turns.elsewhere = {}
                log.info("other_servers.not_heard", error=str(error), repeats=True)

    async def exchange(self, here: list[str]) -> None:
        """Write down who sends requests here, and read who does elsewhere. Raises Unavailable."""
        async with self._database.connection() as connection:
            heard = await store.exchange_activity(
                connection, server=self._server, machine=self._machine, organizations=here, heard_s=_HEARD_S
            )
        self.turns.elsewhere = Counter(heard)
