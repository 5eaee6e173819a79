"""The small repeated duties of a worker process, all in one loop shape."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from launchbay.errors import Unavailable

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something done again and again. A round that returns a true value is followed by the next at once."""

    name: str
    interval_s: float
    round: Callable[[], Awaitable[object]]


async def attend(duty: Duty, stop: asyncio.Event) -> None:
    """Do a duty until `stop`. A round that fails is logged and tried again at its next time, whatever the reason.

    A duty that ended for one bad round would be missed only when it is needed most.
    """
    while not stop.is_set():
        again = None
        try:
            again = await duty.round()
        except Unavailable as error:
            log.warning("duty.postponed", duty=duty.name, error=str(error))
        except Exception:
            log.exception("duty.failed", duty=duty.name)
        if again:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(duty.interval_s):
                await stop.wait()
        except TimeoutError:
            continue
