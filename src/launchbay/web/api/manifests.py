"""The manifests of applications: uploaded, or loaded from a URL (reference §4, Applications; api-decisions)."""

from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import manifests
from launchbay.web.requests import YAML, Call, JsonBody, YamlBody
from launchbay.web.responses import Answer, Json, Yaml
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Manifests",)
_ID = "5f" * 12
_EXAMPLE = "launch:\n  steps: []\n"


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


class VersionItem(msgspec.Struct):
    """A manifest version; `createdAt` is milliseconds since the Unix epoch, `authorId` the user who brought it."""

    version: int
    createdAt: int
    authorId: str


class VersionQuery(msgspec.Struct, frozen=True):
    """Which version to read."""

    version: Annotated[int | None, msgspec.Meta(description="The version; the newest one if left out.")] = None


class SourceBody(msgspec.Struct):
    """Where the manifest is loaded from: an http or https address that needs no credentials."""

    url: str


class RefreshedVersion(msgspec.Struct):
    """The newest version, and whether the refresh made it."""

    version: int
    changed: bool


async def replace_manifest(call: Call[str, None]) -> Answer:
    """Store a new manifest version."""
    return Json(
        ManifestVersion(await manifests.replace_manifest(call.services.desk, call.actor, call.path["appId"], call.body))
    )


async def validate_manifest(call: Call[str, None]) -> Answer:
    """Check a manifest without storing it."""
    found = await manifests.validate_manifest(call.services.desk, call.actor, call.body)
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


async def read_manifest(call: Call[None, VersionQuery]) -> Answer:
    """Read a manifest."""
    return Yaml(await manifests.read_manifest(call.services.desk, call.actor, call.path["appId"], call.query.version))


async def list_manifests(call: Call[None, None]) -> Answer:
    """List manifest versions."""
    rows = await manifests.list_manifests(call.services.desk, call.actor, call.path["appId"])
    return Json([VersionItem(row.version, to_ms(row.created_at), row.author_id) for row in rows])


async def set_manifest_source(call: Call[SourceBody, None]) -> Answer:
    """Set where the manifest is loaded from."""
    return Json(
        ManifestVersion(
            await manifests.set_manifest_source(call.services.desk, call.actor, call.path["appId"], call.body.url)
        )
    )


async def refresh_manifest(call: Call[None, None]) -> Answer:
    """Load the manifest again."""
    found = await manifests.refresh_manifest(call.services.desk, call.actor, call.path["appId"])
    return Json(RefreshedVersion(found.version, found.changed))


ENDPOINTS = (
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
    Endpoint(
        method="GET",
        path="/api/1/applications/{appId}/manifest",
        operation_id="read_manifest",
        handler=read_manifest,
        summary="Reads a manifest version as it was given.",
        tags=_TAGS,
        permission="Read",
        query=VersionQuery,
        returns=Returns(str, "The manifest.", _EXAMPLE, YAML),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/applications/{appId}/manifests",
        operation_id="list_manifests",
        handler=list_manifests,
        summary="Lists the manifest versions of an application.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(
            list[VersionItem],
            "The versions, the newest first.",
            [{"version": 1, "createdAt": 1767225600000, "authorId": _ID}],
        ),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/applications/{appId}/manifestSource",
        operation_id="set_manifest_source",
        handler=set_manifest_source,
        summary="Loads the manifest from a URL from now on; what is there becomes the newest version.",
        tags=_TAGS,
        permission="EditApplication",
        body=JsonBody(SourceBody, example={"url": "https://manifests.example/petclinic.yaml"}),
        returns=Returns(ManifestVersion, "The new version's number.", {"version": 2}),
        statuses=(403, 409),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/applications/{appId}/manifestSource/refresh",
        operation_id="refresh_manifest",
        handler=refresh_manifest,
        summary="Loads the manifest from its URL again; what has changed becomes the newest version.",
        tags=_TAGS,
        permission="EditApplication",
        returns=Returns(RefreshedVersion, "The newest version.", {"version": 3, "changed": True}),
        statuses=(400, 403, 409),
        addition=True,
    ),
)
