"""Organizations as archives: out of one installation and into another (docs/howto/move-an-organization.md)."""

from typing import Any

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import ORGANIZATION_ARCHIVE_BYTES
from launchbay.model.archive import Archive
from launchbay.usecases import archives
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import absolute_url
from launchbay.web.routing import Returns, Routes

routes = Routes("Organizations")

_ID = "5f" * 12
_HOLE = "service 'Default credentials service': the secret 'mail-password'"
_ARCHIVE = {
    "format": "launchbay organization",
    "version": 1,
    "name": "Research",
    "services": {},
    "environments": {"default": {"default": True}},
    "applications": {},
    "roles": {},
    "users": {"ann@example.org": {"name": "Ann", "roles": ["Administrator"]}},
    "mentions": {},
    "holes": [],
}


class ArchiveImport(msgspec.Struct):
    """An archive, another name for the organization, and whether it is only tried."""

    archive: dict[str, Any]
    name: str | None = None
    plan: bool = False


class InvitedUser(msgspec.Struct, rename="camel"):
    """A new account, and the link that sets its password."""

    email: str
    invitation: str
    invitation_expires_at: int


class ImportedOrganization(msgspec.Struct):
    """What was made, or would be: a plan has no id. `holes` are what the archive could not hold."""

    id: str | None
    created: dict[str, int]
    holes: list[str]
    invitations: list[InvitedUser]


@routes.get(
    "/organizations/{orgId}/archive",
    permission="ManageUsers for all users and ManageRoles for all roles",
    returns=Returns("The archive. `holes` tells what is not in it.", _ARCHIVE),
    statuses=(400, 403),
    extension=True,
)
async def export_organization(request: Request[None, None]) -> Archive:
    """Exports an organization as one document, without its secrets and its instances."""
    return await archives.export_organization(request.ctx, request.path["orgId"])


@routes.post(
    "/archives",
    permission="ManageUsers for all users of some organization",
    body=JsonBody(bytes_max=ORGANIZATION_ARCHIVE_BYTES, example={"archive": _ARCHIVE, "name": "Lab", "plan": True}),
    returns=Returns(
        "What was made. With `plan` nothing was, and there is no id.",
        {"id": _ID, "created": {"applications": 3}, "holes": [_HOLE], "invitations": []},
    ),
    statuses=(403,),
    extension=True,
    idempotency_key=True,
)
async def import_organization(request: Request[ArchiveImport, None]) -> ImportedOrganization:
    """Makes an organization of an archive, all of it or nothing; the caller becomes its administrator."""
    body = request.body
    made = await archives.import_organization(request.ctx, body.archive, body.name, plan=body.plan)
    invitations = [
        InvitedUser(email, absolute_url(request, f"/invitation/{each.token}"), to_ms(each.expires_at))
        for email, each in made.invitations.items()
    ]
    return ImportedOrganization(made.id, made.created, made.holes, invitations)
