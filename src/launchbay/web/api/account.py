"""The caller's own account: password and refresh tokens (reference §5; api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import account
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, list_response
from launchbay.web.routing import Returns, Routes

routes = Routes("Account", prefix="")

_ID = "5f" * 12
_TIME = 1_767_225_600_000


class PasswordBody(msgspec.Struct):
    """The password that is, and the one that is to be."""

    currentPassword: str
    newPassword: str


class TokenItem(msgspec.Struct):
    """A refresh token, never its value. Times are milliseconds since the Unix epoch."""

    id: str
    label: str
    createdAt: int
    expiresAt: int
    lastUsedAt: int | None


class RefreshTokenBody(msgspec.Struct):
    """The refresh token to exchange."""

    refreshToken: str


class SessionToken(msgspec.Struct):
    """A session token, and for how many seconds it is good."""

    jwtBearer: str
    expiresIn: int


@routes.put(
    "/api/1/users/me/password",
    permission="None: everybody's own.",
    body=JsonBody(example={"currentPassword": "old and good", "newPassword": "new and better"}),
    extension=True,
)
async def change_password(request: Request[PasswordBody, None]) -> None:
    """Changes the caller's password."""
    await account.change_password(request.ctx, request.body.currentPassword, request.body.newPassword)


@routes.get(
    "/api/1/tokens",
    permission="None: everybody's own.",
    returns=Returns(
        "The tokens, the newest first.",
        [{"id": _ID, "label": "build server", "createdAt": _TIME, "expiresAt": _TIME, "lastUsedAt": None}],
        type=list[TokenItem],
    ),
    extension=True,
)
async def list_tokens(request: Request[None, Paging]) -> Response:
    """Lists the caller's refresh tokens; never their values."""
    rows = await account.list_tokens(request.ctx)
    tokens_shown = [
        TokenItem(
            row.id,
            row.label,
            to_ms(row.created_at),
            to_ms(row.expires_at),
            None if row.last_used_at is None else to_ms(row.last_used_at),
        )
        for row in rows
    ]
    return list_response(request, tokens_shown)


@routes.delete(
    "/api/1/tokens/{id}",
    permission="None: everybody's own.",
    extension=True,
)
async def revoke_token(request: Request[None, None]) -> None:
    """Revokes one of the caller's refresh tokens."""
    await account.revoke_token(request.ctx, request.path["id"])


@routes.post(
    "/refreshToken/jwtBearer",
    public=True,
    body=JsonBody(example={"refreshToken": "lbr_…"}),
    returns=Returns("The session token.", {"jwtBearer": "eyJhbGciOi…", "expiresIn": 36_000}),
    statuses=(401, 429),
)
async def exchange_token(request: Request[RefreshTokenBody, None]) -> SessionToken:
    """Exchanges a refresh token for a session token."""
    session = await account.exchange_token(request.deps.app, request.body.refreshToken, request.address)
    return SessionToken(session.token, session.expires_in_s)
