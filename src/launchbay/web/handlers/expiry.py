"""When an instance is destroyed by itself (api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.usecases.instances import set_destroy_at
from launchbay.web.answers import Answer, Empty
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, JsonBody


class DestroyAt(msgspec.Struct):
    """Milliseconds since the Unix epoch; -1 is never."""

    destroyAt: int


async def put_destroy_at(call: Call[DestroyAt, None]) -> Answer:
    """Move the expiry of an instance."""
    await set_destroy_at(call.services.desk, call.actor, call.path["id"], call.body.destroyAt)
    return Empty()


ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="/api/1/instances/{id}/destroyAt",
        operation_id="set_destroy_at",
        handler=put_destroy_at,
        summary="Sets when the instance is destroyed by itself; -1 lets it live on.",
        tags=("Instances",),
        permission="EditInstance",
        body=JsonBody(DestroyAt, example={"destroyAt": 1_798_761_600_000}),
        statuses=(403,),
        addition=True,
    ),
)
