"""Roles (reference §4, Roles). Who holds them is in handlers/members.py."""

import msgspec

from launchbay.store.users import Role
from launchbay.usecases import roles
from launchbay.web.answers import Answer, Empty, Json
from launchbay.web.call import Call
from launchbay.web.encode import Paging
from launchbay.web.endpoint import Endpoint, JsonBody, Returns
from launchbay.web.handlers.lists import listed

_TAGS = ("Roles",)
_ID = "5f" * 12
_TEXT = "- CreateInstance: [/applications/*, /environments/*]\n- EditInstance: [/applications/*]\n"
_ITEM = {"id": _ID, "name": "Developer", "canEdit": True, "canDelete": True}


class RoleItem(msgspec.Struct):
    """A role as lists show it."""

    id: str
    name: str
    canEdit: bool
    canDelete: bool


class RoleDetail(RoleItem):
    """A role with its permissions, as its author wrote them."""

    permissions: str


class RoleBody(msgspec.Struct):
    """Name and permissions of a role."""

    name: str
    permissions: str


async def list_roles(call: Call[None, Paging]) -> Answer:
    """List the roles of an organization."""
    rows = await roles.list_roles(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [RoleItem(row.id, row.name, row.can_edit, row.can_delete) for row in rows])


async def read_role(call: Call[None, None]) -> Answer:
    """Read one role."""
    return _detail(await roles.read_role(call.services.desk, call.actor, call.path["roleId"]))


async def create_role(call: Call[RoleBody, None]) -> Answer:
    """Create a role."""
    body = call.body
    return _detail(
        await roles.create_role(call.services.desk, call.actor, call.path["orgId"], body.name, body.permissions)
    )


async def update_role(call: Call[RoleBody, None]) -> Answer:
    """Modify a role."""
    body = call.body
    await roles.update_role(call.services.desk, call.actor, call.path["roleId"], body.name, body.permissions)
    return Empty()


async def delete_role(call: Call[None, None]) -> Answer:
    """Remove a role."""
    await roles.delete_role(call.services.desk, call.actor, call.path["roleId"])
    return Empty()


def _detail(role: Role) -> Answer:
    return Json(RoleDetail(role.id, role.name, role.can_edit, role.can_delete, role.permissions))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/roles",
        operation_id="list_roles",
        handler=list_roles,
        summary="Lists the roles of an organization.",
        tags=_TAGS,
        permission="Read on each role shown.",
        query=Paging,
        returns=Returns(list[RoleItem], "The roles.", [_ITEM]),
        statuses=(403,),
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations/{orgId}/roles",
        operation_id="create_role",
        handler=create_role,
        summary="Creates a role.",
        tags=_TAGS,
        permission="ManageRoles",
        body=JsonBody(RoleBody, example={"name": "Developer", "permissions": _TEXT}),
        returns=Returns(RoleDetail, "The new role.", {**_ITEM, "permissions": _TEXT}),
        statuses=(403,),
        idempotency_key=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/roles/{roleId}",
        operation_id="read_role",
        handler=read_role,
        summary="Reads a role with its permissions.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(RoleDetail, "The role.", {**_ITEM, "permissions": _TEXT}),
        statuses=(403,),
    ),
    Endpoint(
        method="PUT",
        path="/api/1/roles/{roleId}",
        operation_id="update_role",
        handler=update_role,
        summary="Modifies a role; it counts for the next request of everybody who holds it.",
        tags=_TAGS,
        permission="ManageRoles",
        body=JsonBody(RoleBody, example={"name": "Developer", "permissions": _TEXT}),
        statuses=(403,),
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/roles/{roleId}",
        operation_id="delete_role",
        handler=delete_role,
        summary="Removes a role, also from everybody who holds it.",
        tags=_TAGS,
        permission="ManageRoles",
        statuses=(403,),
    ),
)
