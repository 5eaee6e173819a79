"""Whether this process lives, and whether it can answer (api-decisions, "Beyond the reference")."""

import asyncio
import hmac

import msgspec

from launchbay.errors import NotAuthenticated, Unavailable
from launchbay.limits import READY_S
from launchbay.web.requests import Request
from launchbay.web.responses import PROMETHEUS, PlainTextResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Health", prefix="")
metrics_routes = Routes("Health", prefix="")


class Health(msgspec.Struct):
    """The state of this process."""

    status: str


@routes.get(
    "/health/live",
    public=True,
    unlimited=True,
    returns=Returns("The process lives.", {"status": "live"}),
    extension=True,
)
async def health_live(_: Request[None, None]) -> Health:
    """Tells that the process lives."""
    return Health("live")


@routes.get(
    "/health/ready",
    public=True,
    unlimited=True,
    returns=Returns("The process can answer requests.", {"status": "ready"}),
    extension=True,
)
async def health_ready(request: Request[None, None]) -> Health:
    """Tells whether the process can answer requests: whether its database does."""
    asked = asyncio.ensure_future(request.deps.ready())
    asked.add_done_callback(_accept_any_query)
    try:
        answered, _ = await asyncio.wait({asked}, timeout=READY_S)
    finally:
        asked.cancel()  # and not waited for: the driver asks a database that hangs to stop, which takes long
    if not answered:
        raise Unavailable(f"The database did not answer within {READY_S:.0f} s; try again soon.")
    asked.result()
    return Health("ready")


def _accept_any_query(asked: "asyncio.Future[None]") -> None:
    """Take what a question ended with, also when nobody waits for the answer any more."""
    if not asked.cancelled():
        asked.exception()


@metrics_routes.get(
    "/metrics",
    public=True,
    unlimited=True,
    statuses=(401,),
    returns=Returns("The metrics.", media_type=PROMETHEUS, type=str),
    extension=True,
)
async def read_metrics(request: Request[None, None]) -> Response:
    """Shows the metrics of this process in Prometheus' text format."""
    token = request.deps.metrics_token
    if token and not hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {token}".encode()):
        raise NotAuthenticated("The metrics need the token of LAUNCHBAY_METRICS_TOKEN: Authorization: Bearer <token>.")
    return PlainTextResponse(await request.deps.metrics(), PROMETHEUS)
