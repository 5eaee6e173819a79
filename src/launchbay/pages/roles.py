"""Roles, and why an operation is allowed or not."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from launchbay.auth.gate import RoleEntry, entries_of_role, extent
from launchbay.auth.permissions import KINDS, Permission
from launchbay.console.forms import SEEN, seen_tag
from launchbay.console.list_query import page_by_name
from launchbay.console.rendering import read_role_words
from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, LaunchbayError, PreconditionFailed
from launchbay.ids import NamedRow
from launchbay.limits import CONSOLE_SUGGESTIONS
from launchbay.store.users import Role
from launchbay.usecases import roles
from launchbay.usecases.organizations import list_last_changes
from launchbay.usecases.permissions import Explanation, explain
from launchbay.usecases.users import find_user, find_users

_HOLDERS = 20  # that the page of a role names
_NEW_ROLE = "- Read: [/*]\n"
_COMPLETIONS = json.dumps({"permissions": list(Permission), "paths": ["/*", *(f"/{kind}/*" for kind in KINDS)]})


routes = Routes()


@routes.get(
    "/console/organizations/{id}/roles",
    query=("after", "groups", "groupsAfter", "path", "permission", "q", "touching", "user"),
)
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the roles, and explain a decision if the query names one."""
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    counted = request.ask(roles.count_holders(request.ctx, organization_id))
    question = request.ask(_question(request, organization_id))
    asked = request.ask(roles.list_roles(request.ctx, organization_id))
    explained, explanation_problem = await _explained(request, organization_id)
    every = await asked
    page = page_by_name(every, request.query("q"), request.query("after"))
    counts, grid = await asyncio.to_thread(_read_roles, page.rows)
    permissions = await request.permissions(organization_id)
    mapped = await roles.list_group_roles(request.ctx, organization_id) if permissions.map_groups(every) else None
    assignable = [role.name for role in every if permissions.assign_role(None, role.id)] if mapped is not None else []
    given = [] if mapped is None else [role.name for role in every if permissions.give_role(None, role)]
    named = [NamedRow(each.group, each.group) for each in mapped or ()]
    return await request.page(
        "roles.html",
        section="roles",
        organization_id=organization_id,
        problem=problem,
        page=page,
        entry_counts=counts,
        changed=request.ask(list_last_changes(request.ctx, organization_id, [row.id for row in page.rows])),
        counts=counted,
        grid=grid,
        check=request.ask(_checked(request, organization_id, None)),
        role_completions=_COMPLETIONS,
        groups=None if mapped is None else page_by_name(named, request.query("groups"), request.query("groupsAfter")),
        group_roles={each.group: each for each in mapped or ()},
        assignable=assignable,
        role_suggestions=given[:CONSOLE_SUGGESTIONS],
        seen_tag=seen_tag,
        group=request.form.text("group"),
        added=request.form.text("add"),
        name=request.form.text("name"),
        text=request.form.raw("permissions", _NEW_ROLE),
        **await question,
        explained=explained,
        explanation_problem=explanation_problem,
    )


@routes.post("/console/organizations/{id}/roles", again=list_all)
async def create(request: PageRequest) -> Response:
    organization_id, form = request.path("id"), request.form
    if form.text("do") == "check":
        return await list_all(request)
    created = await roles.create_role(request.ctx, organization_id, form.text("name"), form.raw("permissions"))
    return request.redirect(f"{HOME}/roles/{created.id}", "Role created.")


@routes.post("/console/organizations/{id}/groupRoles", again=list_all)
async def set_group(request: PageRequest) -> Response:
    """Set the roles of a group of the identity provider.

    The form of a new group only adds a role: the group may have some on another page.
    """
    organization_id, form = request.path("id"), request.form
    added = form.text("add")

    async def read() -> dict[str, list[str]]:
        groups = await roles.list_group_roles(request.ctx, organization_id)
        return {"role": next((sorted(each.roles) for each in groups if each.group == form.text("group")), [])}

    async with request.unless_changed("organizations", organization_id, read):
        kept = form.all("role") if form.has(SEEN) or not added else (await read())["role"]
        wanted = {*kept, *([added] if added else [])}
        await roles.set_group_roles(request.ctx, organization_id, form.text("group"), wanted)
    message = "Roles of the group saved. Members get and lose them at their next sign-in."
    return request.redirect(f"{HOME}/organizations/{organization_id}/roles", message)


