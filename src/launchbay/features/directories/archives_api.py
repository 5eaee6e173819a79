"""Export and import of organizations (docs/howto/move-an-organization.md)."""

import asyncio
from typing import IO, Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest
from launchbay.features.directories import archives
from launchbay.features.directories.values import Archive
from launchbay.limits import ARCHIVE_LINES_BYTES, ORGANIZATION_ARCHIVE_BYTES
from launchbay.web.json_reader import read_json
from launchbay.web.requests import NDJSON, JsonBody, LinesBody, Request, Upload
from launchbay.web.responses import TextStream, absolute_url
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Organizations", extension=True)

_HOLE = "service 'Default credentials service': the secret 'mail-password'"
_ARCHIVE = {
    "format": "launchbay organization",
    "version": 2,
    "name": "Research",
    "services": {},
    "environments": {"default": {"default": True}},
    "applications": {},
    "roles": {},
    "users": {"ann@example.org": {"name": "Ann", "roles": ["Administrator"]}},
    "mentions": {},
    "holes": [],
    "objects": {"service-account": {"Deployment": "description: Deploys\n"}},
}


_APPLICATION = {"versions": 1}
_LINES = "".join(
    msgspec.json.encode(each).decode() + "\n"
    for each in (
        {**_ARCHIVE, "version": 3, "applications": {"shop": _APPLICATION}},
        {"application": "shop", "version": 1, "manifest": "launch:\n  steps: []\n"},
    )
)


class ArchiveImport(msgspec.Struct):
    """An archive, a name to use instead of its own, and whether to only plan the import."""

    archive: dict[str, Any]
    name: Annotated[str | None, msgspec.Meta(description="Name to use instead of the one in the archive.")] = None
    plan: Annotated[bool, msgspec.Meta(description="Only return the plan; create nothing.")] = False


class InvitedUser(msgspec.Struct, rename="camel"):
    """A new account, and the link to set its password."""

    email: str
    invitation: str
    invitation_expires_at: int


class ImportedOrganization(msgspec.Struct):
    """The result of an import. A plan has no ID. `holes` lists what the archive could not contain, such as secrets."""

    id: str | None
    created: dict[str, int]
    holes: list[str]
    invitations: list[InvitedUser]


@routes.get(
    "/organizations/{orgId}/archive",
    permission="ManageUsers for all users and ManageRoles for all roles",
    returns=Returns("The archive. `holes` lists what is missing.", _ARCHIVE),
    computes=True,
)
async def export_organization(request: Request[None, None]) -> Archive:
    """Export an organization as one document, without secrets and instances."""
    return await archives.export_organization(request.ctx, request.path["orgId"])


@routes.post(
    "/archives",
    permission="Administrator of the server (setting `organization_creators`)",
    body=JsonBody(bytes_max=ORGANIZATION_ARCHIVE_BYTES, example={"archive": _ARCHIVE, "name": "Lab", "plan": True}),
    returns=Returns(
        "The result. With `plan` nothing is created, and `id` is null.",
        {"id": EXAMPLE_ID, "created": {"applications": 3}, "holes": [_HOLE], "invitations": []},
    ),
    idempotency_key=True,
    computes=True,
)
async def import_organization(request: Request[ArchiveImport, None]) -> ImportedOrganization:
    """Create an organization from an archive, all of it or nothing. The caller becomes its administrator."""
    body = request.body
    made = await archives.import_organization(request.ctx, body.archive, body.name, plan=body.plan)
    return _answer(request, made)


@routes.get(
    "/organizations/{orgId}/archive/lines",
    command="organization archive-lines",
    permission="ManageUsers for all users and ManageRoles for all roles",
    returns=Returns(
        "The archive: first a line with all but the manifests, then one for each version of a manifest. An answer that"
        " is cut off lacks lines that the first one counts.",
        media_type=NDJSON,
    ),
    computes=True,
)
async def export_organization_lines(request: Request[None, None]) -> TextStream:
    """Export an organization of any size, as lines of JSON, without secrets and instances."""
    return TextStream(archives.export_lines(request.ctx, request.path["orgId"]), NDJSON)


class LinesQuery(msgspec.Struct, frozen=True):
    """Another name than the archive has, and whether to only plan."""

    name: Annotated[str | None, msgspec.Meta(description="Name to use instead of the one in the archive.")] = None
    plan: Annotated[bool, msgspec.Meta(description="Only return the plan; create nothing.")] = False


@routes.post(
    "/archives/lines",
    command="organization import-lines",
    permission="Administrator of the server (setting `organization_creators`)",
    body=LinesBody(bytes_max=ARCHIVE_LINES_BYTES, example=_LINES),
    returns=Returns(
        "The result. With `plan` nothing is created, and `id` is null.",
        {"id": EXAMPLE_ID, "created": {"applications": 3}, "holes": [_HOLE], "invitations": []},
    ),
    computes=True,
)
async def import_organization_lines(request: Request[Upload, LinesQuery]) -> ImportedOrganization:
    """Create an organization from an archive in lines, all of it or nothing."""
    await archives.check_creation(request.ctx)  # before anything of it is kept
    async with request.body.kept() as file:
        first = await asyncio.to_thread(_read_first_line, file)
        made = await archives.import_lines(request.ctx, first, file, request.query.name, plan=request.query.plan)
    return _answer(request, made)


def _read_first_line(file: IO[bytes]) -> dict[str, Any]:
    data = file.readline(ORGANIZATION_ARCHIVE_BYTES + 2)
    if not data.endswith(b"\n"):
        raise BadRequest("line 1: the archive is cut off, or it isn't one in lines.", code="InvalidArchive")
    found = read_json(data)
    if not isinstance(found, dict):
        raise BadRequest("line 1: this isn't the first line of an archive.", code="InvalidArchive")
    return found


def _answer(request: Request[Any, Any], made: archives.Imported) -> ImportedOrganization:
    invitations = [
        InvitedUser(email, absolute_url(request, each.path), to_ms(each.expires_at))
        for email, each in made.invitations.items()
    ]
    return ImportedOrganization(made.id, made.created, made.holes, invitations)
