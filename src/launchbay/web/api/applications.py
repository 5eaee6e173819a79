"""Applications and their launch (reference §4, Applications; api-decisions, "Beyond the reference")."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import applications
from launchbay.usecases.launch import launch
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Created, NameBody, Named, Paging, Response, list_response
from launchbay.web.routing import Returns, Routes

routes = Routes("Applications")

_ID = "5f" * 12


class ApplicationDocument(msgspec.Struct):
    """An application in full. `version` is that of its newest manifest, `sourceUrl` where that is loaded from, without
    the query; `createdAt` is milliseconds since the Unix epoch."""

    id: str
    name: str
    organizationId: str
    version: int
    sourceUrl: str | None
    createdAt: int


# Any object: the obsolete form puts the parameters beside the settings. `usecases/launch_request.py` reads both forms.
LaunchBody = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="All fields are optional, and null counts as left out. In the obsolete form the parameters stand "
        "beside the other fields.",
        extra_json_schema={
            "properties": {
                "revisionId": {"type": ["string", "null"], "description": "The revision to launch."},
                "version": {
                    "type": ["integer", "string", "null"],
                    "description": "The manifest version; the newest by default. It wins over the revision's.",
                },
                "environmentId": {"type": ["string", "null"], "description": "By default the default environment."},
                "destroyInterval": {
                    "type": ["integer", "string", "null"],
                    "description": "Milliseconds until the instance is destroyed; -1 is never, an hour the default.",
                },
                "instanceName": {"type": ["string", "null"], "description": "Generated when left out."},
                "parameters": {"type": ["object", "null"], "description": "Name to value."},
                "submodules": {"type": ["object", "null"], "description": "Submodule id to its configuration."},
            }
        },
    ),
]


@routes.get(
    "/organizations/{orgId}/applications",
    permission="Read on each application shown.",
    returns=Returns("The applications, by name.", [{"id": _ID, "name": "petclinic"}], type=list[Named]),
    statuses=(403,),
)
async def list_applications(request: Request[None, Paging]) -> Response:
    """Lists the applications of an organization."""
    rows = await applications.list_applications(request.ctx, request.path["orgId"])
    return list_response(request, [Named(row.id, row.name) for row in rows])


@routes.post(
    "/organizations/{orgId}/applications",
    permission="CreateApplication",
    body=JsonBody(example={"name": "petclinic"}),
    returns=Returns("The id of the new application.", {"id": _ID}),
    statuses=(403,),
    idempotency_key=True,
)
async def create_application(request: Request[NameBody, None]) -> Created:
    """Creates an application with the default no-op manifest."""
    return Created(await applications.create_application(request.ctx, request.path["orgId"], request.body.name))


@routes.get(
    "/applications/{appId}",
    permission="Read",
    returns=Returns("The application."),
    statuses=(403,),
    extension=True,
)
async def read_application(request: Request[None, None]) -> ApplicationDocument:
    """Reads an application."""
    found = await applications.read_application(request.ctx, request.path["appId"])
    return ApplicationDocument(
        id=found.id,
        name=found.name,
        organizationId=found.organization_id,
        version=found.latest_version,
        sourceUrl=found.source_url,
        createdAt=to_ms(found.created_at),
    )


@routes.put(
    "/applications/{appId}",
    permission="EditApplication",
    body=JsonBody(example={"name": "petclinic"}),
    statuses=(403,),
    extension=True,
)
async def rename_application(request: Request[NameBody, None]) -> None:
    """Renames an application."""
    await applications.rename_application(request.ctx, request.path["appId"], request.body.name)


@routes.delete(
    "/applications/{appId}",
    permission="DeleteApplication",
    statuses=(400, 403),
    extension=True,
)
async def delete_application(request: Request[None, None]) -> None:
    """Deletes an application whose instances are all destroyed, with its manifests and revisions."""
    await applications.delete_application(request.ctx, request.path["appId"])


@routes.post(
    "/applications/{appId}/launch",
    permission="CreateInstance on the application and the environment",
    body=JsonBody(
        required=False, media_optional=True, example={"instanceName": "demo", "parameters": {"input.size": 2}}
    ),
    returns=Returns("The id of the launched instance.", {"id": _ID}),
    statuses=(403,),
    idempotency_key=True,
)
async def launch_application(request: Request[LaunchBody, None]) -> Created:
    """Launches the application into a new instance."""
    return Created(await launch(request.ctx, request.path["appId"], request.body))
