"""Signing in and out, and the theme."""

from starlette.responses import RedirectResponse, Response

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import session_cookie, set_cookie
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, SIGN_IN, THEME_COOKIE, THEMES, PageRequest, Routes, safe_path
from launchbay.errors import LaunchbayError
from launchbay.usecases.context import Context
from launchbay.usecases.sign_in import close_session, open_session

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
    )


@routes.post(SIGN_IN, public=True)
async def sign_in(page_request: PageRequest) -> Response:
    """Sign in with email address and password; errors appear above the form."""
    form, request = page_request.form, page_request.http
    address = request.client.host if request.client else ""
    try:
        credentials = BasicCredentials(form.text("email"), form.raw("password"))
        actor = await page_request.app.sign_in.authenticate(credentials, address)
        session = await open_session(Context(page_request.app, actor))
    except LaunchbayError as error:
        return await sign_in_page(page_request, error)
    response = RedirectResponse(safe_path(form.text("next")), 303, HEADERS)
    cookie = session_cookie(session.token, session.expires_in_s, secure=page_request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


@routes.post("/console/signOut")
async def sign_out(request: PageRequest) -> Response:
    """End the session on the server, and clear its cookie."""
    await close_session(request.ctx, request.session)
    response = RedirectResponse(SIGN_IN, 303, HEADERS)
    response.headers.append("Set-Cookie", session_cookie("", 0, secure=request.is_secure))
    return response


@routes.post("/console/theme", public=True)
async def choose_theme(request: PageRequest) -> Response:
    """Store the theme (light, dark, or the system's), and go back."""
    theme = request.form.text("theme")
    response = RedirectResponse(safe_path(request.form.text("back")), 303, HEADERS)
    chosen = theme if theme in THEMES else "auto"
    cookie = set_cookie(THEME_COOKIE, chosen, _YEAR_S, path=HOME, secure=request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response
