"""The metrics of this process, for Prometheus (api-decisions, "Beyond the reference")."""

import hmac

from launchbay.errors import NotAuthenticated
from launchbay.web.answers import PROMETHEUS, Answer, Text
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns


async def read_metrics(call: Call[None, None]) -> Answer:
    """Show counters and load. They are open unless the operator has set a token; they name no object and no person."""
    token = call.services.metrics_token
    if token and not hmac.compare_digest(call.headers.get("authorization", "").encode(), f"Bearer {token}".encode()):
        raise NotAuthenticated("The metrics need the token of LAUNCHBAY_METRICS_TOKEN: Authorization: Bearer <token>.")
    return Text(await call.services.metrics(), PROMETHEUS)


ENDPOINTS = (
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
