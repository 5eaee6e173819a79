"""The caller's own account: password and refresh tokens (reference §5; api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.clock import to_ms
from launchbay.usecases import account
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Empty, Json, Paging, listed
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Account",)
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


async def change_password(call: Call[PasswordBody, None]) -> Answer:
    """Change the caller's password."""
    await account.change_password(call.services.desk, call.actor, call.body.currentPassword, call.body.newPassword)
    return Empty()


async def list_tokens(call: Call[None, Paging]) -> Answer:
    """List the caller's refresh tokens."""
    rows = await account.list_tokens(call.services.desk, call.actor)
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
    return listed(call, tokens_shown)


async def revoke_token(call: Call[None, None]) -> Answer:
    """Revoke one of the caller's refresh tokens."""
    await account.revoke_token(call.services.desk, call.actor, call.path["id"])
    return Empty()


async def exchange_token(call: Call[RefreshTokenBody, None]) -> Answer:
    """Exchange a refresh token for a session token."""
    session = await account.exchange_token(call.services.desk, call.body.refreshToken, call.address)
    return Json(SessionToken(session.token, session.expires_in_s))


ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="/api/1/users/me/password",
        operation_id="change_password",
        handler=change_password,
        summary="Changes the caller's password.",
        tags=_TAGS,
        permission="None: everybody's own.",
        body=JsonBody(PasswordBody, example={"currentPassword": "old and good", "newPassword": "new and better"}),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/tokens",
        operation_id="list_tokens",
        handler=list_tokens,
        summary="Lists the caller's refresh tokens; never their values.",
        tags=_TAGS,
        permission="None: everybody's own.",
        query=Paging,
        returns=Returns(
            list[TokenItem],
            "The tokens, the newest first.",
            [{"id": _ID, "label": "build server", "createdAt": _TIME, "expiresAt": _TIME, "lastUsedAt": None}],
        ),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/tokens/{id}",
        operation_id="revoke_token",
        handler=revoke_token,
        summary="Revokes one of the caller's refresh tokens.",
        tags=_TAGS,
        permission="None: everybody's own.",
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/refreshToken/jwtBearer",
        operation_id="exchange_token",
        handler=exchange_token,
        summary="Exchanges a refresh token for a session token.",
        tags=_TAGS,
        public=True,
        body=JsonBody(RefreshTokenBody, example={"refreshToken": "lbr_…"}),
        returns=Returns(SessionToken, "The session token.", {"jwtBearer": "eyJhbGciOi…", "expiresIn": 36_000}),
        statuses=(401, 429),
    ),
)