@routes.get("/console/organizations/{id}/explanation", query=("path", "permission", "touching", "user"))
async def explanation(request: PageRequest) -> Response:
    """Explain why an operation is allowed or not, as a fragment."""
    explained, problem = await _explained(request, request.path("id"))
    return await request.fragment("explanation.html", explained=explained, explanation_problem=problem)


@routes.get("/console/roles/{id}")
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    role = await roles.read_role(request.ctx, request.path("id"))
    return await request.page(
        "role.html",
        section="roles",
        organization_id=role.organization_id,
        problem=problem,
        role=role,
        held_by=request.ask(roles.list_first_holders(request.ctx, role.id, _HOLDERS)),
        check=request.ask(_checked(request, role.organization_id, role)),
        role_completions=_COMPLETIONS,
        name=request.form.text("name", role.name),
        text=request.form.raw("permissions", role.permissions),
        seen=_seen(request, role, problem),
        theirs=isinstance(problem, PreconditionFailed),
        **await _question(request, role.organization_id),
        explained=None,
        explanation_problem=None,
    )


def _seen(request: PageRequest, role: Role, problem: LaunchbayError | None) -> str:
    """Return the tag of what the user has seen.

    Another problem doesn't show what others have saved.
    """
    now = seen_tag(_shown(role))
    return now if isinstance(problem, PreconditionFailed) else request.form.text(SEEN, now)


def _shown(role: Role) -> list[str]:
    return [role.name, role.permissions]


@routes.post("/console/roles/{id}", again=show, refusals=(BadRequest, PreconditionFailed))
async def update(request: PageRequest) -> Response:
    form = request.form
    if form.text("do") == "check":
        return await show(request)

    async def read() -> list[str]:
        return _shown(await roles.read_role(request.ctx, request.path("id")))

    async with request.unless_changed("roles", request.path("id"), read):
        await roles.update_role(request.ctx, request.path("id"), form.text("name"), form.raw("permissions"))
    return request.redirect(f"{HOME}/roles/{request.path('id')}", "Role saved. It applies from the next request.")


@routes.post("/console/roles/{id}/delete")
async def delete(request: PageRequest) -> Response:
    """Delete a role, and revoke it from all users."""
    role = await roles.read_role(request.ctx, request.path("id"))
    await roles.delete_role(request.ctx, role.id)
    return request.redirect(f"{HOME}/organizations/{role.organization_id}/roles", f"Role {role.name} deleted.")


def _read_roles(rows: Sequence[Role]) -> tuple[dict[str, int], list[tuple[str, list[str]]]]:
    """Return how many entries each role has, and for what it holds each permission; this takes long for many roles."""
    entries = {row.id: _entries(row) for row in rows}
    read_role_words(row.permissions for row in rows)
    used = {entry.permission for held in entries.values() for entry in held}
    grid = [(each.value, [extent(entries[row.id], each) for row in rows]) for each in Permission if each in used]
    return {row.id: len(entries[row.id]) for row in rows}, grid


def _entries(role: Role) -> tuple[RoleEntry, ...]:
    try:
        return entries_of_role(role.kind, role.permissions)
    except BadRequest:
        return ()  # a text of an older version that allows nothing any more


async def _checked(request: PageRequest, organization_id: str, role: Role | None) -> roles.RoleCheck | None:
    """Return who would gain and lose what by a text that was sent."""
    if not request.form.has("permissions"):
        return None
    text = request.form.raw("permissions")
    return await roles.check_role(request.ctx, organization_id, text, None if role is None else role.id)


async def _explained(request: PageRequest, organization_id: str) -> tuple[Explanation | None, LaunchbayError | None]:
    permission, path, user = request.query("permission"), request.query("path"), request.query("user")
    if permission is None or path is None:
        return None, None
    try:
        if user is not None and "@" in user:
            user = await find_user(request.ctx, organization_id, user)
        found = await explain(
            request.ctx,
            user_id=user,
            permission_name=permission,
            path=path,
            touching=request.query("touching"),
            organization_id=organization_id if path.startswith("/users/") else None,
        )
    except LaunchbayError as error:
        return None, error
    return found, None


async def _question(request: PageRequest, organization_id: str) -> dict[str, Any]:
    """Return the values of the form that asks for an explanation."""
    return {
        "people": await find_users(request.ctx, organization_id, "", CONSOLE_SUGGESTIONS),
        "permission_names": [permission.value for permission in Permission],
        "question": {name: request.query(name) or "" for name in ("user", "permission", "path", "touching")},
    }
