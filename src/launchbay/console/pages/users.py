"""The users of an organization, their roles, and invitations."""

from starlette.responses import Response

from launchbay.console.request import HOME, Page, Visit
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.usecases import roles, users


async def list_all(visit: Visit) -> Response:
    """Show the users."""
    return await _list(visit, None)


async def add(visit: Visit) -> Response:
    """Add a user. The link of an invitation is shown this once, so the answer is the page itself."""
    form = visit.form
    try:
        added = await users.create_user(
            visit.ctx,
            visit.path("id"),
            email=form.text("email"),
            name=form.text("name") or form.text("email"),
            password=form.raw("password") or None,
            role_names=form.all("role"),
        )
    except BadRequest as error:
        return await _list(visit, error)
    if added.invitation is None:
        return visit.go(f"{HOME}/organizations/{visit.path('id')}/users", f"{form.text('email')} is added.")
    return await _list(visit, None, invited=form.text("email"), link=_link(visit, added.invitation.token))


async def show(visit: Visit) -> Response:
    """Show a user."""
    return await _show(visit, None)


async def assign(visit: Visit) -> Response:
    """Give and take roles, so that the user holds those that are ticked."""
    organization_id, user_id = visit.path("id"), visit.path("user")
    try:
        view = await users.read_user(visit.ctx, organization_id, user_id)
        wanted, held = set(visit.form.all("role")), set(view.row.roles)
        if wanted - held:
            await roles.assign_roles(visit.ctx, organization_id, user_id, sorted(wanted - held))
        if held - wanted:
            await roles.revoke_roles(visit.ctx, organization_id, user_id, sorted(held - wanted))
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(_path(visit), "The roles are kept.")


async def enable(visit: Visit) -> Response:
    """Disable or enable the account."""
    enabled = visit.form.text("do") == "enable"
    try:
        await users.update_user(visit.ctx, visit.path("id"), visit.path("user"), enabled=enabled)
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(_path(visit), "The account is enabled." if enabled else "The account is disabled.")


async def remove(visit: Visit) -> Response:
    """Take the user out of the organization."""
    organization_id = visit.path("id")
    try:
        await users.remove_user(visit.ctx, organization_id, visit.path("user"))
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/organizations/{organization_id}/users", "The user is removed.")


async def _list(visit: Visit, problem: LaunchbayError | None, *, invited: str = "", link: str = "") -> Response:
    organization_id = visit.path("id")
    is_refused = problem is not None
    return await visit.page(
        "users.html",
        section="users",
        organization_id=organization_id,
        problem=problem,
        rows=await users.list_users(visit.ctx, organization_id),
        roles=await roles.list_roles(visit.ctx, organization_id),
        email=visit.form.text("email") if is_refused else "",
        name=visit.form.text("name") if is_refused else "",
        ticked=visit.form.all("role") if is_refused else [],
        invited=invited,
        link=link,
    )


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    organization_id = visit.path("id")
    view = await users.read_user(visit.ctx, organization_id, visit.path("user"))
    return await visit.page(
        "user.html",
        section="users",
        organization_id=organization_id,
        problem=problem,
        view=view,
        roles=await roles.list_roles(visit.ctx, organization_id),
    )


def _link(visit: Visit, token: str) -> str:
    base = visit.outside.base_url.rstrip("/") or f"http://{visit.request.headers.get('host', 'localhost')}"
    return f"{base}/invitation/{token}"


def _path(visit: Visit) -> str:
    return f"{HOME}/organizations/{visit.path('id')}/users/{visit.path('user')}"


PAGES = (
    Page("GET", "/console/organizations/{id}/users", list_all),
    Page("POST", "/console/organizations/{id}/users", add),
    Page("GET", "/console/organizations/{id}/users/{user}", show),
    Page("POST", "/console/organizations/{id}/users/{user}/roles", assign),
    Page("POST", "/console/organizations/{id}/users/{user}/enabled", enable),
    Page("POST", "/console/organizations/{id}/users/{user}/remove", remove),
)
