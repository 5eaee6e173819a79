"""Named revisions of applications (reference §4, Applications; api-decisions, "Beyond the reference")."""

from typing import Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import revisions
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Created, Empty, Json, Named, Paging, listed
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Revisions",)
_ID = "5f" * 12
_EXAMPLE = {"name": "stable", "version": 2, "parameters": {"input.size": 2}, "environmentId": _ID}


class NewRevision(RevisionRequest, frozen=True, kw_only=True):
    """A revision to be made: unlike a change of one, it needs a name."""

    name: str


class RevisionDocument(msgspec.Struct):
    """A revision in full; `createdAt` is milliseconds since the Unix epoch."""

    id: str
    name: str
    applicationId: str
    version: int
    parameters: dict[str, Any]
    environmentId: str | None
    submodules: dict[str, Any]
    createdAt: int


async def list_revisions(call: Call[None, Paging]) -> Answer:
    """List named revisions."""
    rows = await revisions.list_revisions(call.services.desk, call.actor, call.path["appId"])
    return listed(call, [Named(row.id, row.name) for row in rows])


async def create_revision(call: Call[NewRevision, None]) -> Answer:
    """Create a revision."""
    return Json(Created(await revisions.create_revision(call.services.desk, call.actor, call.path["appId"], call.body)))


async def read_revision(call: Call[None, None]) -> Answer:
    """Read a revision."""
    found = await revisions.read_revision(call.services.desk, call.actor, call.path["revId"])
    return Json(
        RevisionDocument(
            id=found.id,
            name=found.name,
            applicationId=found.application_id,
            version=found.version,
            parameters=msgspec.json.decode(found.parameters),
            environmentId=found.environment_id,
            submodules=msgspec.json.decode(found.submodules),
            createdAt=to_ms(found.created_at),
        )
    )


async def change_revision(call: Call[RevisionRequest, None]) -> Answer:
    """Change a revision."""
    await revisions.change_revision(call.services.desk, call.actor, call.path["revId"], call.body)
    return Empty()


async def delete_revision(call: Call[None, None]) -> Answer:
    """Delete a revision."""
    await revisions.delete_revision(call.services.desk, call.actor, call.path["revId"])
    return Empty()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/applications/{appId}/revisions",
        operation_id="list_revisions",
        handler=list_revisions,
        summary="Lists the named revisions of an application.",
        tags=_TAGS,
        permission="Read",
        query=Paging,
        returns=Returns(list[Named], "The revisions, by name.", [{"id": _ID, "name": "stable"}]),
        statuses=(403,),
    ),
    Endpoint(
        method="POST",
        path="/api/1/applications/{appId}/revisions",
        operation_id="create_revision",
        handler=create_revision,
        summary="Creates a revision from an instance, or from a manifest version with what goes with it.",
        tags=_TAGS,
        permission="EditApplication; Read on the instance or environment named",
        body=JsonBody(NewRevision, required=True, example=_EXAMPLE),
        returns=Returns(Created, "The id of the new revision.", {"id": _ID}),
        statuses=(403, 409),
        addition=True,
        idempotency_key=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/revisions/{revId}",
        operation_id="read_revision",
        handler=read_revision,
        summary="Reads a revision.",
        tags=_TAGS,
        permission="Read on its application",
        returns=Returns(RevisionDocument, "The revision."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/revisions/{revId}",
        operation_id="change_revision",
        handler=change_revision,
        summary="Changes what the body names of a revision.",
        tags=_TAGS,
        permission="EditApplication on its application; Read on the instance or environment named",
        body=JsonBody(RevisionRequest, required=True, example={"name": "stable", "version": 3}),
        statuses=(403, 409),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/revisions/{revId}",
        operation_id="delete_revision",
        handler=delete_revision,
        summary="Deletes a revision; instances launched from it stay.",
        tags=_TAGS,
        permission="EditApplication on its application",
        statuses=(403,),
        addition=True,
    ),
)
