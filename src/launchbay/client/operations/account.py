"""Operations of the API: account.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from types import NoneType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import SessionToken, TokenItem


@operation(Row(id="change_password", method="PUT", path="/api/1/users/me/password", media_type="application/json"))
def change_password(*, current_password: str, new_password: str) -> Call[None]:
    """Changes the caller's password.

    Needs: None: everybody's own.
    """
    return Call(NoneType, body=given({"currentPassword": current_password, "newPassword": new_password}))


@list_operation(
    Row(
        id="list_tokens",
        method="GET",
        path="/api/1/tokens",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_tokens(*, limit: int | None = None, after: str | None = None) -> Call[list[TokenItem]]:
    """Lists the caller's refresh tokens; never their values.

    Needs: None: everybody's own.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[TokenItem], query={"limit": limit, "after": after})


@operation(Row(id="revoke_token", method="DELETE", path="/api/1/tokens/{id}"))
def revoke_token(token_id: str) -> Call[None]:
    """Revokes one of the caller's refresh tokens.

    Needs: None: everybody's own.
    """
    return Call(NoneType, (token_id,))


@operation(
    Row(
        id="exchange_token",
        method="POST",
        path="/refreshToken/jwtBearer",
        media_type="application/json",
        repeatable=True,
        public=True,
    )
)
def exchange_token(*, refresh_token: str) -> Call[SessionToken]:
    """Exchanges a refresh token for a session token."""
    return Call(SessionToken, body=given({"refreshToken": refresh_token}))
