"""The caller's own account: refresh tokens and password."""

from starlette.responses import Response

from launchbay.console.page import Page
from launchbay.console.visit import HOME, Visit
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.usecases import account, tokens


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
    return visit.go(f"{HOME}/account", "The password is changed.")


async def revoke(visit: Visit) -> Response:
    """Revoke a refresh token."""
    try:
        await tokens.revoke_token(visit.desk, visit.actor, visit.path("id"))
    except NotFound as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/account", "The token is revoked.")


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    return await visit.page("account.html", problem=problem, tokens=await tokens.list_tokens(visit.desk, visit.actor))


PAGES = (
    Page("GET", "/console/account", show),
    Page("POST", "/console/account/password", change_password),
    Page("POST", "/console/tokens/{id}/revoke", revoke),
)
