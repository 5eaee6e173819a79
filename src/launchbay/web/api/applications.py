"""Applications and their launch (reference §4, Applications; api-decisions, "Beyond the reference")."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import applications
from launchbay.usecases.launch import launch
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Created, Empty, Json, NameBody, Named, Paging, listed
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Applications",)
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


async def list_applications(call: Call[None, Paging]) -> Answer:
    """List applications."""
    rows = await applications.list_applications(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [Named(row.id, row.name) for row in rows])


async def create_application(call: Call[NameBody, None]) -> Answer:
    """Create an application."""
    return Json(
        Created(
            await applications.create_application(call.services.desk, call.actor, call.path["orgId"], call.body.name)
        )
    )


async def read_application(call: Call[None, None]) -> Answer:
    """Read an application."""
    found = await applications.read_application(call.services.desk, call.actor, call.path["appId"])
    return Json(
        ApplicationDocument(
            id=found.id,
            name=found.name,
            organizationId=found.organization_id,
            version=found.latest_version,
            sourceUrl=found.source_url,
            createdAt=to_ms(found.created_at),
        )
    )


async def rename_application(call: Call[NameBody, None]) -> Answer:
    """Rename an application."""
    await applications.rename_application(call.services.desk, call.actor, call.path["appId"], call.body.name)
    return Empty()


async def delete_application(call: Call[None, None]) -> Answer:
    """Delete an application."""
    await applications.delete_application(call.services.desk, call.actor, call.path["appId"])
    return Empty()


async def launch_application(call: Call[dict[str, Any], None]) -> Answer:
    """Launch an application."""
    return Json(Created(await launch(call.services.desk, call.actor, call.path["appId"], call.body)))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/applications",
        operation_id="list_applications",
        handler=list_applications,
        summary="Lists the applications of an organization.",
        tags=_TAGS,
        permission="Read on each application shown.",
        query=Paging,
        returns=Returns(list[Named], "The applications, by name.", [{"id": _ID, "name": "petclinic"}]),
        statuses=(403,),
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations/{orgId}/applications",
        operation_id="create_application",
        handler=create_application,
        summary="Creates an application with the default no-op manifest.",
        tags=_TAGS,
        permission="CreateApplication",
        body=JsonBody(NameBody, example={"name": "petclinic"}),
        returns=Returns(Created, "The id of the new application.", {"id": _ID}),
        statuses=(403,),
        idempotency_key=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/applications/{appId}",
        operation_id="read_application",
        handler=read_application,
        summary="Reads an application.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(ApplicationDocument, "The application."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/applications/{appId}",
        operation_id="rename_application",
        handler=rename_application,
        summary="Renames an application.",
        tags=_TAGS,
        permission="EditApplication",
        body=JsonBody(NameBody, example={"name": "petclinic"}),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/applications/{appId}",
        operation_id="delete_application",
        handler=delete_application,
        summary="Deletes an application whose instances are all destroyed, with its manifests and revisions.",
        tags=_TAGS,
        permission="DeleteApplication",
        statuses=(400, 403),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/applications/{appId}/launch",
        operation_id="launch_application",
        handler=launch_application,
        summary="Launches the application into a new instance.",
        tags=_TAGS,
        permission="CreateInstance on the application and the environment",
        body=JsonBody(
            LaunchBody,
            required=False,
            media_optional=True,
            example={"instanceName": "demo", "parameters": {"input.size": 2}},
        ),
        returns=Returns(Created, "The id of the launched instance.", {"id": _ID}),
        statuses=(403,),
        idempotency_key=True,
    ),
)
