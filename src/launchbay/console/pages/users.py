"""The users of an organization, their roles, and invitations."""

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import LaunchbayError
from launchbay.usecases import roles, second_factors, users

routes = Routes()


@routes.get("/console/organizations/{id}/users")
async def list_all(
    request: PageRequest, problem: LaunchbayError | None = None, *, invited: str = "", link: str = ""
) -> Response:
    organization_id = request.path("id")
    failed = problem is not None
    permissions = await request.permissions(organization_id)
    pending = await users.list_pending_members(request.ctx, organization_id) if permissions.manage_some_users() else []
    return await request.page(
        "users.html",
        section="users",
        organization_id=organization_id,
        problem=problem,
        rows=await users.list_users(request.ctx, organization_id),
        pending=pending,
        roles=await roles.list_roles(request.ctx, organization_id),
        second_factor_required=await second_factors.read_requirement(request.ctx, organization_id),
        email=request.form.text("email") if failed else "",
        name=request.form.text("name") if failed else "",
        selected=request.form.all("role") if failed else [],
        invited=invited,
        link=link,
    )


@routes.post("/console/organizations/{id}/users", again=list_all)
async def add(request: PageRequest) -> Response:
    """Add a user. An invitation link is shown only once, so the response is the page itself."""
    form = request.form
    added = await users.create_user(
        request.ctx,
        request.path("id"),
        email=form.text("email"),
        name=form.text("name") or form.text("email"),
        password=form.raw("password") or None,
        role_names=form.all("role"),
    )
    if added.invitation is None:
        return request.redirect(f"{HOME}/organizations/{request.path('id')}/users", f"{form.text('email')} added.")
    link = _link(request, added.invitation.path)
    return await list_all(request, None, invited=form.text("email"), link=link)


@routes.get("/console/organizations/{id}/users/{user}")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    view = await users.read_user(request.ctx, organization_id, request.path("user"))
    return await request.page(
        "user.html",
        section="users",
        organization_id=organization_id,
        problem=problem,
        view=view,
        roles=await roles.list_roles(request.ctx, organization_id),
        blocked_s=await users.sign_in_blocked_s(request.ctx, organization_id, view.row.id),
    )


@routes.post("/console/organizations/{id}/users/{user}/roles", again=show)
async def assign(request: PageRequest) -> Response:
    """Assign and revoke roles, so that the user has exactly the selected ones."""
    organization_id, user_id = request.path("id"), request.path("user")
    view = await users.read_user(request.ctx, organization_id, user_id)
    wanted, held = set(request.form.all("role")), set(view.row.roles)
    if wanted - held:
        await roles.assign_roles(request.ctx, organization_id, user_id, sorted(wanted - held))
    if held - wanted:
        await roles.revoke_roles(request.ctx, organization_id, user_id, sorted(held - wanted))
    return request.redirect(_path(request), "Roles saved.")


@routes.post("/console/organizations/{id}/users/{user}/enabled", again=show)
async def enable(request: PageRequest) -> Response:
    enabled = request.form.text("do") == "enable"
    await users.update_user(request.ctx, request.path("id"), request.path("user"), enabled=enabled)
    return request.redirect(_path(request), "Account enabled." if enabled else "Account disabled.")


@routes.post("/console/organizations/{id}/users/{user}/secondFactors/reset", again=show)
async def reset_second_factors(request: PageRequest) -> Response:
    await users.reset_second_factors(request.ctx, request.path("id"), request.path("user"))
    return request.redirect(_path(request), "Second factors removed.")


@routes.post("/console/organizations/{id}/signInPolicy", again=list_all)
async def write_sign_in_policy(request: PageRequest) -> Response:
    organization_id, required = request.path("id"), request.form.has("secondFactorRequired")
    await second_factors.write_requirement(request.ctx, organization_id, required=required)
    return request.redirect(f"{HOME}/organizations/{organization_id}/users", "Sign-in policy saved.")


@routes.post("/console/organizations/{id}/users/{user}/unblock", again=show)
async def unblock(request: PageRequest) -> Response:
    await users.lift_sign_in_block(request.ctx, request.path("id"), request.path("user"))
    return request.redirect(_path(request), "The user can sign in again.")


@routes.post("/console/organizations/{id}/users/{user}/remove", again=show)
async def remove(request: PageRequest) -> Response:
    organization_id = request.path("id")
    await users.remove_user(request.ctx, organization_id, request.path("user"))
    return request.redirect(f"{HOME}/organizations/{organization_id}/users", "User removed.")


def _link(request: PageRequest, path: str) -> str:
    base = request.deps.base_url.rstrip("/") or f"http://{request.http.headers.get('host', 'localhost')}"
    return base + path


def _path(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/users/{request.path('user')}"
