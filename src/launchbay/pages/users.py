"""The users of an organization, their roles, and invitations."""

import asyncio
from typing import Any

from starlette.responses import Response

from launchbay.console.list_query import NamePage
from launchbay.console.rendering import read_role_words
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.features.scim.usecases import read_activity
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.model.findings import Hints
from launchbay.pages.audit import Told, told
from launchbay.store.users import AccountRow, OrganizationUserRow, SignInState
from launchbay.usecases import roles, second_factors, users
from launchbay.usecases.access_tokens import list_access_tokens
from launchbay.usecases.browsing import read_audit_page
from launchbay.usecases.environments import list_environments
from launchbay.usecases.organizations import AuditFilter
from launchbay.usecases.permissions import permitted_in_environments

routes = Routes()
_PLACES = 8  # environments in the table of permissions
_ACTIVITY = 6
_FIELDS = ("role", "factor", "is")  # of a filter


@routes.get("/console/organizations/{id}/users", query=("after", "do", "q"))
async def list_all(
    request: PageRequest, problem: LaunchbayError | None = None, *, invited: str = "", link: str = ""
) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    failed = problem is not None
    text, after = request.query("q") or "", request.query("after")
    wanted, wrong = _read_filter(text)
    asked_users = request.ask(_page(request, organization_id, wanted)) if wanted is not None else None
    asked_weak = request.ask(users.count_weak_members(request.ctx, organization_id))
    asked_roles = request.ask(roles.list_roles(request.ctx, organization_id))
    provisioning = request.ask(read_activity(request.ctx, organization_id))
    second_factor_required = request.ask(second_factors.read_requirement(request.ctx, organization_id))
    permissions = await request.permissions(organization_id)
    pending = await users.list_pending_members(request.ctx, organization_id) if permissions.manage_some_users() else []
    rows, states = await asked_users if asked_users is not None else ([], {})
    known_roles, shown = await asked_roles, rows[:CONSOLE_PAGE_ROWS]
    return await request.page(
        "users.html",
        section="users",
        organization_id=organization_id,
        problem=problem or wrong,
        page=NamePage(shown, text, after is None, shown[-1].id if len(rows) > len(shown) else None),
        status=400 if wrong and not failed else None,
        states=states,
        provisioning=await provisioning,
        scim_address=f"{request.origin}/scim/v2",
        weak=await asked_weak,
        text=text,
        pending=pending,
        roles=known_roles,
        role_ids={role.name: role.id for role in known_roles},
        opened=failed or request.query("do") == "invite",
        second_factor_required=second_factor_required,
        email=request.form.text("email") if failed else "",
        name=request.form.text("name") if failed else "",
        selected=request.form.all("role") if failed else [],
        is_for_program=failed and request.form.text("forProgram") != "",
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
        is_for_program=form.text("forProgram") != "",
    )
    if added.invitation is None:
        return request.redirect(f"{HOME}/organizations/{request.path('id')}/users", f"{form.text('email')} added.")
    link = _link(request, added.invitation.path)
    return await list_all(request, None, invited=form.text("email"), link=link)


@routes.get("/console/organizations/{id}/users/{user}")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    asked = request.ask(roles.list_roles(request.ctx, organization_id))
    view = await users.read_user(request.ctx, organization_id, request.path("user"))
    about = request.ask(_about(request, organization_id, view))
    known_roles = await asked
    await asyncio.to_thread(read_role_words, [each.permissions for each in known_roles])
    return await request.page(
        "user.html",
        section="users",
        **await about,
        organization_id=organization_id,
        problem=problem,
        view=view,
        seen=request.seen("/roles", _held(view)),
        roles=known_roles,
        blocked_s=request.ask(users.sign_in_blocked_s(request.ctx, organization_id, view.row.id)),
    )


