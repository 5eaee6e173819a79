"""The user's own account: password, refresh tokens, sessions, users."""

import dataclasses

from starlette.responses import Response

from launchbay.auth.cookies import session_cookie
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, NotFound, TooManyRequests
from launchbay.usecases import account, sign_in, users

routes = Routes()


@routes.get("/console/account")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    return await request.page(
        "account.html",
        problem=problem,
        tokens=await account.list_tokens(request.ctx),
        sessions=await sign_in.list_sessions(request.ctx, request.session),
        invitations=await users.list_invitations(request.ctx),
    )


@routes.post("/console/account/password")
async def change_password(request: PageRequest) -> Response:
    form = request.form
    if form.raw("newPassword") != form.raw("repeatedPassword"):
        return await show(request, BadRequest("The new passwords don't match.", code="WrongPassword"))
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
