"""The user's own account: password, refresh tokens, sessions, users."""

import dataclasses

from starlette.responses import Response

from launchbay.auth.cookies import session_cookie
from launchbay.console.request import HOME, PageRequest, Routes, override_cookie, safe_path
from launchbay.errors import BadRequest, LaunchbayError, NotAuthenticated, NotFound, TooManyRequests
from launchbay.model.freezes import override_reason
from launchbay.pages.sign_in import finish_set_up_form, set_up_page
from launchbay.usecases import access_tokens, account, second_factors, sign_in, users

routes = Routes()


@routes.get("/console/account")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await request.page(
        "account.html",
        problem=problem,
        tokens=request.ask(account.list_tokens(request.ctx)),
        access_tokens=request.ask(access_tokens.list_own(request.ctx)),
        factors=request.ask(second_factors.list_own(request.ctx)),
        sessions=request.ask(sign_in.list_sessions(request.ctx, request.session)),
        invitations=request.ask(users.list_invitations(request.ctx)),
    )


@routes.post("/console/account/password")
async def change_password(request: PageRequest) -> Response:
    form = request.form
    if form.raw("newPassword") != form.raw("repeatedPassword"):
        return await show(
            request, BadRequest("The new passwords don't match.", code="WrongPassword", field="repeatedPassword")
        )
    try:
        await account.change_password(request.ctx, form.raw("currentPassword"), form.raw("newPassword"))
    except (BadRequest, TooManyRequests) as error:
        return await show(request, error)
    # The change ended all sessions; this browser continues with a new one.
    session = await sign_in.open_session(request.ctx)
    renewed = dataclasses.replace(request, session=session.token)
    response = renewed.redirect(f"{HOME}/account", "Password changed. Your other sessions have ended.")
    cookie = session_cookie(session.token, session.expires_in_s, secure=request.is_secure)
    response.headers.append("Set-Cookie", cookie)
    return response


@routes.post("/console/account/override-freeze", again=show)
async def override_freeze(request: PageRequest) -> Response:
    """Let forms change what is frozen for some minutes, or no longer.

    Each of them asks for the permission.
    """
    path = safe_path(request.form.text("back"))
    reason = None if request.form.text("do") == "end" else override_reason(request.form.text("reason"))
    told = "Freezes count again." if reason is None else "For 10 minutes, your changes go through."
    response = request.redirect(path, told)
    response.headers.append("Set-Cookie", override_cookie(request.session, reason, secure=request.is_secure))
    return response


@routes.post("/console/sessions/{id}/end", again=show, refusals=(NotFound,))
async def end_session(request: PageRequest) -> Response:
    await sign_in.close_other_session(request.ctx, request.path("id"))
    return request.redirect(f"{HOME}/account", "Session ended.")


@routes.post("/console/account/sign-out-everywhere")
async def sign_out_everywhere(request: PageRequest) -> Response:
    await account.sign_out_everywhere(request.ctx)
    return request.redirect(HOME)


@routes.post("/console/tokens/{id}/revoke", again=show, refusals=(NotFound,))
async def revoke(request: PageRequest) -> Response:
    await account.revoke_token(request.ctx, request.path("id"))
    return request.redirect(f"{HOME}/account", "Token revoked.")


@routes.get("/console/invitations/{token}")
async def invitation(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    found = await users.read_invitation(request.ctx, request.path("token"))
    return await request.page("invitation.html", problem=problem, invitation=found, token=request.path("token"))


@routes.post("/console/invitations/{token}/accept", again=invitation)
async def accept(request: PageRequest) -> Response:
    organization_id = await users.accept_membership(request.ctx, request.path("token"))
    return request.redirect(f"{HOME}/organizations/{organization_id}", "You have joined this organization.")


@routes.post("/console/account/invitations/{id}/decline", again=show, refusals=(NotFound,))
async def decline(request: PageRequest) -> Response:
    await users.decline_membership(request.ctx, request.path("id"))
    return request.redirect(f"{HOME}/account", "Invitation declined.")


@routes.post("/console/account/organizations/{id}/leave", again=show)
async def leave(request: PageRequest) -> Response:
    await users.leave_organization(request.ctx, request.path("id"))
    return request.redirect(f"{HOME}/account", "You have left the organization.")


_SET_UP = "/console/account/secondFactors/setUp"


@routes.post("/console/account/secondFactors", again=show, refusals=(BadRequest, TooManyRequests))
async def begin_set_up(request: PageRequest) -> Response:
    """Check the password, and show the page to set up a second factor."""
    token = await second_factors.begin_set_up(request.ctx, request.form.raw("currentPassword"))
    return await set_up_page(request, token, None, path=_SET_UP)


async def _set_up_again(request: PageRequest, problem: LaunchbayError) -> Response:
    try:
        return await set_up_page(request, request.form.text("token"), problem, path=_SET_UP)
    except NotAuthenticated as ended:
        return await show(request, ended)


@routes.post(_SET_UP, again=_set_up_again, refusals=(BadRequest, NotAuthenticated, TooManyRequests))
async def set_up(request: PageRequest) -> Response:
    """Set up a second factor. With the first one, show the recovery codes."""
    done = await finish_set_up_form(request)
    if done.recovery_codes:
        return await request.page("recovery_codes.html", codes=done.recovery_codes, next=f"{HOME}/account")
    return request.redirect(f"{HOME}/account", "Second factor added. Your other sessions have ended.")


@routes.post("/console/account/secondFactors/{id}/remove", again=show, refusals=(BadRequest, NotFound, TooManyRequests))
async def remove_factor(request: PageRequest) -> Response:
    password = request.form.raw("currentPassword")
    await second_factors.remove(request.ctx, request.path("id"), password, request.session)
    return request.redirect(f"{HOME}/account", "Second factor removed. Your other sessions have ended.")


@routes.post("/console/account/recoveryCodes", again=show, refusals=(BadRequest, TooManyRequests))
async def renew_recovery_codes(request: PageRequest) -> Response:
    codes = await second_factors.renew_recovery_codes(request.ctx, request.form.raw("currentPassword"))
    return await request.page("recovery_codes.html", codes=codes, next=f"{HOME}/account")


@routes.post("/console/account/tokens", again=show, refusals=(BadRequest, TooManyRequests))
async def generate_token(request: PageRequest) -> Response:
    """Check the password, and show a new refresh token once."""
    await second_factors.require_password(request.ctx, request.form.raw("currentPassword"))
    generated = await account.generate_token(request.ctx, request.form.text("label"))
    return await request.page("new_token.html", token=generated.token, expires_at=generated.row.expires_at)
