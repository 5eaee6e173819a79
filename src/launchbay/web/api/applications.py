"""Applications and their launch (reference §4, Applications; conformance.md, "Beyond the reference")."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import applications
from launchbay.usecases.launch import launch
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import (
    Created,
    JSONResponse,
    LabeledPaging,
    LaunchQuery,
    NameBody,
    Named,
    Response,
    job_headers,
    list_response,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Applications")


class ApplicationDocument(msgspec.Struct):
    """An application.

    `version` is the newest manifest version; `sourceUrl` is the URL it is loaded from, without the query. `createdAt`
    is in milliseconds since the Unix epoch.
    """

    id: str
    name: str
    organizationId: str
    version: int
    sourceUrl: str | None
    createdAt: int


class LaunchAnswer(Created):
    """The ID of the instance. `warnings` name what is ignored."""

    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


# Any object: the obsolete form puts parameters and settings on one level. `usecases/launch_request.py` reads both.
LaunchBody = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="All fields are optional; null is the same as omitted. In the obsolete form the parameters are "
        "fields of the body.",
        extra_json_schema={
            "properties": {
                "revisionId": {"type": ["string", "null"], "description": "The revision to launch."},
                "version": {
                    "type": ["integer", "string", "null"],
                    "description": "The manifest version. Overrides the revision's. Default: the newest.",
                },
                "environmentId": {"type": ["string", "null"], "description": "Default: the default environment."},
                "destroyInterval": {
                    "type": ["integer", "string", "null"],
                    "description": "Milliseconds until the instance is destroyed; -1 is never. Default: 1 hour.",
                },
                "instanceName": {"type": ["string", "null"], "description": "Default: generated."},
                "parameters": {"type": ["object", "null"], "description": "Values by parameter name."},
                "submodules": {
                    "type": ["object", "null"],
                    "description": "Configurations by submodule ID. In one, `revisionId: null` means an own child.",
                },
                "labels": {"type": ["object", "null"], "description": "Labels of the instance: names to strings."},
            }
        },
    ),
]


@routes.get(
    "/organizations/{orgId}/applications",
    permission="Read on each application returned",
    returns=Returns("The applications, by name.", [{"id": EXAMPLE_ID, "name": "petclinic"}], type=list[Named]),
)
async def list_applications(request: Request[None, LabeledPaging]) -> Response:
    """List the applications of an organization."""
    rows = await applications.list_applications(request.ctx, request.path["orgId"], request.query.labels)
    return list_response(request, [Named(row.id, row.name) for row in rows])


@routes.post(
    "/organizations/{orgId}/applications",
    permission="CreateApplication",
    body=JsonBody(example={"name": "petclinic"}),
    returns=Returns("The ID of the new application.", {"id": EXAMPLE_ID}),
    idempotency_key=True,
)
async def create_application(request: Request[NameBody, None]) -> Created:
    """Create an application with the default manifest, which does nothing."""
    return Created(await applications.create_application(request.ctx, request.path["orgId"], request.body.name))


@routes.get("/applications/{appId}", permission="Read", returns=Returns("The application."), extension=True)
async def read_application(request: Request[None, None]) -> ApplicationDocument:
    """Show an application."""
    found = await applications.read_application(request.ctx, request.path["appId"])
    created_at = to_ms(found.created_at)
    return ApplicationDocument(
        found.id, found.name, found.organization_id, found.latest_version, found.source_url, created_at
    )


@routes.put(
    "/applications/{appId}", permission="EditApplication", body=JsonBody(example={"name": "petclinic"}), extension=True
)
async def rename_application(request: Request[NameBody, None]) -> None:
    """Rename an application."""
    await applications.rename_application(request.ctx, request.path["appId"], request.body.name)


@routes.delete("/applications/{appId}", permission="DeleteApplication", extension=True)
async def delete_application(request: Request[None, None]) -> None:
    """Delete an application with its manifests and revisions. All its instances must be destroyed."""
    await applications.delete_application(request.ctx, request.path["appId"])


@routes.post(
    "/applications/{appId}/launch",
    permission="CreateInstance on the application and the environment",
    body=JsonBody(
        required=False,
        media_optional=True,
        example={"instanceName": "demo", "parameters": {"input.size": 2}},
        keeps_texts=TYPED,
    ),
    returns=Returns("The ID of the new instance.", {"id": EXAMPLE_ID}, type=LaunchAnswer),
    idempotency_key=True,
    starts_job=True,
)
async def launch_application(request: Request[LaunchBody, LaunchQuery]) -> Response:
    """Launch an application into a new instance."""
    started = await launch(request.ctx, request.path["appId"], request.body, request.query.ifExists)
    return JSONResponse(LaunchAnswer(started.instance_id, request.warnings or msgspec.UNSET), job_headers(started))
