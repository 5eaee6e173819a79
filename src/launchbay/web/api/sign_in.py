"""Pages outside the console: new refresh tokens, invitations, and sign-in with OpenID Connect (reference §5).

Sign-in with OpenID Connect ends with a new refresh token, or with a console session if started with `?to=console`.
A provider knows one callback address, so the cookie of an attempt stores which of the two it is.
"""

from typing import Annotated, Any

import msgspec

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import sent_cookie, sent_cookies, session_cookie, session_cookies, set_cookie
from launchbay.auth.openid import COOKIES, Identity, cookie_name
from launchbay.auth.permissions import Actor
from launchbay.errors import BadRequest, LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.limits import OPENID_ATTEMPT_S, REFRESH_TOKEN_LABEL_CHARS
from launchbay.usecases import account, second_factors, sign_in
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import OpenIdSignIn
from launchbay.web.html import page, require_same_origin
from launchbay.web.requests import FormBody, Request
from launchbay.web.responses import HTML, EmptyResponse, HTMLResponse, Response
from launchbay.web.routing import Returns, Routes

routes = Routes("Pages", prefix="")
openid_routes = Routes("Pages", prefix="", extension=True)

_PAGE = Returns("The page.", media_type=HTML, type=str)


class SignInForm(msgspec.Struct):
    """Email address, password, and a label for the token."""

    email: str
    password: str
    label: Annotated[str, msgspec.Meta(description="Label of the token, such as the program that uses it.")] = ""


class PasswordSignIn(msgspec.Struct):
    """Email address and password."""

    email: str
    password: str


class SecondFactorForm(msgspec.Struct):
    """The token of the page, a code or a recovery code, and the label."""

    token: str
    code: str
    label: str = ""


class PasswordForm(msgspec.Struct):
    """The first password, twice."""

    password: str
    repeated: str


@routes.get("/refreshToken", command="page refresh-token", public=True, returns=_PAGE)
async def refresh_token_page(request: Request[None, None]) -> Response:
    """Show the page to sign in and generate a refresh token."""
    return _sign_in_form(request)


@routes.post(
    "/signIn", command="page sign-in-with-form", public=True, body=FormBody(), statuses=(401, 403), extension=True
)
async def sign_in_with_form(request: Request[PasswordSignIn, None]) -> Response:
    """Sign in with email address and password; the session is in a cookie.

    This is how older Python clients sign in. They look for the cookie `PLAY_SESSION`. Only the console accepts the
    session; calls of the API need credentials.
    """
    require_same_origin(request)
    app, credentials = request.deps.app, BasicCredentials(request.body.email.strip(), request.body.password)
    try:
        found = await second_factors.begin_sign_in(app, credentials, request.address)
    except NotAllowed as error:  # a client that has no other way to say it understands 401 only
        raise NotAuthenticated(*error.messages, code=error.code) from error
    if not isinstance(found, Actor):
        raise NotAuthenticated(
            "This account needs a second factor, which this call can't ask for.",
            "Create an access token and send it with each call instead.",
            code="SecondFactorRequired",
        )
    session = await sign_in.open_session(Context(app, found))
    cookies = session_cookies(session.token, session.expires_in_s, secure=request.deps.is_secure)
    return EmptyResponse(tuple(("Set-Cookie", cookie) for cookie in cookies))


@routes.post(
    "/refreshToken", command="token generate", public=True, body=FormBody(), returns=_PAGE, statuses=(401, 403)
)
async def generate_token(request: Request[SignInForm, None]) -> Response:
    """Sign in and show a new refresh token once."""
    form = request.body
    try:
        require_same_origin(request)
        app, credentials = request.deps.app, BasicCredentials(form.email.strip(), form.password)
        found = await second_factors.begin_sign_in(app, credentials, request.address)
        if isinstance(found, Actor):
            return await show_new_token(Context(app, found), form.label)
        if found.must_set_up:
            raise NotAuthenticated(
                "One of your organizations demands a second factor.",
                "Sign in to the console to set one up.",
                code="SecondFactorRequired",
            )
        return page("second_factor.html", token=found.token, label=form.label)
    except LaunchbayError as error:
        return _sign_in_form(request, error, form)


@routes.post(
    "/refreshToken/secondFactor",
    command="page second-factor",
    public=True,
    body=FormBody(),
    returns=_PAGE,
    statuses=(401, 403),
    extension=True,
)
async def generate_token_with_second_factor(request: Request[SecondFactorForm, None]) -> Response:
    """Enter the second factor after the password, and show a new refresh token once."""
    form, app = request.body, request.deps.app
    try:
        require_same_origin(request)
        actor = await second_factors.sign_in_with_code(app, form.token, form.code, request.address)
        return await show_new_token(Context(app, actor), form.label)
    except LaunchbayError as error:
        return page("second_factor.html", error, token=form.token, label=form.label)


