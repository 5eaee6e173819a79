"""Roles (reference §4, Roles). Who holds them is in handlers/members.py."""

from typing import Annotated

import msgspec

from launchbay.auth.permissions import OTHER_SPELLINGS, Permission
from launchbay.store.users import Role
from launchbay.usecases import permissions, roles
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Empty, Json, Paging, listed
from launchbay.web.routing import Endpoint, Returns

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

_Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{24}$", max_length=24)]
# These two are for the documentation; the use case reads both, and says more about what is wrong.
_NAMES = {"enum": [*Permission, *OTHER_SPELLINGS]}
_PATH = {
    "pattern": "^/(applications/[^/]+(/instances/[^/]+(/workflows/.+)?)?|(environments|services|roles|users)/[^/]+)$"
}


class ExplainQuery(msgspec.Struct, frozen=True):
    """Who, what, on which object."""

    permission: Annotated[
        str, msgspec.Meta(description="The permission's name, such as CreateInstance.", extra_json_schema=_NAMES)
    ]
    path: Annotated[
        str, msgspec.Meta(description="The object's path, such as /applications/{id}.", extra_json_schema=_PATH)
    ]
    user: Annotated[_Id | None, msgspec.Meta(description="The user's id; the caller without it.")] = None
    touching: Annotated[
        str | None,
        msgspec.Meta(
            description="Another object that is touched, such as a launch's /environments/{id}.",
            extra_json_schema=_PATH,
        ),
    ] = None
    organization: Annotated[_Id | None, msgspec.Meta(description="For a path of a user: in which organization.")] = None


class Explained(msgspec.Struct):
    """The decision, a sentence that says why, and the role, entry and pattern that allowed it."""

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None


async def explain(call: Call[None, ExplainQuery]) -> Answer:
    """Explain a decision."""
    query = call.query
    found = await permissions.explain(
        call.services.desk,
        call.actor,
        user_id=query.user,
        permission_name=query.permission,
        path=query.path,
        touching=query.touching,
        organization_id=query.organization,
    )
    return Json(Explained(found.allowed, found.reason, found.role, found.entry, found.pattern))


PERMISSIONS_ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/permissions/explain",
        operation_id="explain_permission",
        handler=explain,
        summary="Tells whether a user may do something, and which role, entry and pattern decide.",
        tags=("Roles",),
        permission="None for oneself, ManageRoles on the user for others",
        query=ExplainQuery,
        returns=Returns(
            Explained,
            "The decision.",
            {
                "allowed": True,
                "reason": "Role 'Guest' allows it by '/*' in 'Read: [/*]'.",
                "role": "Guest",
                "entry": "Read: [/*]",
                "pattern": "/*",
            },
        ),
        statuses=(403, 404),
        addition=True,
    ),
)
