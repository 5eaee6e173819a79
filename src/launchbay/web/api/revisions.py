"""Named revisions of applications (reference §4, Applications; conformance.md, "Beyond the reference")."""

from typing import Any

import msgspec

from launchbay.clock import to_ms
from launchbay.model.scalars import decode_json
from launchbay.usecases import revisions
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import Created, Named, Paging, Response, list_response
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Revisions")

_EXAMPLE = {"name": "stable", "version": 2, "parameters": {"input.size": 2}, "environmentId": EXAMPLE_ID}


class NewRevision(RevisionRequest, frozen=True, kw_only=True):
    """A new revision. Unlike a change, it requires a name."""

    name: str


class RevisionDocument(msgspec.Struct):
    """A revision; `createdAt` is in milliseconds since the Unix epoch.

    Each manifest version has one with an empty name: that of launches which name none.
    """

    id: str
    name: str
    applicationId: str
    version: int
    parameters: dict[str, Any]
    environmentId: str | None
    submodules: dict[str, Any]
    createdAt: int


@routes.get(
    "/applications/{appId}/revisions",
    permission="Read",
    returns=Returns("The revisions, by name.", [{"id": EXAMPLE_ID, "name": "stable"}], type=list[Named]),
)
async def list_revisions(request: Request[None, Paging]) -> Response:
    """List the named revisions of an application."""
    rows = await revisions.list_revisions(request.ctx, request.path["appId"])
    return list_response(request, [Named(row.id, row.name) for row in rows])


@routes.post(
    "/applications/{appId}/revisions",
    permission="EditApplication; Read on the instance or environment named",
    body=JsonBody(required=True, example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("The ID of the new revision.", {"id": EXAMPLE_ID}),
    statuses=(409,),
    extension=True,
    idempotency_key=True,
)
async def create_revision(request: Request[NewRevision, None]) -> Created:
    """Create a revision from an instance, or from a manifest version with parameters."""
    return Created(await revisions.create_revision(request.ctx, request.path["appId"], request.body))


@routes.get(
    "/revisions/{revId}", permission="Read on its application", returns=Returns("The revision."), extension=True
)
async def read_revision(request: Request[None, None]) -> RevisionDocument:
    """Show a revision."""
    found = await revisions.read_revision(request.ctx, request.path["revId"])
    return RevisionDocument(
        id=found.id,
        name=found.name,
        applicationId=found.application_id,
        version=found.version,
        parameters=msgspec.json.decode(found.parameters),
        environmentId=found.environment_id,
        submodules=decode_json(found.submodules),
        createdAt=to_ms(found.created_at),
    )


@routes.put(
    "/revisions/{revId}",
    permission="EditApplication on its application; Read on the instance or environment named",
    body=JsonBody(required=True, example={"name": "stable", "version": 3}, keeps_texts=TYPED),
    statuses=(409,),
    extension=True,
)
async def change_revision(request: Request[RevisionRequest, None]) -> None:
    """Change a revision. Omitted fields stay unchanged."""
    await revisions.change_revision(request.ctx, request.path["revId"], request.body)


@routes.delete("/revisions/{revId}", permission="EditApplication on its application", extension=True)
async def delete_revision(request: Request[None, None]) -> None:
    """Delete a revision. Instances launched from it stay."""
    await revisions.delete_revision(request.ctx, request.path["revId"])
