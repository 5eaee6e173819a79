"""Signing in and out, and the appearance."""

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from launchbay.auth import second_factors as codes
from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import session_cookie, set_cookie
from launchbay.auth.permissions import Actor
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, SIGN_IN, PageRequest, Routes, safe_path
from launchbay.console.shell import CHOICES, chosen, cookie_name
from launchbay.errors import BadRequest, LaunchbayError, NotAuthenticated
from launchbay.store.second_factors import Purpose
from launchbay.usecases import account, second_factors
from launchbay.usecases.context import Context
from launchbay.usecases.second_factors import SetUp
from launchbay.usecases.sign_in import close_session, open_session

NEW_PASSWORD = "/console/newPassword"  # noqa: S105 - the path of a page
_YEAR_S = 365 * 24 * 3600
routes = Routes()


@routes.get(SIGN_IN, public=True)
async def sign_in_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    wanted = request.form.text("next") or request.query("next") or ""
    return await request.page(
        "sign_in.html",
        problem=problem,
        email=request.form.text("email"),
        next=safe_path(wanted) if wanted else "",
        sign_in_links=request.deps.sign_in_links,
        ended=request.query("ended") if problem is None else None,
    )


@routes.post(SIGN_IN, public=True)
async def sign_in(page_request: PageRequest) -> Response:
    """Sign in with email address and password; errors appear above the form."""
    form, request = page_request.form, page_request.http
    address = request.client.host if request.client else ""
    try:
        credentials = BasicCredentials(form.text("email"), form.raw("password"))
        found = await second_factors.begin_sign_in(page_request.app, credentials, address)
        if isinstance(found, second_factors.SecondStep):
            next_page = set_up if found.must_set_up else second_step
            return await next_page(page_request, token=found.token)
        return await _signed_in(page_request, found)
    except LaunchbayError as error:
        if error.code == "PasswordChangeRequired":
            return await new_password_page(page_request, error)
        return await sign_in_page(page_request, error)


async def second_step(request: PageRequest, problem: LaunchbayError | None = None, *, token: str = "") -> Response:
    """Show the page that asks for the second factor."""
    token = token or request.form.text("token")
    try:
        user = await second_factors.read_step(request.app, token, Purpose.SIGN_IN)
    except NotAuthenticated as error:
        return await sign_in_page(request, error)
    party, known = request.relying_party(), await second_factors.passkeys_of(request.app, user.id)
    return await request.page(
        "second_step.html",
        problem=problem,
        token=token,
        next=request.form.text("next"),
        options=codes.request_options(party, token, known) if party and known else "",
    )


@routes.post(f"{SIGN_IN}/secondFactor", public=True)
async def finish(request: PageRequest) -> Response:
    """Sign in with a code or a passkey, after the password."""
    form, token = request.form, request.form.text("token")
    try:
        if passkey := form.text("response"):
            actor = await second_factors.sign_in_with_passkey(
                request.app, token, passkey, request.relying_party(), request.address
            )
        else:
            actor = await second_factors.sign_in_with_code(request.app, token, form.text("code"), request.address)
        return await _signed_in(request, actor)
    except LaunchbayError as error:
        return await second_step(request, error)


async def set_up_page(
    request: PageRequest, token: str, problem: LaunchbayError | None, *, path: str, next_path: str = ""
) -> Response:
    """Return the page; `path` takes its forms.

    Raises NotAuthenticated when the time for it is over.
    """
    user = await second_factors.read_step(request.app, token, Purpose.SET_UP)
    secret = codes.totp_secret(token)
    uri, party = codes.totp_uri(secret, user.email), request.relying_party()
    known = await second_factors.passkeys_of(request.app, user.id)
    return await request.page(
        "second_factor.html",
        problem=problem,
        path=path,
        token=token,
        next=next_path,
        uri=uri,
        secret=codes.totp_text(secret),
        options=codes.creation_options(party, token, user.id, user.email, user.name, known) if party else "",
    )


async def finish_set_up_form(request: PageRequest) -> SetUp:
    """Set up what a form of the page sent. Raises NotAuthenticated, BadRequest, TooManyRequests."""
    form = request.form
    token, name, address, session = form.text("token"), form.text("name"), request.address, request.session
    if form.text("response"):
        return await second_factors.set_up_passkey(
            request.app, token, form.text("response"), request.relying_party(), address, name=name, session=session
        )
    return await second_factors.set_up_totp(request.app, token, form.text("code"), address, name=name, session=session)


async def set_up(request: PageRequest, problem: LaunchbayError | None = None, *, token: str = "") -> Response:
    """Show the page to set up the first second factor, which an organization demands."""
    token = token or request.form.text("token")
    try:
        return await set_up_page(request, token, problem, path=f"{SIGN_IN}/setUp", next_path=request.form.text("next"))
    except NotAuthenticated as error:
        return await sign_in_page(request, error)


@routes.post(f"{SIGN_IN}/setUp", public=True)
async def finish_set_up(request: PageRequest) -> Response:
    """Set up the first second factor, sign in, and show the recovery codes."""
    try:
        done = await finish_set_up_form(request)
        session = await open_session(Context(request.app, done.actor))
    except LaunchbayError as error:
        return await set_up(request, error)
    following = safe_path(request.form.text("next"))
    response = await request.page("recovery_codes.html", codes=done.recovery_codes, next=following)
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def _signed_in(request: PageRequest, actor: Actor) -> Response:
    session = await open_session(Context(request.app, actor))
    response = RedirectResponse(safe_path(request.form.text("next")), 303, HEADERS)
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


@routes.get(NEW_PASSWORD, public=True)
async def new_password_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the page where people replace a password that somebody else chose."""
    email, following = request.form.text("email"), request.form.text("next")
    return await request.page("new_password.html", problem=problem, email=email, next=following)


@routes.post(NEW_PASSWORD, public=True)
async def choose_password(request: PageRequest) -> Response:
    form = request.form
    try:
        if form.raw("newPassword") != form.raw("repeatedPassword"):
            raise BadRequest("The new passwords don't match.", code="WrongPassword", field="repeatedPassword")
        credentials = BasicCredentials(form.text("email"), form.raw("currentPassword"))
        await account.replace_password(request.app, credentials, form.raw("newPassword"), request.address)
    except LaunchbayError as error:
        return await new_password_page(request, error)
    following = safe_path(form.text("next"))
    return request.redirect(SIGN_IN if following == HOME else f"{SIGN_IN}?next={quote(following, safe='/')}")


@routes.post("/console/signOut")
async def sign_out(request: PageRequest) -> Response:
    """End the session on the server, and clear its cookie."""
    await close_session(request.ctx, request.session)
    response = RedirectResponse(SIGN_IN, 303, HEADERS)
    response.headers.append("Set-Cookie", session_cookie("", 0, secure=request.is_secure))
    return response


@routes.post("/console/theme", public=True)
async def choose_appearance(request: PageRequest) -> Response:
    """Store a choice of the appearance, and go back."""
    response = RedirectResponse(safe_path(request.form.text("back")), 303, HEADERS)
    for kind in CHOICES:
        if request.form.has(kind):
            value = chosen(kind, request.form.text(kind))
            cookie = set_cookie(cookie_name(kind), value, _YEAR_S, path=HOME, secure=request.is_secure)
            response.headers.append("Set-Cookie", cookie)
    return response
