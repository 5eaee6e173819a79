"""Roles: their text, and why something is allowed or not."""

from typing import Any

from starlette.responses import Response

from launchbay.auth.permissions import Permission
from launchbay.console.request import HOME, Page, Visit
from launchbay.errors import BadRequest, LaunchbayError
from launchbay.usecases import roles
from launchbay.usecases.permissions import Explanation, explain
from launchbay.usecases.users import list_users

_FIRST_TEXT = "- Read: [/*]\n"


async def list_all(visit: Visit) -> Response:
    """Show the roles, and explain a decision that is asked about."""
    return await _list(visit, None)


async def create(visit: Visit) -> Response:
    """Create a role."""
    organization_id, form = visit.path("id"), visit.form
    try:
        created = await roles.create_role(visit.ctx, organization_id, form.text("name"), form.raw("permissions"))
    except BadRequest as error:
        return await _list(visit, error)
    return visit.go(f"{HOME}/roles/{created.id}", "The role is there.")


async def show(visit: Visit) -> Response:
    """Show a role."""
    return await _show(visit, None)


async def update(visit: Visit) -> Response:
    """Replace name and text of a role."""
    form = visit.form
    try:
        await roles.update_role(visit.ctx, visit.path("id"), form.text("name"), form.raw("permissions"))
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/roles/{visit.path('id')}", "The role is kept; it counts from the next request on.")


async def delete(visit: Visit) -> Response:
    """Delete a role, which takes it from everybody."""
    role = await roles.read_role(visit.ctx, visit.path("id"))
    await roles.delete_role(visit.ctx, role.id)
    return visit.go(f"{HOME}/organizations/{role.organization_id}/roles", f"{role.name} is deleted.")


async def explanation(visit: Visit) -> Response:
    """Answer why something is allowed or not, as a part of a page."""
    explained, problem = await _explained(visit, visit.path("id"))
    return visit.part("explanation.html", explained=explained, problem=problem)


async def _explained(visit: Visit, organization_id: str) -> tuple[Explanation | None, LaunchbayError | None]:
    permission, path = visit.query("permission"), visit.query("path")
    if permission is None or path is None:
        return None, None
    try:
        found = await explain(
            visit.ctx,
            user_id=visit.query("user"),
            permission_name=permission,
            path=path,
            touching=visit.query("touching"),
            organization_id=organization_id if path.startswith("/users/") else None,
        )
    except LaunchbayError as error:
        return None, error
    return found, None


async def _list(visit: Visit, problem: LaunchbayError | None) -> Response:
    organization_id = visit.path("id")
    explained, unclear = await _explained(visit, organization_id)
    return await visit.page(
        "roles.html",
        section="roles",
        organization_id=organization_id,
        problem=problem,
        rows=await roles.list_roles(visit.ctx, organization_id),
        name=visit.form.text("name"),
        text=visit.form.raw("permissions", _FIRST_TEXT),
        **await _question(visit, organization_id),
        explained=explained,
        unclear=unclear,
    )


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    role = await roles.read_role(visit.ctx, visit.path("id"))
    return await visit.page(
        "role.html",
        section="roles",
        organization_id=role.organization_id,
        problem=problem,
        role=role,
        name=visit.form.text("name", role.name),
        text=visit.form.raw("permissions", role.permissions),
        **await _question(visit, role.organization_id),
        explained=None,
        unclear=None,
    )


async def _question(visit: Visit, organization_id: str) -> dict[str, Any]:
    """Return what the form of the question is filled with."""
    return {
        "people": [view.row for view in await list_users(visit.ctx, organization_id)],
        "permissions": [permission.value for permission in Permission],
        "asked": {name: visit.query(name) or "" for name in ("user", "permission", "path", "touching")},
    }


PAGES = (
    Page("GET", "/console/organizations/{id}/roles", list_all),
    Page("POST", "/console/organizations/{id}/roles", create),
    Page("GET", "/console/organizations/{id}/explanation", explanation),
    Page("GET", "/console/roles/{id}", show),
    Page("POST", "/console/roles/{id}", update),
    Page("POST", "/console/roles/{id}/delete", delete),
)
