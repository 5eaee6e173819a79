"""Signing in through the OpenID Connect provider (api-decisions, "Authentication").

It ends with a new refresh token, or, begun with `?to=console`, with a session of the console. A provider knows one
address to send browsers back to, so a cookie remembers which of the two it is.
"""

from typing import Any

import msgspec

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import sent_cookie, session_cookie
from launchbay.errors import BadRequest, LaunchbayError, NotFound
from launchbay.limits import OPENID_ATTEMPT_S, REFRESH_TOKEN_LABEL_CHARS
from launchbay.usecases import account, sign_in
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import OpenIdSignIn, open_session
from launchbay.usecases.sign_in import sign_in_with_identity as sign_in_sign_in
from launchbay.web.html import page, require_same_origin
from launchbay.web.requests import FormBody, Request
from launchbay.web.responses import HTML, HTMLResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Pages", prefix="")
openid_routes = Routes("Pages", prefix="")

_PAGE = Returns("The page.", media_type=HTML, type=str)

# The two pages outside the console: a new refresh token (reference §5), and the invitation of a new user.
#
# Another way to sign in (`ApiDeps.sign_in_links`) starts at its own address, proves who somebody is, and ends with
# `show_new_token`, as the local password does here.


class SignInForm(msgspec.Struct):
    """E-mail address and password, and what the token is for."""

    email: str
    password: str
    label: str = ""


class PasswordForm(msgspec.Struct):
    """The first password, twice."""

    password: str
    repeated: str


@routes.get(
    "/refreshToken",
    public=True,
    returns=_PAGE,
)
async def refresh_token_page(request: Request[None, None]) -> Response:
    """The page where people sign in to generate a refresh token."""
    return _sign_in_form(request)


@routes.post(
    "/refreshToken",
    public=True,
    body=FormBody(),
    returns=_PAGE,
    statuses=(401, 403, 429),
)
async def generate_token(request: Request[SignInForm, None]) -> Response:
    """Signs in and shows a new refresh token, this once."""
    form = request.body
    try:
        require_same_origin(request)
        credentials = BasicCredentials(form.email.strip(), form.password)
        actor = await request.deps.app.sign_in.authenticate(credentials, request.address)
        return await show_new_token(Context(request.deps.app, actor), form.label)
    except LaunchbayError as error:
        return _sign_in_form(request, error, form)


async def show_new_token(ctx: Context, label: str) -> Response:
    """Generate a token for somebody who has just signed in, and show it this once. Raises as `generate_token` does."""
    generated = await account.generate_token(ctx, label)
    return page(
        "refresh_token_shown.html", token=generated.token, email=ctx.actor.email, expires_at=generated.row.expires_at
    )


@routes.get(
    "/invitation/{token}",
    public=True,
    returns=_PAGE,
    statuses=(404,),
    extension=True,
)
async def invitation_page(request: Request[None, None]) -> Response:
    """The page where an invited user sets the first password."""
    try:
        user = await sign_in.read_invitation(request.deps.app, request.path["token"])
    except LaunchbayError as error:
        return page("notice.html", error, heading="Invitation")
    return page("invitation.html", email=user.email)


@routes.post(
    "/invitation/{token}",
    public=True,
    body=FormBody(),
    returns=_PAGE,
    statuses=(403, 404),
    extension=True,
)
async def accept_invitation(request: Request[PasswordForm, None]) -> Response:
    """Sets the first password; the link works once."""
    app, token, form = request.deps.app, request.path["token"], request.body
    email = ""
    try:
        email = (await sign_in.read_invitation(app, token)).email
        require_same_origin(request)
        if form.password != form.repeated:
            raise BadRequest("The two passwords are not the same.", code="WrongPassword")
        user = await sign_in.accept_invitation(app, token, form.password, request.address)
    except NotFound as error:
        return page("notice.html", error, heading="Invitation")
    except LaunchbayError as error:
        return page("invitation.html", error, email=email)
    return page("invitation_accepted.html", email=user.email)


