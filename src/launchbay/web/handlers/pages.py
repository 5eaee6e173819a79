"""The two pages outside the console: a new refresh token (reference §5), and the invitation of a new user.

Another way to sign in (`Services.sign_in_ways`) starts at its own address, proves who somebody is, and ends with
`show_new_token`, as the local password does here.
"""

import msgspec

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.permissions import Actor
from launchbay.errors import BadRequest, LaunchbayError, NotFound
from launchbay.limits import REFRESH_TOKEN_LABEL_CHARS
from launchbay.usecases import account, sign_in
from launchbay.usecases.context import Desk
from launchbay.web.answers import HTML, Answer
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, FormBody, Returns
from launchbay.web.html import page
from launchbay.web.same_origin import require_same_origin

_TAGS = ("Pages",)


class SignInForm(msgspec.Struct):
    """E-mail address and password, and what the token is for."""

    email: str
    password: str
    label: str = ""


class PasswordForm(msgspec.Struct):
    """The first password, twice."""

    password: str
    repeated: str


async def refresh_token_page(call: Call[None, None]) -> Answer:
    """Show the form that signs in."""
    return _sign_in_form(call)


async def generate_token(call: Call[SignInForm, None]) -> Answer:
    """Sign in and show a new token; whatever is wrong is shown above the form."""
    form = call.body
    try:
        require_same_origin(call)
        credentials = BasicCredentials(form.email.strip(), form.password)
        actor = await call.services.desk.sign_in.authenticate(credentials, call.address)
        return await show_new_token(call.services.desk, actor, form.label)
    except LaunchbayError as error:
        return _sign_in_form(call, error, form)


async def show_new_token(desk: Desk, actor: Actor, label: str) -> Answer:
    """Generate a token for somebody who has just signed in, and show it this once. Raises as `generate_token` does."""
    generated = await account.generate_token(desk, actor, label)
    return page(
        "refresh_token_shown.html", token=generated.token, email=actor.email, expires_at=generated.row.expires_at
    )


async def invitation_page(call: Call[None, None]) -> Answer:
    """Show the form that sets the first password."""
    try:
        user = await sign_in.read_invitation(call.services.desk, call.path["token"])
    except LaunchbayError as error:
        return page("notice.html", error, heading="Invitation")
    return page("invitation.html", email=user.email)


async def accept_invitation(call: Call[PasswordForm, None]) -> Answer:
    """Set the first password."""
    desk, token, form = call.services.desk, call.path["token"], call.body
    email = ""
    try:
        email = (await sign_in.read_invitation(desk, token)).email
        require_same_origin(call)
        if form.password != form.repeated:
            raise BadRequest("The two passwords are not the same.", code="WrongPassword")
        user = await sign_in.accept_invitation(desk, token, form.password, call.address)
    except NotFound as error:
        return page("notice.html", error, heading="Invitation")
    except LaunchbayError as error:
        return page("invitation.html", error, email=email)
    return page("invitation_accepted.html", email=user.email)


def _sign_in_form(
    call: Call[SignInForm, None] | Call[None, None],
    problem: LaunchbayError | None = None,
    form: SignInForm | None = None,
) -> Answer:
    return page(
        "refresh_token.html",
        problem,
        email="" if form is None else form.email,
        label="" if form is None else form.label,
        label_chars=REFRESH_TOKEN_LABEL_CHARS,
        ways=call.services.sign_in_ways,
    )


_PAGE = Returns(str, "The page.", media_type=HTML)

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/refreshToken",
        operation_id="refresh_token_page",
        handler=refresh_token_page,
        summary="The page where people sign in to generate a refresh token.",
        tags=_TAGS,
        public=True,
        returns=_PAGE,
    ),
    Endpoint(
        method="POST",
        path="/refreshToken",
        operation_id="generate_token",
        handler=generate_token,
        summary="Signs in and shows a new refresh token, this once.",
        tags=_TAGS,
        public=True,
        body=FormBody(SignInForm),
        returns=_PAGE,
        statuses=(401, 403, 429),
    ),
    Endpoint(
        method="GET",
        path="/invitation/{token}",
        operation_id="invitation_page",
        handler=invitation_page,
        summary="The page where an invited user sets the first password.",
        tags=_TAGS,
        public=True,
        returns=_PAGE,
        statuses=(404,),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/invitation/{token}",
        operation_id="accept_invitation",
        handler=accept_invitation,
        summary="Sets the first password; the link works once.",
        tags=_TAGS,
        public=True,
        body=FormBody(PasswordForm),
        returns=_PAGE,
        statuses=(403, 404),
        addition=True,
    ),
)
