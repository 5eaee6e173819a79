"""Applications, their manifests and revisions (reference §4)."""

from typing import Any

import msgspec

from launchbay.usecases import applications
from launchbay.usecases.launching import launch
from launchbay.web.answers import Answer, Json
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, JsonBody, Returns, YamlBody
from launchbay.web.handlers.shapes import Created, NameBody, Named

_TAGS = ("Applications",)
_ID = "5f" * 12


class ManifestVersion(msgspec.Struct):
    """The number of a manifest version."""

    version: int


class FindingShape(msgspec.Struct):
    """One finding of the manifest checker."""

    message: str
    line: int
    column: int
    code: str


class Findings(msgspec.Struct):
    """What the checker has to say."""

    errors: list[FindingShape]
    warnings: list[FindingShape]


class LaunchBody(msgspec.Struct):
    """A launch in the current form. The obsolete form puts the parameters beside the settings (reference §4)."""

    revisionId: str | None = None
    version: int | str | None = None
    environmentId: str | None = None
    destroyInterval: int | str | None = None
    instanceName: str | None = None
    parameters: dict[str, Any] | None = None
    submodules: dict[str, Any] | None = None


async def list_applications(call: Call[None, None]) -> Answer:
    """List applications."""
    rows = await applications.list_applications(call.services.desk, call.actor, call.path["orgId"])
    return Json([Named(row.id, row.name) for row in rows])


async def create_application(call: Call[NameBody, None]) -> Answer:
    """Create an application."""
    return Json(
        Created(
            await applications.create_application(call.services.desk, call.actor, call.path["orgId"], call.body.name)
        )
    )


async def replace_manifest(call: Call[str, None]) -> Answer:
    """Store a new manifest version."""
    return Json(
        ManifestVersion(
            await applications.replace_manifest(call.services.desk, call.actor, call.path["appId"], call.body)
        )
    )


async def launch_application(call: Call[dict[str, Any], None]) -> Answer:
    """Launch an application."""
    return Json(Created(await launch(call.services.desk, call.actor, call.path["appId"], call.body)))


async def validate_manifest(call: Call[str, None]) -> Answer:
    """Check a manifest without storing it."""
    found = await applications.validate_manifest(call.services.desk, call.actor, call.body)
    shapes = [
        (finding.severity, FindingShape(finding.message, finding.line, finding.column, finding.code))
        for finding in found
    ]
    return Json(
        Findings(
            [shape for severity, shape in shapes if severity == "error"],
            [shape for severity, shape in shapes if severity == "warning"],
        )
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/applications",
        operation_id="list_applications",
        handler=list_applications,
        summary="Lists the applications of an organization.",
        tags=_TAGS,
        permission="Read on each application shown.",
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
        method="PUT",
        path="/api/1/applications/{appId}/manifest",
        operation_id="replace_manifest",
        handler=replace_manifest,
        summary="Replaces the manifest; the new text becomes the newest version.",
        tags=_TAGS,
        permission="EditApplication",
        body=YamlBody(example="launch:\n  steps: []\n"),
        returns=Returns(ManifestVersion, "The new version's number.", {"version": 2}),
        statuses=(403,),
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
            dict[str, Any],
            required=False,
            media_optional=True,
            example={"instanceName": "demo", "parameters": {"input.size": 2}},
        ),
        returns=Returns(Created, "The id of the launched instance.", {"id": _ID}),
        statuses=(403,),
        idempotency_key=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/manifests/validate",
        operation_id="validate_manifest",
        handler=validate_manifest,
        summary="Checks a manifest and returns its errors and warnings; stores nothing.",
        tags=_TAGS,
        permission="None: everybody may check a text of their own.",
        body=YamlBody(example="launch:\n  steps: []\n"),
        returns=Returns(Findings, "What was found.", {"errors": [], "warnings": []}),
        addition=True,
    ),
)