async def show_new_token(ctx: Context, label: str) -> Response:
    """Generate a token for a user who has just signed in, and show it once. Raises like `generate_token`."""
    generated = await account.generate_token(ctx, label)
    return page(
        "refresh_token_shown.html", token=generated.token, email=ctx.actor.email, expires_at=generated.row.expires_at
    )


@routes.get(
    "/invitation/{token}", command="page invitation", public=True, returns=_PAGE, statuses=(404,), extension=True
)
async def invitation_page(request: Request[None, None]) -> Response:
    """Show the page for an invited user to set the first password."""
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
    """Set the first password of an invited user. The link works once."""
    app, token, form = request.deps.app, request.path["token"], request.body
    email = ""
    try:
        email = (await sign_in.read_invitation(app, token)).email
        require_same_origin(request)
        if form.password != form.repeated:
            raise BadRequest("The two passwords don't match.", code="WrongPassword")
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


class BeginQuery(msgspec.Struct, frozen=True):
    """What to open after the sign-in: `console`. Default: a new refresh token."""

    to: str | None = None


class CallbackQuery(msgspec.Struct, frozen=True):
    """The parameters of the provider's redirect (RFC 6749 §4.1.2, RFC 9207)."""

    code: str | None = None
    state: str | None = None
    error: str | None = None
    error_description: str | None = None
    iss: str | None = None


@openid_routes.get(
    START,
    command="page sign-in",
    public=True,
    returns=Returns("Never returned: the response is a redirect (302) to the provider.", media_type=HTML, type=str),
    statuses=(404,),
)
async def begin_sign_in(request: Request[None, BeginQuery]) -> Response:
    """Redirect the browser to the OpenID Connect provider to sign in."""
    try:
        provider = _configured(request).provider
        begun = await provider.begin(CONSOLE if request.query.to == CONSOLE else "")
    except LaunchbayError as error:
        return page("notice.html", error, heading="Sign in")
    pending = sent_cookies(request.headers.get("cookie", ""), COOKIES, secure=request.deps.is_secure)
    over = (_cookie(request, name, "", 0) for name in provider.superfluous(pending))
    begins = _cookie(request, begun.name, begun.cookie, OPENID_ATTEMPT_S)
    return HTMLResponse("", 302, (("Location", begun.url), begins, *over))


@openid_routes.get(
    CALLBACK,
    public=True,
    returns=Returns("The page with the token.", media_type=HTML, type=str),
    statuses=(401, 403, 404, 409),
)
async def finish_sign_in(request: Request[None, CallbackQuery]) -> Response:
    """Complete the sign-in at the provider and show a new refresh token once."""
    app = request.deps.app
    cookies, secure = request.headers.get("cookie", ""), request.deps.is_secure
    name = cookie_name(request.query.state or "")
    cookie = sent_cookie(cookies, name, secure=secure)
    try:
        openid = _configured(request)
        brought = {name: value for name, value in msgspec.structs.asdict(request.query).items() if value is not None}
        identity, to = await openid.provider.finish(cookie, brought)
        actor = await sign_in.sign_in_with_identity(app, openid.account_policy, identity, request.address)
        ctx = Context(app, actor)
        shown = await (_opened_console(request, ctx, identity) if to == CONSOLE else show_new_token(ctx, ""))
    except LaunchbayError as error:
        shown = page("notice.html", error, heading="Sign in")
    assert isinstance(shown, HTMLResponse)
    # This attempt has ended, successfully or not; those of other tabs go on.
    over = (_cookie(request, name, "", 0),) if cookie else ()
    return msgspec.structs.replace(shown, headers=(*shown.headers, *over))


async def _opened_console(request: Request[None, CallbackQuery], ctx: Context, identity: Identity) -> Response:
    session = await sign_in.open_session(ctx, identity)
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.deps.is_secure)
    return HTMLResponse("", 303, (("Location", "/console"), ("Set-Cookie", cookie)))


class LogoutForm(msgspec.Struct):
    """What the provider sends (OpenID Connect Back-Channel Logout 1.0, section 2.5)."""

    logout_token: str


@openid_routes.post(f"{START}/logout", command="page provider-logout", public=True, body=FormBody(), statuses=(404,))
async def end_provider_sessions(request: Request[LogoutForm, None]) -> None:
    """End console sessions after a logout at the OpenID Connect provider."""
    logout = await _configured(request).provider.read_logout(request.body.logout_token)
    await sign_in.end_provider_sessions(request.deps.app, logout, request.address)


def _configured(request: Request[Any, Any]) -> OpenIdSignIn:
    if request.deps.openid is None:
        raise NotFound("This server has no identity provider.", "Sign in with your password at /refreshToken.")
    return request.deps.openid


def _cookie(request: Request[Any, Any], name: str, value: str, seconds: int) -> tuple[str, str]:
    return "Set-Cookie", set_cookie(name, value, seconds, path=START, secure=request.deps.is_secure)
