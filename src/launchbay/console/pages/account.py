"""The caller's own account: refresh tokens and password."""

import dataclasses

from starlette.responses import Response

from launchbay.auth.cookies import session_cookie
from launchbay.console.page import Page
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.usecases import account, sign_in


async def show(visit: Visit) -> Response:
    """Show the account."""
    return await _show(visit, None)


async def change_password(visit: Visit) -> Response:
    """Change the password."""
    form = visit.form
    if form.raw("newPassword") != form.raw("repeatedPassword"):
        return await _show(visit, BadRequest("The two new passwords are not the same.", code="WrongPassword"))
    try:
        await account.change_password(visit.desk, visit.actor, form.raw("currentPassword"), form.raw("newPassword"))
    except (BadRequest, TooManyRequests) as error:
        return await _show(visit, error)
    # All sessions have ended with it; this browser goes on with a new one.
    session = await sign_in.open_session(visit.desk, visit.actor)
    going_on = dataclasses.replace(visit, session=session.token)
    response = going_on.go(f"{HOME}/account", "The password is changed. Other sessions have ended.")
    cookie = session_cookie(session.token, session.expires_in_s, secure=visit.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


async def end_session(visit: Visit) -> Response:
    """End a session, such as one in a browser that was left."""
    try:
        await sign_in.close_other_session(visit.desk, visit.actor, visit.path("id"))
    except NotFound as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/account", "The session has ended.")


async def revoke(visit: Visit) -> Response:
    """Revoke a refresh token."""
    try:
        await account.revoke_token(visit.desk, visit.actor, visit.path("id"))
    except NotFound as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/account", "The token is revoked.")


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    return await visit.page(
        "account.html",
        problem=problem,
        tokens=await account.list_tokens(visit.desk, visit.actor),
        sessions=await sign_in.list_sessions(visit.desk, visit.actor, visit.session),
    )


PAGES = (
    Page("GET", "/console/account", show),
    Page("POST", "/console/account/password", change_password),
    Page("POST", "/console/sessions/{id}/end", end_session),
    Page("POST", "/console/tokens/{id}/revoke", revoke),
)
