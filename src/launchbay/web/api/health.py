"""Whether this process lives, and whether it can answer (api-decisions, "Beyond the reference")."""

import asyncio
import hmac
from typing import Any

import msgspec

from launchbay.errors import NotAuthenticated, Unavailable
from launchbay.limits import READY_S
from launchbay.web.requests import Call
from launchbay.web.responses import PROMETHEUS, Answer, Json, Text
from launchbay.web.routing import Endpoint, Returns


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


async def read_metrics(call: Call[None, None]) -> Answer:
    """Show counters and load. They are open unless the operator has set a token; they name no object and no person."""
    token = call.services.metrics_token
    if token and not hmac.compare_digest(call.headers.get("authorization", "").encode(), f"Bearer {token}".encode()):
        raise NotAuthenticated("The metrics need the token of LAUNCHBAY_METRICS_TOKEN: Authorization: Bearer <token>.")
    return Text(await call.services.metrics(), PROMETHEUS)


METRICS_ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/metrics",
        operation_id="read_metrics",
        handler=read_metrics,
        summary="Shows the metrics of this process in Prometheus' text format.",
        tags=("Health",),
        public=True,
        unlimited=True,
        statuses=(401,),
        returns=Returns(str, "The metrics.", media_type=PROMETHEUS),
        addition=True,
    ),
)
