"""Reconfiguration and previews (reference §4, configuration; conformance.md, "Beyond the reference")."""

from typing import Annotated, Any

import msgspec

from launchbay.usecases import preview, reconfigure
from launchbay.usecases.preview import Preview
from launchbay.web.api.workflows import ForcedDestroyQuery
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import EmptyResponse, IncludeQuery, LaunchQuery, Response, job_headers
from launchbay.web.routing import Returns, Routes

routes = Routes()

_EXAMPLE = {"parameters": {"input.size": 3}, "submodules": {"db": {"manifestVersion": 4}}}
_PREVIEW = {
    "components": [
        {
            "path": "web.workflow",
            "change": "changes",
            "parameters": [{"name": "input.size", "from": 1, "to": 3, "reset": False}],
            "link": None,
            "instanceId": None,
        }
    ],
    "workflows": ["web.workflow#resize"],
    "errors": [],
    "warnings": [],
    "steps": 2,
    "approvals": 0,
    "estimate": None,
}
_LAUNCH_PREVIEW = {
    **_PREVIEW,
    "workflows": ["web.workflow#launch"],
    "estimate": {"launches": 20, "usualDurationMs": 220000, "slowDurationMs": 300000},
}

# Any object: `usecases/launch_request.py` reads it, and reports errors better than a type could. A preview returns the
# errors, so its body really is any object.
ConfigurationBody = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="All fields are optional. Omitted parameters are reset to their defaults.",
        extra_json_schema={
            "properties": {
                "instanceName": {"type": ["string", "null"], "description": "The new name. Default: unchanged."},
                "manifestVersion": {
                    "type": ["integer", "string", "null"],
                    "description": "The new manifest version. Overrides the revision's.",
                },
                "revisionId": {"type": ["string", "null"], "description": "The new revision."},
                "parameters": {"type": ["object", "null"], "description": "Values by parameter name."},
                "submodules": {
                    "type": ["object", "null"],
                    "description": "Configurations by submodule ID. In one, `revisionId: null` means an own child.",
                },
            }
        },
    ),
]


class Accepted(msgspec.Struct):
    """With `include=warnings`, `warnings` name what was ignored."""

    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


@routes.put(
    "/instances/{id}/configuration",
    tags=("Instances",),
    permission="EditInstance; CreateInstance on applications of new submodules",
    body=JsonBody(required=False, example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("Nothing, or with `include=warnings` what was ignored.", {}, type=Accepted),
    statuses=(409,),
    starts_job=True,
)
async def reconfigure_instance(request: Request[ConfigurationBody, IncludeQuery]) -> Response:
    """Reconfigure an instance. Replaces all parameters: an omitted one gets its default.
    The change takes effect after the response.
    """
    started = await reconfigure.reconfigure(request.ctx, request.path["id"], request.body)
    return EmptyResponse(job_headers(started))


@routes.post(
    "/instances/{id}/configuration/preview",
    command="instance preview",
    tags=("Instances",),
    permission="EditInstance; CreateInstance on applications of new submodules",
    body=JsonBody(required=False, example=_EXAMPLE, keeps_texts=TYPED),
    returns=Returns("What would happen.", _PREVIEW),
    extension=True,
    shown_by="read_instance",
)
async def preview_configuration(request: Request[dict[str, Any], None]) -> Preview:
    """Preview a reconfiguration without changing anything. An omitted parameter gets its default."""
    return await preview.preview_configuration(request.ctx, request.path["id"], request.body)


class PreviewedVersion(msgspec.Struct, frozen=True):
    """The version."""

    version: Annotated[int, msgspec.Meta(ge=1, lt=2**31, description="Default: the newest.")] | None = None


@routes.get(
    "/instances/{id}/configuration/preview",
    command="instance preview-version",
    tags=("Instances",),
    permission="EditInstance; Read on the application if no version is named",
    returns=Returns("What would happen.", _PREVIEW),
    extension=True,
)
async def preview_version(request: Request[None, PreviewedVersion]) -> Preview:
    """Preview another manifest version. Parameters and submodules stay."""
    return await preview.preview_version(request.ctx, request.path["id"], request.query.version)


@routes.post(
    "/instances/{id}/destroy/preview",
    command="instance preview-destroy",
    tags=("Instances",),
    permission="EditInstance",
    returns=Returns(
        "What would happen. `errors` name the instances that use this one.",
        {
            "components": [{"path": "web", "change": "stops", "parameters": []}],
            "workflows": ["web#destroy"],
            "errors": [],
            "warnings": [],
        },
    ),
    extension=True,
)
async def preview_destroy(request: Request[None, ForcedDestroyQuery]) -> Preview:
    """Preview the destruction of an instance without changing anything."""
    return await preview.preview_destroy(request.ctx, request.path["id"], force=request.query.force == 1)


@routes.post(
    "/applications/{appId}/launch/preview",
    command="application preview",
    tags=("Applications",),
    permission="CreateInstance on the application, its submodules and the environment",
    body=JsonBody(required=False, example={"parameters": {"input.size": 3}}, keeps_texts=TYPED),
    returns=Returns("What would happen.", _LAUNCH_PREVIEW),
    extension=True,
)
async def preview_launch(request: Request[dict[str, Any], LaunchQuery]) -> Preview:
    """Preview a launch without changing anything."""
    return await preview.preview_launch(request.ctx, request.path["appId"], request.body, request.query.ifExists)
