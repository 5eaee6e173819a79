"""Operations of the API: pages.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import operation


@operation(Row(id="refresh_token_page", method="GET", path="/refreshToken", answer="text/html", public=True))
def refresh_token_page() -> Call[str]:
    """The page where people sign in to generate a refresh token."""
    return Call(str)


@operation(
    Row(
        id="generate_token",
        method="POST",
        path="/refreshToken",
        media_type="application/x-www-form-urlencoded",
        answer="text/html",
        public=True,
    )
)
def generate_token(*, email: str, password: str, label: str | None = None) -> Call[str]:
    """Signs in and shows a new refresh token, this once."""
    return Call(str, body=given({"email": email, "password": password, "label": label}))


@operation(Row(id="invitation_page", method="GET", path="/invitation/{token}", answer="text/html", public=True))
def invitation_page(token: str) -> Call[str]:
    """The page where an invited user sets the first password."""
    return Call(str, (token,))


@operation(
    Row(
        id="accept_invitation",
        method="POST",
        path="/invitation/{token}",
        media_type="application/x-www-form-urlencoded",
        answer="text/html",
        public=True,
    )
)
def accept_invitation(token: str, *, password: str, repeated: str) -> Call[str]:
    """Sets the first password; the link works once."""
    return Call(str, (token,), body=given({"password": password, "repeated": repeated}))


@operation(Row(id="begin_sign_in", method="GET", path="/signIn/openid", answer="text/html", public=True))
def begin_sign_in(*, to: str | None = None) -> Call[str]:
    """Sends the browser to the OpenID Connect provider to sign in."""
    return Call(str, query={"to": to})


@operation(Row(id="finish_sign_in", method="GET", path="/signIn/openid/callback", answer="text/html", public=True))
def finish_sign_in(
    *,
    code: str | None = None,
    state: str | None = None,
    error: str | None = None,
    error_description: str | None = None,
    iss: str | None = None,
) -> Call[str]:
    """Takes the provider's answer and shows a new refresh token, this once."""
    return Call(
        str, query={"code": code, "state": state, "error": error, "error_description": error_description, "iss": iss}
    )
