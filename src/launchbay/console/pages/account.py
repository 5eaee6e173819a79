"""The caller's own account: refresh tokens and password."""

import dataclasses

from starlette.responses import RedirectResponse, Response

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import session_cookie
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, SIGN_IN, THEME_COOKIE, THEMES, PageRequest, PageRoute, safe_path
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.usecases import account
from launchbay.usecases import sign_in as usecases_sign_in
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import close_session, open_session


async def show(request: PageRequest) -> Response:
    """Show the account."""
    return await _show(request, None)


async def change_password(request: PageRequest) -> Response:
    """Change the password."""
    form = request.form
    if form.raw("newPassword") != form.raw("repeatedPassword"):
        return await _show(request, BadRequest("The two new passwords are not the same.", code="WrongPassword"))
    try:
        await account.change_password(request.ctx, form.raw("currentPassword"), form.raw("newPassword"))
    except (BadRequest, TooManyRequests) as error:
        return await _show(request, error)
    # All sessions have ended with it; this browser goes on with a new one.
    session = await usecases_sign_in.open_session(request.ctx)
    going_on = dataclasses.replace(request, session=session.token)
    response = going_on.redirect(f"{HOME}/account", "The password is changed. Other sessions have ended.")
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def end_session(request: PageRequest) -> Response:
    """End a session, such as one in a browser that was left."""
    try:
        await usecases_sign_in.close_other_session(request.ctx, request.path("id"))
    except NotFound as error:
        return await _show(request, error)
    return request.redirect(f"{HOME}/account", "The session has ended.")


async def revoke(request: PageRequest) -> Response:
    """Revoke a refresh token."""
    try:
        await account.revoke_token(request.ctx, request.path("id"))
    except NotFound as error:
        return await _show(request, error)
    return request.redirect(f"{HOME}/account", "The token is revoked.")


async def _show(request: PageRequest, problem: LaunchbayError | None) -> Response:
    return await request.page(
        "account.html",
        problem=problem,
        tokens=await account.list_tokens(request.ctx),
        sessions=await usecases_sign_in.list_sessions(request.ctx, request.session),
    )


ROUTES = (
    PageRoute("GET", "/console/account", show),
    PageRoute("POST", "/console/account/password", change_password),
    PageRoute("POST", "/console/sessions/{id}/end", end_session),
    PageRoute("POST", "/console/tokens/{id}/revoke", revoke),
)

_YEAR_S = 365 * 24 * 3600


async def sign_in_page(request: PageRequest) -> Response:
    """Show the form that signs in."""
    return await _form(request, None)


async def sign_in(page_request: PageRequest) -> Response:
    """Sign in with e-mail address and password; whatever is wrong is shown above the form."""
    form, request = page_request.form, page_request.http
    address = request.client.host if request.client else ""
    try:
        credentials = BasicCredentials(form.text("email"), form.raw("password"))
        actor = await page_request.app.sign_in.authenticate(credentials, address)
        session = await open_session(Context(page_request.app, actor))
    except LaunchbayError as error:
        return await _form(page_request, error)
    response = RedirectResponse(safe_path(form.text("next")), 303, HEADERS)
    cookie = session_cookie(session.token, session.expires_in_s, secure=page_request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def sign_out(request: PageRequest) -> Response:
    """End the session, here and wherever a copy of its cookie is."""
    await close_session(request.ctx, request.session)
    response = RedirectResponse(SIGN_IN, 303, HEADERS)
    response.headers.append("Set-Cookie", session_cookie("", 0, secure=request.is_secure))
    return response


async def choose_theme(request: PageRequest) -> Response:
    """Keep light, dark, or what the system says, and go back."""
    theme = request.form.text("theme")
    response = RedirectResponse(safe_path(request.form.text("back")), 303, HEADERS)
    chosen = theme if theme in THEMES else "auto"
    secure = "; Secure" if request.is_secure else ""
    response.headers.append(
        "Set-Cookie", f"{THEME_COOKIE}={chosen}; Path=/console; Max-Age={_YEAR_S}; HttpOnly; SameSite=Lax{secure}"
    )
    return response


async def _form(request: PageRequest, problem: LaunchbayError | None) -> Response:
    wanted = request.form.text("next") or request.query("next") or ""
    return await request.page(
        "sign_in.html",
        problem=problem,
        email=request.form.text("email"),
        next=safe_path(wanted) if wanted else "",
        ways=request.deps.sign_in_links,
    )


SIGN_IN_ROUTES = (
    PageRoute("GET", SIGN_IN, sign_in_page, public=True),
    PageRoute("POST", SIGN_IN, sign_in, public=True),
    PageRoute("POST", "/console/signOut", sign_out),
    PageRoute("POST", "/console/theme", choose_theme, public=True),
)
