"""Whether this process lives, and whether it can answer (api-decisions, "Beyond the reference")."""

import asyncio
from typing import Any

import msgspec

from launchbay.errors import Unavailable
from launchbay.limits import READY_S
from launchbay.web.answers import Answer, Json
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns


class Health(msgspec.Struct):
    """The state of this process."""

    status: str


async def live(_: Call[None, None]) -> Answer:
    """Answer as long as the event loop turns."""
    return Json(Health("live"))


async def ready(call: Call[None, None]) -> Answer:
    """Ask the database; 503 while it does not answer."""
    asked = asyncio.ensure_future(call.services.ready())
    asked.add_done_callback(_heed)
    try:
        answered, _ = await asyncio.wait({asked}, timeout=READY_S)
    finally:
        asked.cancel()  # and not waited for: the driver asks a database that hangs to stop, which takes long
    if not answered:
        raise Unavailable(f"The database did not answer within {READY_S:.0f} s; try again soon.")
    asked.result()
    return Json(Health("ready"))


def _heed(asked: "asyncio.Future[None]") -> None:
    """Take what a question ended with, also when nobody waits for the answer any more."""
    if not asked.cancelled():
        asked.exception()


_TAGS = ("Health",)
_EXAMPLE: dict[str, Any] = {"status": "live"}

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/health/live",
        operation_id="health_live",
        handler=live,
        summary="Tells that the process lives.",
        tags=_TAGS,
        public=True,
        unlimited=True,
        returns=Returns(Health, "The process lives.", _EXAMPLE),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/health/ready",
        operation_id="health_ready",
        handler=ready,
        summary="Tells whether the process can answer requests: whether its database does.",
        tags=_TAGS,
        public=True,
        unlimited=True,
        returns=Returns(Health, "The process can answer requests.", {"status": "ready"}),
        addition=True,
    ),
)
