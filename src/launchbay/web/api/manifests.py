"""The manifests of applications: uploaded, or loaded from a URL (reference §4, Applications; conformance.md)."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from launchbay.clock import to_ms
from launchbay.model.findings import Finding
from launchbay.model.manifest_difference import ComponentChange, ManifestDifference
from launchbay.usecases import manifest_differences, manifests
from launchbay.web.requests import YAML, JsonBody, Request, YamlBody
from launchbay.web.responses import IncludeQuery, JSONResponse, Response, YAMLResponse
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Manifests")

_EXAMPLE = "launch:\n  steps: []\n"


class FindingShape(msgspec.Struct):
    """One finding of the manifest checker."""

    message: str
    line: int
    column: int
    code: str


class ManifestVersion(msgspec.Struct, omit_defaults=True):
    """A manifest version. Warnings at line 0 are about the request."""

    version: int
    warnings: list[FindingShape] = []


class Findings(msgspec.Struct):
    """The findings of the manifest checker."""

    errors: list[FindingShape]
    warnings: list[FindingShape]


class VersionItem(msgspec.Struct):
    """A manifest version.

    `createdAt` is in milliseconds since the Unix epoch, `authorId` the user who stored it. `message` says what it
    changed, in the words of this user.
    """

    version: int
    createdAt: int
    authorId: str
    message: str | None


class VersionQuery(msgspec.Struct, frozen=True):
    """Which version to read."""

    version: Annotated[int | None, msgspec.Meta(description="The version. Default: the newest.")] = None


class UploadQuery(IncludeQuery, frozen=True):
    """What the new version changes, and additions to the answer."""

    message: Annotated[str | None, msgspec.Meta(description="What this version changes.")] = None


class SourceBody(msgspec.Struct):
    """The URL of the manifest: http or https, without credentials."""

    url: str


class RefreshedVersion(msgspec.Struct, omit_defaults=True):
    """The newest version; `changed` if the refresh created it, with its warnings."""

    version: int
    changed: bool
    warnings: list[FindingShape] = []


def _shapes(findings: Iterable[Finding]) -> list[FindingShape]:
    return [FindingShape(each.message, each.line, each.column, each.code) for each in findings]


@routes.put(
    "/applications/{appId}/manifest",
    command="manifest upload",
    permission="EditApplication",
    body=YamlBody(example=_EXAMPLE),
    returns=Returns("The new version's number.", {"version": 2}, type=ManifestVersion),
)
async def replace_manifest(request: Request[str, UploadQuery]) -> Response:
    """Upload a manifest as the newest version."""
    stored = await manifests.replace_manifest(
        request.ctx, request.path["appId"], request.body, message=request.query.message
    )
    return JSONResponse(ManifestVersion(stored.version), warnings=_shapes(stored.warnings))


@routes.post(
    "/manifests/validate",
    permission="None: every user",
    body=YamlBody(example=_EXAMPLE),
    returns=Returns("The findings.", {"errors": [], "warnings": []}),
    extension=True,
)
async def validate_manifest(request: Request[str, None]) -> Findings:
    """Check a manifest and return its errors and warnings. Stores nothing."""
    found = await manifests.validate_manifest(request.ctx, request.body)
    errors = _shapes(each for each in found if each.severity == "error")
    return Findings(errors, _shapes(each for each in found if each.severity == "warning"))


@routes.get(
    "/applications/{appId}/manifest",
    permission="Read",
    returns=Returns("The manifest.", _EXAMPLE, YAML, type=str),
    extension=True,
)
async def read_manifest(request: Request[None, VersionQuery]) -> Response:
    """Show a manifest version as uploaded."""
    return YAMLResponse(await manifests.read_manifest(request.ctx, request.path["appId"], request.query.version))


@routes.get(
    "/applications/{appId}/manifests",
    permission="Read",
    returns=Returns(
        "The versions, newest first.",
        [{"version": 1, "createdAt": 1767225600000, "authorId": EXAMPLE_ID, "message": "Pin PostgreSQL 16"}],
    ),
    extension=True,
)
async def list_manifests(request: Request[None, None]) -> list[VersionItem]:
    """List the manifest versions of an application."""
    rows = await manifests.list_manifests(request.ctx, request.path["appId"])
    return [VersionItem(row.version, to_ms(row.created_at), row.author_id, row.message) for row in rows]


@routes.put(
    "/applications/{appId}/manifestSource",
    command="manifest set-source",
    permission="EditApplication",
    body=JsonBody(example={"url": "https://manifests.example/petclinic.yaml"}),
    returns=Returns("The new version's number.", {"version": 2}),
    statuses=(409,),
    extension=True,
)
async def set_manifest_source(request: Request[SourceBody, None]) -> ManifestVersion:
    """Set the URL to load the manifest from, and load it as the newest version."""
    stored = await manifests.set_manifest_source(request.ctx, request.path["appId"], request.body.url)
    return ManifestVersion(stored.version, _shapes(stored.warnings))


@routes.post(
    "/applications/{appId}/manifestSource/refresh",
    permission="EditApplication",
    returns=Returns("The newest version.", {"version": 3, "changed": True}),
    statuses=(409,),
    extension=True,
)
async def refresh_manifest(request: Request[None, None]) -> RefreshedVersion:
    """Load the manifest from its URL again. Creates a version if it changed."""
    found = await manifests.refresh_manifest(request.ctx, request.path["appId"])
    return RefreshedVersion(found.version, found.changed, _shapes(found.warnings))


class TwoVersions(VersionQuery, frozen=True):
    """Which versions to compare."""

    against: Annotated[
        int | None, msgspec.Meta(description="The version to compare with; 0 for none. Default: the previous version.")
    ] = None


class AgainstQuery(msgspec.Struct, frozen=True):
    """Which version to compare with."""

    against: Annotated[
        int | None, msgspec.Meta(description="The version to compare with; 0 for none. Default: the newest.")
    ] = None


class VersionDifference(msgspec.Struct):
    """What a version differs in from another one. Comments and layout don't count.

    `version` is null for a text that isn't saved.
    """

    version: int | None
    against: int
    isSame: bool
    difference: ManifestDifference


class UsedVersionItem(msgspec.Struct, kw_only=True):
    """A version that instances have, and what they would get with the other one.

    `application` says that parameters, results, commands, needs, limits or the kind of the application differ. With a
    `problem`, nobody can say: the version no longer compiles. A `pending` one isn't compared yet: ask again.
    """

    version: int
    instances: Annotated[int, msgspec.Meta(description="How many live instances have it that you may read.")]
    isSame: Annotated[bool, msgspec.Meta(description="Whether the other one certainly changes nothing.")]
    application: bool
    components: list[ComponentChange]
    problem: str | None
    pending: bool


class UsedVersions(msgspec.Struct):
    """The versions of live instances, the newest first, against `version`.

    `pending` counts those that aren't compared yet. After an upgrade, each answer compares some more.
    """

    version: int
    pending: int
    used: list[UsedVersionItem]


@routes.get(
    "/applications/{appId}/manifests/difference",
    permission="Read",
    returns=Returns("The difference."),
    extension=True,
    computes=True,
)
async def compare_manifests(request: Request[None, TwoVersions]) -> VersionDifference:
    """Compare two manifest versions of an application."""
    query = request.query
    against, version, found = await manifest_differences.compare_versions(
        request.ctx, request.path["appId"], query.against, query.version
    )
    return VersionDifference(version, against, not found, found)


@routes.post(
    "/applications/{appId}/manifests/difference",
    command="manifest compare-text",
    permission="Read",
    body=YamlBody(example=_EXAMPLE),
    returns=Returns("The difference."),
    extension=True,
    computes=True,
)
async def compare_manifest_text(request: Request[str, AgainstQuery]) -> VersionDifference:
    """Compare a manifest that isn't saved with a version. Stores nothing."""
    against, found = await manifest_differences.compare_text(
        request.ctx, request.path["appId"], request.query.against, request.body
    )
    return VersionDifference(None, against, not found, found)


@routes.get(
    "/applications/{appId}/manifests/used",
    command="manifest used",
    permission="Read",
    returns=Returns("The versions."),
    extension=True,
    computes=True,
)
async def list_used_manifests(request: Request[None, VersionQuery]) -> UsedVersions:
    """List the versions of live instances, and what another one would change."""
    version, used = await manifest_differences.list_used_versions(
        request.ctx, request.path["appId"], request.query.version
    )
    return UsedVersions(
        version,
        sum(each.is_pending for each in used),
        [
            UsedVersionItem(
                version=each.version,
                instances=each.instances,
                isSame=each.is_same,
                application=each.is_application_changed,
                components=each.changed_components,
                problem=each.problem,
                pending=each.is_pending,
            )
            for each in used
        ],
    )
