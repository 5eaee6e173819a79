"""Export and import of organizations (docs/howto/move-an-organization.md)."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.features.directories import archives
from launchbay.features.directories.values import Archive
from launchbay.limits import ORGANIZATION_ARCHIVE_BYTES
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import absolute_url
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
    invitations = [
        InvitedUser(email, absolute_url(request, each.path), to_ms(each.expires_at))
        for email, each in made.invitations.items()
    ]
    return ImportedOrganization(made.id, made.created, made.holes, invitations)
