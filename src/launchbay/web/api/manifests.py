"""The manifests of applications: uploaded, or loaded from a URL (reference §4, Applications; api-decisions)."""

from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import manifests
from launchbay.web.requests import YAML, JsonBody, Request, YamlBody
from launchbay.web.responses import Response, YAMLResponse
from launchbay.web.routing import Returns, Routes

routes = Routes("Manifests")

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


@routes.put(
    "/applications/{appId}/manifest",
    permission="EditApplication",
    body=YamlBody(example="launch:\n  steps: []\n"),
    returns=Returns("The new version's number.", {"version": 2}),
    statuses=(403,),
)
async def replace_manifest(request: Request[str, None]) -> ManifestVersion:
    """Replaces the manifest; the new text becomes the newest version."""
    return ManifestVersion(await manifests.replace_manifest(request.ctx, request.path["appId"], request.body))


@routes.post(
    "/manifests/validate",
    permission="None: everybody may check a text of their own.",
    body=YamlBody(example="launch:\n  steps: []\n"),
    returns=Returns("What was found.", {"errors": [], "warnings": []}),
    extension=True,
)
async def validate_manifest(request: Request[str, None]) -> Findings:
    """Checks a manifest and returns its errors and warnings; stores nothing."""
    found = await manifests.validate_manifest(request.ctx, request.body)
    shapes = [
        (finding.severity, FindingShape(finding.message, finding.line, finding.column, finding.code))
        for finding in found
    ]
    return Findings(
        [shape for severity, shape in shapes if severity == "error"],
        [shape for severity, shape in shapes if severity == "warning"],
    )


@routes.get(
    "/applications/{appId}/manifest",
    permission="Read",
    returns=Returns("The manifest.", _EXAMPLE, YAML, type=str),
    statuses=(403,),
    extension=True,
)
async def read_manifest(request: Request[None, VersionQuery]) -> Response:
    """Reads a manifest version as it was given."""
    return YAMLResponse(await manifests.read_manifest(request.ctx, request.path["appId"], request.query.version))


@routes.get(
    "/applications/{appId}/manifests",
    permission="Read",
    returns=Returns("The versions, the newest first.", [{"version": 1, "createdAt": 1767225600000, "authorId": _ID}]),
    statuses=(403,),
    extension=True,
)
async def list_manifests(request: Request[None, None]) -> list[VersionItem]:
    """Lists the manifest versions of an application."""
    rows = await manifests.list_manifests(request.ctx, request.path["appId"])
    return [VersionItem(row.version, to_ms(row.created_at), row.author_id) for row in rows]


@routes.put(
    "/applications/{appId}/manifestSource",
    permission="EditApplication",
    body=JsonBody(example={"url": "https://manifests.example/petclinic.yaml"}),
    returns=Returns("The new version's number.", {"version": 2}),
    statuses=(403, 409),
    extension=True,
)
async def set_manifest_source(request: Request[SourceBody, None]) -> ManifestVersion:
    """Loads the manifest from a URL from now on; what is there becomes the newest version."""
    return ManifestVersion(await manifests.set_manifest_source(request.ctx, request.path["appId"], request.body.url))


@routes.post(
    "/applications/{appId}/manifestSource/refresh",
    permission="EditApplication",
    returns=Returns("The newest version.", {"version": 3, "changed": True}),
    statuses=(400, 403, 409),
    extension=True,
)
async def refresh_manifest(request: Request[None, None]) -> RefreshedVersion:
    """Loads the manifest from its URL again; what has changed becomes the newest version."""
    found = await manifests.refresh_manifest(request.ctx, request.path["appId"])
    return RefreshedVersion(found.version, found.changed)