@routes.post("/console/organizations/{id}/users/{user}/roles", again=show)
async def assign(request: PageRequest) -> Response:
    """Assign and revoke roles, so that the user has exactly the selected ones."""
    organization_id, user_id = request.path("id"), request.path("user")

    async def read() -> dict[str, list[str]]:
        return _held(await users.read_user(request.ctx, organization_id, user_id))

    async with request.unless_changed("users", user_id, read):
        wanted, held = set(request.form.all("role")), set((await read())["role"])
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


@routes.post("/console/organizations/{id}/users/{user}/unblock", again=show)
async def unblock(request: PageRequest) -> Response:
    await users.lift_sign_in_block(request.ctx, request.path("id"), request.path("user"))
    return request.redirect(_path(request), "The user can sign in again.")


@routes.post("/console/organizations/{id}/users/{user}/remove", again=show)
async def remove(request: PageRequest) -> Response:
    organization_id = request.path("id")
    await users.remove_user(request.ctx, organization_id, request.path("user"))
    return request.redirect(f"{HOME}/organizations/{organization_id}/users", "User removed.")


def _held(view: users.UserView[AccountRow]) -> dict[str, list[str]]:
    return {"role": sorted(view.row.roles)}


async def _about(request: PageRequest, organization_id: str, view: users.UserView[AccountRow]) -> dict[str, Any]:
    """Return what else the page shows, as far as the caller may see it."""
    permissions = await request.permissions(organization_id)
    user_id = view.row.id
    asked_states = request.ask(users.sign_in_states(request.ctx, organization_id, [user_id]))
    asked_tokens = None if view.is_pending else request.ask(list_access_tokens(request.ctx, organization_id, user_id))
    asks = not view.is_pending and (permissions.ask_about(user_id) or user_id == request.actor.user_id)
    places = (await list_environments(request.ctx, organization_id))[:_PLACES] if asks else []
    activity: list[Told] = []
    if permissions.view_audit() and not view.is_pending:
        own = AuditFilter(actor=user_id, actor_email=view.row.email)
        found, names = await read_audit_page(request.ctx, organization_id, own, before=None, count=_ACTIVITY)
        activity = [told(organization_id, row, names) for row in found]
    tokens, states = [] if asked_tokens is None else await asked_tokens, await asked_states
    return {
        "tokens": tokens,
        "state": states.get(user_id),
        "places": places,
        "may": await permitted_in_environments(request.ctx, organization_id, user_id, [place.id for place in places])
        if asks
        else None,
        "activity": activity,
    }


async def _page(
    request: PageRequest, organization_id: str, wanted: users.UserFilter
) -> tuple[list[OrganizationUserRow], dict[str, SignInState]]:
    """Return the users of the page, and how they sign in.

    One more user shows that another page follows.
    """
    after = request.query("after") or ""
    rows = await users.find_users(request.ctx, organization_id, after, CONSOLE_PAGE_ROWS + 1, wanted)
    return rows, await users.sign_in_states(request.ctx, organization_id, [row.id for row in rows])


def _read_filter(text: str) -> tuple[users.UserFilter | None, BadRequest | None]:
    """Return whom the terms of a filter select, or what is wrong with them.

    A term is a part of the name or address, `role:`, `factor:` or `is:disabled`.
    """
    found: dict[str, list[str]] = {"role": [], "factor": [], "is": [], "": []}
    for term in text.lower().split():
        kind, colon, value = term.partition(":")
        if colon and kind not in _FIELDS:
            hint = Hints().nearest(kind, _FIELDS) or f" Use one of these: {', '.join(_FIELDS)}."
            return None, BadRequest(f"There is no field {kind[:60]}.{hint}", code="InvalidFilter")
        if kind == "is" and value and value != "disabled":
            return None, BadRequest(f"{term[:60]}: use is:disabled.", code="InvalidFilter")
        found[kind if value else ""].append(value or term)
    return users.UserFilter(found[""], found["role"], found["factor"], is_disabled=bool(found["is"])), None


def _link(request: PageRequest, path: str) -> str:
    base = request.deps.base_url.rstrip("/") or f"http://{request.http.headers.get('host', 'localhost')}"
    return base + path


def _path(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/users/{request.path('user')}"
