"""Liveness, readiness and metrics of this process (conformance.md, "Beyond the reference")."""

import asyncio
import hmac
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from launchbay.errors import NotAuthenticated, Unavailable
from launchbay.limits import READY_S
from launchbay.web.requests import Request
from launchbay.web.responses import PROMETHEUS, PlainTextResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Health", prefix="", extension=True)
metrics_routes = Routes("Health", prefix="", extension=True)


class Health(msgspec.Struct):
    """The state of this process."""

    status: str
    dispatch: Annotated[
        Literal["nats", "postgresql"] | UnsetType,
        Meta(
            description="What tells workers that jobs are ready, on servers with `dispatch_url`. `postgresql`: NATS is"
            " not connected, and jobs may start a second later."
        ),
    ] = UNSET


@routes.get(
    "/health/live",
    command="server live",
    public=True,
    unlimited=True,
    returns=Returns("The process is running.", {"status": "live"}),
)
async def health_live(_: Request[None, None]) -> Health:
    """Report that the process is running."""
    return Health("live")


@routes.get(
    "/health/ready",
    command="server ready",
    public=True,
    unlimited=True,
    returns=Returns("The process can answer requests.", {"status": "ready"}),
)
async def health_ready(request: Request[None, None]) -> Health:
    """Check if the process and its database can answer requests."""
    asked = asyncio.ensure_future(request.deps.ready())
    asked.add_done_callback(_retrieve_exception)
    try:
        answered, _ = await asyncio.wait({asked}, timeout=READY_S)
    finally:
        asked.cancel()  # not awaited: canceling a query of a database that hangs takes long
    if not answered:
        raise Unavailable(f"The database did not answer within {READY_S:.0f} s.")
    asked.result()
    is_up = request.deps.is_dispatch_up
    return Health("ready", UNSET if is_up is None else "nats" if is_up() else "postgresql")


def _retrieve_exception(asked: "asyncio.Future[None]") -> None:
    """Mark the exception of a check as retrieved, so that asyncio doesn't log it."""
    if not asked.cancelled():
        asked.exception()


@metrics_routes.get(
    "/metrics",
    command="server metrics",
    public=True,
    unlimited=True,
    statuses=(401,),
    returns=Returns("The metrics.", media_type=PROMETHEUS, type=str),
)
async def read_metrics(request: Request[None, None]) -> Response:
    """Show the metrics of this process in Prometheus text format."""
    token = request.deps.metrics_token
    if not token:
        raise NotAuthenticated("This server shows no metrics. Its administrator can set LAUNCHBAY_METRICS_TOKEN.")
    if not hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {token}".encode()):
        raise NotAuthenticated("Send the token from LAUNCHBAY_METRICS_TOKEN: Authorization: Bearer <token>.")
    return PlainTextResponse(await request.deps.metrics(), PROMETHEUS)
