"""The caller's own account: password, refresh tokens and users.

See reference §5 and conformance.md, "Beyond the reference".
"""

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import account, users
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, list_response, optional_ms
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Account", prefix="")

_TIME = 1_767_225_600_000


class PasswordBody(msgspec.Struct):
    """The current and the new password."""

    currentPassword: str
    newPassword: str


class TokenItem(msgspec.Struct):
    """A refresh token, never its value. Times are milliseconds since the Unix epoch."""

    id: str
    label: str
    createdAt: int
    expiresAt: int
    lastUsedAt: int | None


class InvitationItem(msgspec.Struct):
    """An organization that you can join, with the roles that it offers."""

    id: str
    organizationId: str
    organizationName: str
    roles: list[str]
    createdAt: int
    expiresAt: int


class AcceptedInvitation(msgspec.Struct):
    """The invitation link that the organization gave you, or its last part."""

    invitation: str


class JoinedOrganization(msgspec.Struct):
    """The ID of the organization."""

    id: str


class RefreshTokenBody(msgspec.Struct):
    """The refresh token to exchange."""

    refreshToken: str


class SessionToken(msgspec.Struct):
    """A session token, valid for `expiresIn` seconds."""

    jwtBearer: str
    expiresIn: int


@routes.put(
    "/api/1/users/me/password",
    command="account change-password",
    permission="None: your own account",
    body=JsonBody(example={"currentPassword": "old and good", "newPassword": "new and better"}),
    extension=True,
)
async def change_password(request: Request[PasswordBody, None]) -> None:
    """Change your password."""
    await account.change_password(request.ctx, request.body.currentPassword, request.body.newPassword)


@routes.delete(
    "/api/1/users/me/sessions",
    command="account sign-out-everywhere",
    permission="None: your own account",
    extension=True,
)
async def sign_out_everywhere(request: Request[None, None]) -> None:
    """End all your sessions and revoke all your refresh tokens."""
    await account.sign_out_everywhere(request.ctx)


@routes.get(
    "/api/1/tokens",
    permission="None: your own account",
    returns=Returns(
        "The tokens, newest first.",
        [{"id": EXAMPLE_ID, "label": "build server", "createdAt": _TIME, "expiresAt": _TIME, "lastUsedAt": None}],
        type=list[TokenItem],
    ),
    extension=True,
)
async def list_tokens(request: Request[None, Paging]) -> Response:
    """List your refresh tokens. Never returns their values."""
    rows = await account.list_tokens(request.ctx)
    items = [
        TokenItem(row.id, row.label, to_ms(row.created_at), to_ms(row.expires_at), optional_ms(row.last_used_at))
        for row in rows
    ]
    return list_response(request, items)


@routes.delete("/api/1/tokens/{id}", permission="None: your own account", extension=True)
async def revoke_token(request: Request[None, None]) -> None:
    """Revoke one of your refresh tokens."""
    await account.revoke_token(request.ctx, request.path["id"])


@routes.get(
    "/api/1/users/me/invitations",
    permission="None: your own account",
    returns=Returns(
        "The invitations, newest first.",
        [
            {
                "id": EXAMPLE_ID,
                "organizationId": EXAMPLE_ID,
                "organizationName": "Docks",
                "roles": ["Guest"],
                "createdAt": _TIME,
                "expiresAt": _TIME,
            }
        ],
        type=list[InvitationItem],
    ),
    extension=True,
)
async def list_invitations(request: Request[None, Paging]) -> Response:
    """List the organizations that you are invited to."""
    rows = await users.list_invitations(request.ctx)
    items = [
        InvitationItem(
            row.id, row.organization_id, row.organization, row.roles, to_ms(row.created_at), to_ms(row.expires_at)
        )
        for row in rows
    ]
    return list_response(request, items)


@routes.post(
    "/api/1/users/me/invitations",
    command="invitation accept",
    permission="None: your own account",
    body=JsonBody(example={"invitation": "https://launchbay.example/console/invitations/…"}),
    returns=Returns("The organization that you joined.", {"id": EXAMPLE_ID}),
    statuses=(404,),
    extension=True,
)
async def accept_membership(request: Request[AcceptedInvitation, None]) -> JoinedOrganization:
    """Accept an invitation to an organization."""
    return JoinedOrganization(await users.accept_membership(request.ctx, request.body.invitation))


@routes.delete(
    "/api/1/users/me/invitations/{id}",
    command="invitation decline",
    permission="None: your own account",
    extension=True,
)
async def decline_membership(request: Request[None, None]) -> None:
    """Decline an invitation to an organization."""
    await users.decline_membership(request.ctx, request.path["id"])


@routes.delete(
    "/api/1/users/me/organizations/{orgId}",
    permission="None: your own account",
    extension=True,
)
async def leave_organization(request: Request[None, None]) -> None:
    """Leave an organization. If it is your last one, your account is deleted."""
    await users.leave_organization(request.ctx, request.path["orgId"])


@routes.post(
    "/refreshToken/jwtBearer",
    public=True,
    body=JsonBody(example={"refreshToken": "lbr_…"}),
    returns=Returns("The session token.", {"jwtBearer": "eyJhbGciOi…", "expiresIn": 36_000}),
    statuses=(401,),
)
async def exchange_token(request: Request[RefreshTokenBody, None]) -> SessionToken:
    """Exchange a refresh token for a session token."""
    session = await account.exchange_token(request.deps.app, request.body.refreshToken, request.address)
    return SessionToken(session.token, session.expires_in_s)
