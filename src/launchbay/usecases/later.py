"""Turns of background work, such as bulk runs, roll-outs and change sets.

A turn that fails, such as for a row that can't be read, is logged and repeated after a pause that grows. The others
continue.
"""

import time
from collections.abc import Awaitable, Callable, Iterable

import structlog

from launchbay.clock import Backoff
from launchbay.errors import Unavailable

log = structlog.get_logger(__name__)
_AGAIN = Backoff(1.0, 300.0)
_AWAY = 2  # turns in a row without the database: it is away for the others too


class Turns:
    """Gives turns to things of one kind, by ID.

    `turn` returns whether another one is possible at once.
    """

    def __init__(self, kind: str, turn: Callable[[str], Awaitable[bool]]) -> None:
        self._kind = kind
        self._turn = turn
        self._failures: dict[str, tuple[int, float]] = {}

    @property
    def waiting(self) -> list[str]:
        """Those that failed and have no turn yet."""
        now_s = time.monotonic()
        return [each for each, (_, until_s) in self._failures.items() if until_s > now_s]

    async def give(self, ids: Iterable[str]) -> bool:
        """Give each its turn. Return whether another round is possible at once.

        Raises Unavailable when the database is away.
        """
        waiting = set(self.waiting)
        has_more, away = False, 0
        for each in ids:
            if each in waiting:
                continue
            try:
                has_more |= await self._turn(each)
            except Unavailable as error:
                self._note(each, error)
                away += 1
                if away == _AWAY:
                    raise
            except Exception as error:  # noqa: BLE001 - of one: the others must not wait for its repair
                self._note(each, error)
                away = 0
            else:
                self._failures.pop(each, None)
                away = 0
        return has_more

    def _note(self, failed: str, error: Exception) -> None:
        failures = self._failures.get(failed, (0, 0.0))[0] + 1
        now_s, again_s = time.monotonic(), _AGAIN.delay_s(failures)
        # What was deleted meanwhile is forgotten.
        self._failures = {each: noted for each, noted in self._failures.items() if noted[1] > now_s - _AGAIN.longest_s}
        self._failures[failed] = failures, now_s + again_s
        log.warning("turn.failed", kind=self._kind, id=failed, again_s=again_s, exc_info=error)
