"""Signing in and out, and how the pages look for this browser."""

from starlette.responses import RedirectResponse, Response

from launchbay.auth.authentication import BasicCredentials
from launchbay.auth.cookies import session_cookie
from launchbay.console.page import Page
from launchbay.console.rendering import HEADERS
from launchbay.console.visit import SIGN_IN, THEME_COOKIE, THEMES, Visit, own_path
from launchbay.errors import LaunchbayError
from launchbay.usecases.sign_in import close_session, open_session

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
        actor = await visit.desk.sign_in.authenticate(credentials, address)
        session = await open_session(visit.desk, actor)
    except LaunchbayError as error:
        return await _form(visit, error)
    response = RedirectResponse(own_path(form.text("next")), 303, HEADERS)
    cookie = session_cookie(session.token, session.expires_in_s, secure=visit.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def sign_out(visit: Visit) -> Response:
    """End the session, here and wherever a copy of its cookie is."""
    await close_session(visit.desk, visit.actor, visit.session)
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


PAGES = (
    Page("GET", SIGN_IN, sign_in_page, public=True),
    Page("POST", SIGN_IN, sign_in, public=True),
    Page("POST", "/console/signOut", sign_out),
    Page("POST", "/console/theme", choose_theme, public=True),
)