def _sign_in_form(
    request: Request[SignInForm, None] | Request[None, None],
    problem: LaunchbayError | None = None,
    form: SignInForm | None = None,
) -> Response:
    return page(
        "refresh_token.html",
        problem,
        email="" if form is None else form.email,
        label="" if form is None else form.label,
        label_chars=REFRESH_TOKEN_LABEL_CHARS,
        ways=request.deps.sign_in_links,
    )


START = "/signIn/openid"
CALLBACK = f"{START}/callback"
CONSOLE = "console"
START_FOR_CONSOLE = f"{START}?to={CONSOLE}"
_COOKIE = "launchbay_openid"
_TO_COOKIE = "launchbay_openid_to"


class BeginQuery(msgspec.Struct, frozen=True):
    """What the sign-in is for: `console`, or a refresh token."""

    to: str | None = None


class CallbackQuery(msgspec.Struct, frozen=True):
    """What the provider's redirect brings (RFC 6749 §4.1.2, RFC 9207)."""

    code: str | None = None
    state: str | None = None
    error: str | None = None
    error_description: str | None = None
    iss: str | None = None


@openid_routes.get(
    START,
    public=True,
    returns=Returns("Never: the answer is a redirect (302) to the provider.", media_type=HTML, type=str),
    statuses=(404,),
    extension=True,
)
async def begin_sign_in(request: Request[None, BeginQuery]) -> Response:
    """Sends the browser to the OpenID Connect provider to sign in."""
    try:
        begun = await _configured(request).provider.begin()
    except LaunchbayError as error:
        return page("notice.html", error, heading="Sign in")
    to = CONSOLE if request.query.to == CONSOLE else ""
    remembered = _cookie(request, to, OPENID_ATTEMPT_S if to else 0, _TO_COOKIE)
    return HTMLResponse(
        "", 302, (("Location", begun.url), _cookie(request, begun.cookie, OPENID_ATTEMPT_S), remembered)
    )


@openid_routes.get(
    CALLBACK,
    public=True,
    returns=Returns("The page with the token.", media_type=HTML, type=str),
    statuses=(401, 403, 404, 409),
    extension=True,
)
async def finish_sign_in(request: Request[None, CallbackQuery]) -> Response:
    """Takes the provider's answer and shows a new refresh token, this once."""
    app = request.deps.app
    try:
        openid = _configured(request)
        brought = {name: value for name, value in msgspec.structs.asdict(request.query).items() if value is not None}
        cookies = request.headers.get("cookie", "")
        identity = await openid.provider.finish(sent_cookie(cookies, _COOKIE), brought)
        actor = await sign_in_sign_in(app, openid.account_policy, identity, request.address)
        is_for_console = sent_cookie(cookies, _TO_COOKIE) == CONSOLE
        ctx = Context(app, actor)
        shown = await (_opened_console(request, ctx) if is_for_console else show_new_token(ctx, ""))
    except LaunchbayError as error:
        shown = page("notice.html", error, heading="Sign in")
    assert isinstance(shown, HTMLResponse)
    # The attempt is over, however it ended.
    over = (_cookie(request, "", 0), _cookie(request, "", 0, _TO_COOKIE))
    return msgspec.structs.replace(shown, headers=(*shown.headers, *over))


async def _opened_console(request: Request[None, CallbackQuery], ctx: Context) -> Response:
    session = await open_session(ctx)
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.deps.base_url.startswith("https://"))
    return HTMLResponse("", 303, (("Location", "/console"), ("Set-Cookie", cookie)))


def _configured(request: Request[Any, Any]) -> OpenIdSignIn:
    if request.deps.openid is None:
        raise NotFound("No identity provider is set up on this server.", "Sign in with your password at /refreshToken.")
    return request.deps.openid


def _cookie(request: Request[Any, Any], value: str, seconds: int, name: str = _COOKIE) -> tuple[str, str]:
    secure = "; Secure" if request.deps.base_url.startswith("https://") else ""
    # Lax: the provider's redirect comes from another site, and must bring the cookie.
    return "Set-Cookie", f"{name}={value}; Path={START}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
