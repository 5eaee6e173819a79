"""The caller's own account: refresh tokens and password."""

import dataclasses

from starlette.responses import RedirectResponse, Response

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import session_cookie
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, SIGN_IN, THEME_COOKIE, THEMES, Page, Visit, own_path
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.usecases import account
from launchbay.usecases import sign_in as usecases_sign_in
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import close_session, open_session


async def show(visit: Visit) -> Response:
    """Show the account."""
    return await _show(visit, None)


async def change_password(visit: Visit) -> Response:
    """Change the password."""
    form = visit.form
    if form.raw("newPassword") != form.raw("repeatedPassword"):
        return await _show(visit, BadRequest("The two new passwords are not the same.", code="WrongPassword"))
    try:
        await account.change_password(visit.ctx, form.raw("currentPassword"), form.raw("newPassword"))
    except (BadRequest, TooManyRequests) as error:
        return await _show(visit, error)
    # All sessions have ended with it; this browser goes on with a new one.
    session = await usecases_sign_in.open_session(visit.ctx)
    going_on = dataclasses.replace(visit, session=session.token)
    response = going_on.go(f"{HOME}/account", "The password is changed. Other sessions have ended.")
    cookie = session_cookie(session.token, session.expires_in_s, secure=visit.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def end_session(visit: Visit) -> Response:
    """End a session, such as one in a browser that was left."""
    try:
        await usecases_sign_in.close_other_session(visit.ctx, visit.path("id"))
    except NotFound as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/account", "The session has ended.")


async def revoke(visit: Visit) -> Response:
    """Revoke a refresh token."""
    try:
        await account.revoke_token(visit.ctx, visit.path("id"))
    except NotFound as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/account", "The token is revoked.")


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    return await visit.page(
        "account.html",
        problem=problem,
        tokens=await account.list_tokens(visit.ctx),
        sessions=await usecases_sign_in.list_sessions(visit.ctx, visit.session),
    )


PAGES = (
    Page("GET", "/console/account", show),
    Page("POST", "/console/account/password", change_password),
    Page("POST", "/console/sessions/{id}/end", end_session),
    Page("POST", "/console/tokens/{id}/revoke", revoke),
)

_YEAR_S = 365 * 24 * 3600


async def sign_in_page(visit: Visit) -> Response:
    """Show the form that signs in."""
    return await _form(visit, None)


async def sign_in(visit: Visit) -> Response:
    """Sign in with e-mail address and password; whatever is wrong is shown above the form."""
    form, request = visit.form, visit.request
    address = request.client.host if request.client else ""
    try:
        credentials = BasicCredentials(form.text("email"), form.raw("password"))
        actor = await visit.app.sign_in.authenticate(credentials, address)
        session = await open_session(Context(visit.app, actor))
    except LaunchbayError as error:
        return await _form(visit, error)
    response = RedirectResponse(own_path(form.text("next")), 303, HEADERS)
    cookie = session_cookie(session.token, session.expires_in_s, secure=visit.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def sign_out(visit: Visit) -> Response:
    """End the session, here and wherever a copy of its cookie is."""
    await close_session(visit.ctx, visit.session)
    response = RedirectResponse(SIGN_IN, 303, HEADERS)
    response.headers.append("Set-Cookie", session_cookie("", 0, secure=visit.is_secure))
    return response


async def choose_theme(visit: Visit) -> Response:
    """Keep light, dark, or what the system says, and go back."""
    theme = visit.form.text("theme")
    response = RedirectResponse(own_path(visit.form.text("back")), 303, HEADERS)
    chosen = theme if theme in THEMES else "auto"
    secure = "; Secure" if visit.is_secure else ""
    response.headers.append(
        "Set-Cookie", f"{THEME_COOKIE}={chosen}; Path=/console; Max-Age={_YEAR_S}; HttpOnly; SameSite=Lax{secure}"
    )
    return response


async def _form(visit: Visit, problem: LaunchbayError | None) -> Response:
    wanted = visit.form.text("next") or visit.query("next") or ""
    return await visit.page(
        "sign_in.html",
        problem=problem,
        email=visit.form.text("email"),
        next=own_path(wanted) if wanted else "",
        ways=visit.outside.sign_in_ways,
    )


SIGN_IN_PAGES = (
    Page("GET", SIGN_IN, sign_in_page, public=True),
    Page("POST", SIGN_IN, sign_in, public=True),
    Page("POST", "/console/signOut", sign_out),
    Page("POST", "/console/theme", choose_theme, public=True),
)
