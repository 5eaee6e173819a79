"""Freezes of environments."""

from typing import Annotated, Any

import msgspec

from launchbay.features.freezes import usecases as freezes
from launchbay.web.requests import JsonBody, Request
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_EXAMPLE: dict[str, Any] = {"reason": "Incident 4711: no changes until the database is back."}


class FreezeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why nothing changes in an environment."""

    reason: Annotated[str, msgspec.Meta(description="Everyone who is refused sees it.")]


class FreezeDocument(msgspec.Struct, kw_only=True):
    """The freeze of an environment. All fields are null if it isn't frozen."""

    reason: str | None
    byId: Annotated[str | None, msgspec.Meta(description="The ID of the user who froze it.")]
    byEmail: str | None
    at: Annotated[int | None, msgspec.Meta(description="Since when, in milliseconds since the Unix epoch.")]


@routes.get(
    "/environments/{envId}/freeze",
    command="environment freeze",
    tags=("Environments",),
    permission="Read",
    returns=Returns(
        "The freeze.", {**_EXAMPLE, "byId": "5f" * 12, "byEmail": "ada@example.com", "at": 1_798_761_600_000}
    ),
)
async def read_freeze(request: Request[None, None]) -> FreezeDocument:
    """Show why nothing changes in an environment."""
    found = await freezes.read_freeze(request.ctx, request.path["envId"])
    if found is None:
        return FreezeDocument(reason=None, byId=None, byEmail=None, at=None)
    freeze, email = found
    return FreezeDocument(reason=freeze.reason, byId=freeze.by_id, byEmail=email, at=freeze.at_ms)


@routes.put(
    "/environments/{envId}/freeze",
    command="environment set-freeze",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_EXAMPLE),
    shown_by=None,  # it waits for launches, and those for the lock of a condition
)
async def set_freeze(request: Request[FreezeBody, None]) -> None:
    """Stop all changes in an environment."""
    await freezes.set_freeze(request.ctx, request.path["envId"], request.body.reason)


@routes.delete(
    "/environments/{envId}/freeze",
    command="environment lift-freeze",
    tags=("Environments",),
    permission="EditEnvironment",
)
async def lift_freeze(request: Request[None, None]) -> None:
    """Allow changes in an environment again."""
    await freezes.set_freeze(request.ctx, request.path["envId"], None)
